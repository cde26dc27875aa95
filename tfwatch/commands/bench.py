"""`tfwatch bench`: is the GPU worth it for this model, on this machine? Each configuration in a process of its own."""

from __future__ import annotations

import math
import random
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch import workloads
from tfwatch.commands.memory import too_much
from tfwatch.doctor.death import explain
from tfwatch.doctor.glance import gpu_here
from tfwatch.doctor.tensorflow_log import fell_back
from tfwatch.doctor.trial import run_trial
from tfwatch.runs.container import free_bytes
from tfwatch.training.measuring import Spec, encode
from tfwatch.workloads import BadInputError
from tfwatch.workloads.estimate import needed_alone_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tfwatch.doctor.glance import GpuHere
    from tfwatch.doctor.trial import Trial

DEVICES = ("cpu", "gpu")
MODES = ("graph", "eager", "jit")
#: Building a large network and loading its data takes a minute on a slow machine.
_LIMIT_S = 300.0
#: As in `doctor.trial`: not the folder that `-c` looks in first.
_PROGRAM = (
    "import sys; sys.path[:] = [p for p in sys.path if p] + sys.argv[1:2]; "
    "from tfwatch.training.measuring import main; main(sys.argv[2])"
)
#: A median that is less certain than this, as a share of it, is measured in more rounds, and told.
WIDE = 0.05
#: So many times the asked rounds at most.
_MORE = 3
#: Other programs that use this many cores make figures unsteady.
BUSY_CORES = 0.25


@dataclass(frozen=True, slots=True)
class Wish:
    """What to compare; no workload is all of them, no batch size each workload's own."""

    workloads: Sequence[str] = ()
    devices: Sequence[str] = DEVICES
    modes: Sequence[str] = ("graph",)
    batch_sizes: Sequence[int] = ()
    size: int | None = None
    rounds: int = 3
    seconds: float = 2.0


@dataclass(slots=True)
class Row:
    """One configuration and what its rounds said.

    medians_ms: of each round's steps. first_ms: of each round's first step, which traces and compiles.
    others_cores: what other programs used of the processor in each round, as far as it is known.
    reason: why it was not measured; empty where it was. fell_back: operations that a GPU should have had.
    """

    spec: Spec
    medians_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    others_cores: list[float] = field(default_factory=list)
    examples: int = 0
    reason: str = ""
    fell_back: list[str] = field(default_factory=list)
    no_gpu: bool = False

    @property
    def step_ms(self) -> float | None:
        """The median of the rounds' medians; None where nothing was measured."""
        return statistics.median(self.medians_ms) if self.medians_ms else None

    @property
    def spread(self) -> float | None:
        """How far the interval reaches in which the true median lies 95 times of 100, as a share of the median.

        None of fewer than two rounds. By order statistics, so that nothing is supposed of how times are distributed; of
        fewer than six rounds all of them lie in it.
        """
        if len(self.medians_ms) < 2:
            return None
        ordered = sorted(self.medians_ms)
        cut = certain_from(len(ordered))
        return (ordered[-1 - cut] - ordered[cut]) / statistics.median(ordered)

    @property
    def is_unsteady(self) -> bool:
        """Whether it was measured, and its rounds lie so far apart that more are of use."""
        return self.spread is not None and self.spread > WIDE

    @property
    def examples_s(self) -> float | None:
        """Examples a second."""
        return self.examples / self.step_ms * 1e3 if self.step_ms and self.examples else None

    def take(self, trial: Trial) -> None:
        """Add a round."""
        told = trial.results.get("measured", {})
        steps_ms = told.get("steps_ms")
        if not steps_ms:
            self.no_gpu = bool(told.get("no_gpu"))
            self.reason = str(told.get("error") or explain(trial)[0])
            return
        self.medians_ms.append(statistics.median(steps_ms))
        self.first_ms.append(float(told["first_ms"]))
        if told.get("others_cores") is not None:
            self.others_cores.append(float(told["others_cores"]))
        self.examples = int(told["examples"])
        self.fell_back = list(fell_back(trial.log)) if self.spec.device == "gpu" else []


