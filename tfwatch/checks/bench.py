"""`tfwatch bench`: is the GPU worth it for this model, on this machine? Each configuration in a process of its own.

One configuration that `tfwatch bench` times, and how certain its figure is.

How `tfwatch bench` shows what it measures: a table that fills, or JSON.

`tfwatch bench`: is the GPU worth it for this model, on this machine? Each configuration in a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.checks.bench_program import Spec, encode
from tfwatch.core import units
from tfwatch.doctor.crash_reasons import explain
from tfwatch.doctor.quick_facts import gpu_here, too_much
from tfwatch.doctor.trial import fell_back, run_trial
from tfwatch.runs.machine_info import free_bytes
from tfwatch.terminal.output import rendered, write
from tfwatch.workloads import registry
from tfwatch.workloads.memory_estimate import needed_alone_bytes
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from rich.table import Table

    from tfwatch.doctor.quick_facts import GpuHere
    from tfwatch.doctor.trial import Trial

#: A median that is less certain than this, as a share of it, is measured in more rounds, and told.
WIDE = 0.05
#: Other programs that use this many cores make figures unsteady.
BUSY_CORES = 0.25


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
        """The width of the 95 % interval of the true median, as a share of the median; None of fewer than two rounds.

        By order statistics, without an assumption on the distribution; of fewer than six rounds all lie in it.
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


