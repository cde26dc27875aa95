"""`tfwatch bench`: is the GPU worth it for this model, on this machine? Each configuration in a process of its own."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch import workloads
from tfwatch.commands.bench_row import Row
from tfwatch.commands.bench_table import Printer
from tfwatch.commands.memory import too_much
from tfwatch.doctor.glance import gpu_here
from tfwatch.doctor.trial import run_trial
from tfwatch.runs.container import free_bytes
from tfwatch.training.measuring import Spec, encode
from tfwatch.workloads.estimate import needed_alone_bytes
from tfwatch.workloads.workload import BadInputError

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