def specs(wish: Wish) -> list[Spec]:
    """Every configuration, in the order of the table.

    Raises:
        BadInputError: a workload is unknown or does not take what was asked.
    """
    names = list(dict.fromkeys(wish.workloads)) or list(workloads.WORKLOADS)
    for name in names:
        if workloads.find(name).only is not None:
            raise BadInputError(f"bench times the workloads that `tfwatch workloads` lists: {name} is a file")
    wanted = [
        Spec(name, device, mode, batch_size, size, wish.seconds)
        for name in names
        for batch_size in wish.batch_sizes or (None,)
        for size in _size(name, wish)
        for mode in wish.modes
        for device in wish.devices
    ]
    for spec in wanted:
        spec.settings()
    return wanted


def doubts(wanted: Sequence[Spec], free: int, gpu: GpuHere) -> list[str]:
    """A sentence for each workload and size that may not fit into so many free bytes."""
    told: dict[str, str] = {}
    for spec in sorted(wanted, key=lambda spec: spec.device):  # the CPU first: that one computes in this memory
        asked = f" --size {spec.size}" if spec.size else f" --batch-sizes {spec.batch_size}" if spec.batch_size else ""
        needed, what = needed_alone_bytes(spec.workload, spec.settings()), f"{spec.workload}{asked}"
        told.setdefault(what, too_much(needed, what, spec.device, gpu, free))
    return [*filter(None, told.values())]


def _size(name: str, wish: Wish) -> tuple[int | None]:
    """The size goes to those that have one; named alone, a workload without one refuses it."""
    if wish.size is None or "size" in workloads.find(name).takes or len(wish.workloads) == 1:
        return (wish.size,)
    return (None,)


def measure(
    wish: Wish, shown: Callable[[list[Row]], None], run: Callable[[Spec], Trial] | None = None, seed: int = 0
) -> list[Row]:
    """Run every configuration once a round, in an order of its own each round; `shown` hears of each that ended.

    After the asked rounds those whose rounds lie apart go on.
    """
    rows = [Row(spec) for spec in specs(wish)]
    for row in _schedule(rows, wish.rounds, random.Random(seed)):
        if not row.reason:
            row.take((run or run_alone)(row.spec))
            if row.no_gpu:
                _give_up_gpus(rows, row.reason)
            shown(rows)
    return rows


def _schedule(rows: list[Row], rounds: int, rng: random.Random) -> Iterator[Row]:
    for number in range(_MORE * rounds):
        yield from rng.sample(rows, len(rows)) if number < rounds else [row for row in rows if row.is_unsteady]


def certain_from(rounds: int) -> int:
    """How many values to leave out at either end, so that the median lies between the others 95 times of 100.

    P(k or fewer of n on one side) is binomial with 1/2; e.g. Conover, Practical Nonparametric Statistics, 3.2.
    """
    below, cut = 0.0, -1
    for fewer in range(rounds // 2):
        below += math.comb(rounds, fewer) / 2**rounds
        if 2 * below > 0.05:
            break
        cut = fewer
    return max(cut, 0)


def _give_up_gpus(rows: list[Row], reason: str) -> None:
    for row in rows:
        if row.spec.device == "gpu":
            row.reason, row.no_gpu = reason, True


def run_alone(spec: Spec) -> Trial:
    """Time it once, in a process of its own."""
    root = str(Path(__file__).parents[2])
    return run_trial([sys.executable, "-c", _PROGRAM, root, encode(spec)], lambda stage: None, _LIMIT_S)


def bench(wish: Wish, as_json: bool) -> int:
    """Measure and print; 0, or 1 where nothing at all could be measured, or 130 where it was interrupted.

    Raises:
        BadInputError: as `specs`; or an unknown device or mode.
    """
    for name, known, asked in (("device", DEVICES, wish.devices), ("mode", MODES, wish.modes)):
        for word in asked:
            if word not in known:
                raise BadInputError(f"no {name} {word!r}: there are {', '.join(known)}")
    from tfwatch.commands.bench_table import Printer

    wanted = specs(wish)
    for doubt in doubts(wanted, free_bytes(), gpu_here()):
        sys.stderr.write(f"tfwatch: {doubt}\n")
    try:
        with Printer(as_json, wanted) as printer:
            rows = measure(wish, printer.update)
    except KeyboardInterrupt:
        return 130
    return printer.unwritten if any(row.step_ms for row in rows) else 1