class Printer:
    """Shows the rows while they fill, where stdout is a terminal, and once at the end, interrupted or not.

    unwritten: the exit code for that: 1 where stdout did not take it.
    """

    def __init__(self, as_json: bool, wanted: Sequence[Spec]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._rows = [Row(spec) for spec in wanted]
        self._as_json = as_json
        self.unwritten = 0
        self._console = Console(highlight=False, markup=False)
        is_live = self._console.is_terminal and not as_json
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if is_live else None

    def __enter__(self) -> Printer:
        if self._live:
            self._live.start()
            self.update(self._rows)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        if self._as_json:
            told = json.dumps({"results": [as_dict(row, self._rows) for row in self._rows]}, indent=1) + "\n"
        else:
            told = rendered(sys.stdout, *shown(self._rows))
        self.unwritten = write(sys.stdout, told)

    def update(self, rows: list[Row]) -> None:
        """Show what is known by now."""
        self._rows = rows
        if self._live:
            self._live.update(table(rows), refresh=True)


def shown(rows: Sequence[Row]) -> list[Table | str]:
    """The table and what it has no room for; no table where all rows are a missing GPU's."""
    if all(row.no_gpu for row in rows):
        return [*remarks(rows)]
    return [table(rows), *_legend(rows), *remarks(rows)]


def table(rows: Sequence[Row]) -> Table:
    """A row a configuration; those that wait for their first round are dotted."""
    from rich.table import Table

    made = Table("workload", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("batch", "mode", "device", "step", "examples/s", "speed", "first step"):
        made.add_column(name, justify="left" if name in ("mode", "device") else "right", no_wrap=True)
    for row in rows:
        if not row.no_gpu:
            made.add_row(*_cells(row, rows))
    return made


def _cells(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    spec = row.spec
    batch = "" if "size" in registry.find(spec.workload).takes else str(spec.settings().batch_size)
    named = (_name(spec), batch, spec.mode, spec.device)
    if row.step_ms is None:
        return (*named, "n/a" if row.reason else "...", "", "", "")
    ratio = _ratio(row, rows)
    return (
        *named,
        f"{units.milliseconds(row.step_ms)} {_spread(row)}",
        units.count(round(row.examples_s or 0)) if row.examples > 1 else "",
        "" if ratio is None else f"{ratio:.2f} x",
        units.milliseconds(max(row.first_ms)),
    )


def _spread(row: Row) -> str:
    return "± n/a" if row.spread is None else f"±{row.spread / 2:.0%}"


def _legend(rows: Sequence[Row]) -> list[str]:
    lines = [
        "step: median of the rounds, a process each, ± half of what they span (of six or more: its 95 % interval)",
        "speed: times as fast as the first row of the same workload and batch; first step: with trace and compile",
    ]
    if any(len(row.medians_ms) == 1 for row in rows):
        lines.append("± n/a: one round has no spread; use --rounds 2 or more")
    return lines


def _name(spec: Spec) -> str:
    return spec.workload if spec.size is None else f"{spec.workload} {spec.size}"


def remarks(rows: Sequence[Row]) -> list[str]:
    """What the table has no room for: what was not measured and why, what fell back, what is uncertain."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            name = "gpu" if row.no_gpu else f"{_name(row.spec)} {row.spec.mode} {row.spec.device}"
            reasons.setdefault(row.reason, []).append(name)
    lines = [f"not measured: {', '.join(dict.fromkeys(names))}: {reason}" for reason, names in reasons.items()]
    lines += [
        f"{_name(row.spec)} {row.spec.mode}: on the CPU ran {', '.join(row.fell_back)}" for row in rows if row.fell_back
    ]
    return [*lines, *_uncertain(rows)]


def _uncertain(rows: Sequence[Row]) -> list[str]:
    """Which medians are not to be trusted to a few percent, and why."""
    wide = [f"{_name(row.spec)} {row.spec.mode} {row.spec.device}" for row in rows if row.is_unsteady]
    known = [cores for row in rows for cores in row.others_cores]
    used = statistics.median(known) if known else 0.0
    if used < BUSY_CORES:
        why = "the machine throttled or was busy"
        return [f"unsteady, {why}: {', '.join(wide)}"] if wide else []
    steady = "" if wide else "; the figures are those of a busy machine"
    others = f"unsteady: other programs use {used:.1f} of {os.cpu_count()} cores{steady}"
    return [f"{others}: {', '.join(wide)}" if wide else others]


def _ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """How many times as fast as the first of its kind; None for that one itself."""
    alike = [
        other
        for other in rows
        if (other.spec.workload, other.spec.batch_size, other.spec.size)
        == (row.spec.workload, row.spec.batch_size, row.spec.size)
    ]
    first = alike[0]
    return first.step_ms / row.step_ms if first is not row and first.step_ms and row.step_ms else None


def as_dict(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """One result for `--json`; what was not measured is null, with its reason."""
    spec = row.spec
    return {
        "workload": spec.workload,
        "batch_size": spec.settings().batch_size,
        "size": spec.settings().size if spec.workload == "matmul" else None,
        "mode": spec.mode,
        "device": spec.device,
        "step_ms": row.step_ms,
        "rounds_ms": row.medians_ms,
        "spread": row.spread,
        "others_cores": statistics.median(row.others_cores) if row.others_cores else None,
        "examples_s": row.examples_s,
        "speed": _ratio(row, rows),
        "first_step_ms": max(row.first_ms, default=None),
        "fell_back": row.fell_back,
        "not_measured": row.reason or None,
    }


DEVICES = ("cpu", "gpu")
MODES = ("graph", "eager", "jit")
#: Building a large network and loading its data takes a minute on a slow machine.
_LIMIT_S = 300.0
#: As in `doctor.trial`: not the folder that `-c` looks in first.
_PROGRAM = (
    "import sys; sys.path[:] = [p for p in sys.path if p] + sys.argv[1:2]; "
    "from tfwatch.checks.bench_program import main; main(sys.argv[2])"
)
#: So many times the asked rounds at most.
_MORE = 3


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


def specs(wish: Wish) -> list[Spec]:
    """Every configuration, in the order of the table.

    Raises:
        BadInputError: a workload is unknown or does not take what was asked.
    """
    names = list(dict.fromkeys(wish.workloads)) or list(registry.WORKLOADS)
    for name in names:
        if registry.find(name).only is not None:
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
    if wish.size is None or "size" in registry.find(name).takes or len(wish.workloads) == 1:
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
    wanted = specs(wish)
    for doubt in doubts(wanted, free_bytes(), gpu_here()):
        sys.stderr.write(f"tfwatch: {doubt}\n")
    try:
        with Printer(as_json, wanted) as printer:
            rows = measure(wish, printer.update)
    except KeyboardInterrupt:
        return 130
    return printer.unwritten if any(row.step_ms for row in rows) else 1
