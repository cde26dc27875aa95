"""`tfwatch bench`: is the GPU worth it for this much compute, on this machine?

Each configuration is timed in separate processes, one a round, and shown as a row of a table or of
JSON.
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

from tfwatch.checks.bench_program import BODIES, Spec, encode
from tfwatch.core import units
from tfwatch.core.errors import BadInputError
from tfwatch.doctor.crash_reasons import explain
from tfwatch.doctor.quick_facts import describe_memory_shortage, find_gpu
from tfwatch.doctor.trial import fell_back, run_trial
from tfwatch.runs.machine_info import free_bytes
from tfwatch.terminal.output import render, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from rich.table import Table

    from tfwatch.doctor.quick_facts import GpuPresence
    from tfwatch.doctor.trial import Trial


#: A median with a wider interval than this share of it is measured in more rounds and reported as
#: unsteady.
WIDE = 0.05
#: Other programs that use this many cores make the figures unsteady.
BUSY_CORES = 0.25
DEVICES = ("cpu", "gpu")
MODES = ("graph", "eager", "jit")
#: Building a large network and loading its data takes a minute on a slow machine.
_LIMIT_S = 300.0
#: As in `doctor.trial`: without the working folder that `-c` puts first in `sys.path`.
_PROGRAM = (
    "import sys; sys.path[:] = [p for p in sys.path if p] + sys.argv[1:2]; "
    "from tfwatch.checks.bench_program import main; main(sys.argv[2])"
)
#: Unsteady rows run at most this many times the requested rounds.
_MOST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The options of `tfwatch bench`; without bodies, all of them. sizes: of `conv` images, of
    `matmul` rows."""

    bodies: Sequence[str] = ()
    devices: Sequence[str] = DEVICES
    modes: Sequence[str] = ("graph",)
    sizes: Sequence[int] = ()
    rounds: int = 3
    seconds: float = 2.0


def bench(options: BenchOptions, as_json: bool) -> int:
    """Measure and print; return 0, 1 where no row was measured or printing fails, or 130 where
    interrupted.

    Raises:
        BadInputError: a body, device or mode is unknown.
    """
    for name, known, given in (
        ("body", tuple(BODIES), options.bodies),
        ("device", DEVICES, options.devices),
        ("mode", MODES, options.modes),
    ):
        for word in given:
            if word not in known:
                raise BadInputError(f"unknown {name} {word!r}: use {', '.join(known)}")
    specs = list_specs(options)
    for warning in find_memory_warnings(specs, free_bytes(), find_gpu()):
        sys.stderr.write(f"tfwatch: {warning}\n")
    try:
        with ResultPrinter(as_json, specs) as printer:
            rows = measure(options, printer.update)
    except KeyboardInterrupt:
        return 130
    return printer.exit_code if any(row.step_ms for row in rows) else 1


def list_specs(options: BenchOptions) -> list[Spec]:
    """Return every configuration, in the order of the table."""
    return [
        Spec(body, device, mode, size, options.seconds)
        for body in dict.fromkeys(options.bodies or BODIES)
        for size in options.sizes or (BODIES[body],)
        for mode in options.modes
        for device in options.devices
    ]


def find_memory_warnings(specs: Sequence[Spec], free: int, gpu: GpuPresence) -> list[str]:
    """Return a warning for each body and size that may not fit into the free bytes."""
    warnings: dict[str, str] = {}
    for spec in sorted(
        specs, key=lambda spec: spec.device
    ):  # the CPU first: it computes in this memory
        what = _name(spec)
        warnings.setdefault(
            what, describe_memory_shortage(spec.needed_bytes, what, spec.device, gpu, free)
        )
    return [*filter(None, warnings.values())]


def measure(
    options: BenchOptions,
    notify: Callable[[list[BenchRow]], None],
    run: Callable[[Spec], Trial] | None = None,
    seed: int = 0,
) -> list[BenchRow]:
    """Run every configuration once a round, in a new random order each round; then unsteady ones in
    more rounds.

    notify: called with all rows after each run.
    """
    rows = [BenchRow(spec) for spec in list_specs(options)]
    for row in _schedule(rows, options.rounds, random.Random(seed)):
        if not row.reason:
            row.add_round((run or run_in_process)(row.spec))
            if row.no_gpu:
                _skip_gpus(rows, row.reason)
            notify(rows)
    return rows


def _schedule(rows: list[BenchRow], rounds: int, rng: random.Random) -> Iterator[BenchRow]:
    for number in range(_MOST_ROUNDS * rounds):
        yield from (
            rng.sample(rows, len(rows))
            if number < rounds
            else [row for row in rows if row.is_unsteady]
        )


def _skip_gpus(rows: list[BenchRow], reason: str) -> None:
    for row in rows:
        if row.spec.device == "gpu":
            row.reason, row.no_gpu = reason, True


def run_in_process(spec: Spec) -> Trial:
    """Time a configuration once, in a separate process."""
    root = str(Path(__file__).parents[2])
    return run_trial(
        [sys.executable, "-c", _PROGRAM, root, encode(spec)], lambda stage: None, _LIMIT_S
    )


@dataclass(slots=True)
class BenchRow:
    """One configuration and the results of its rounds.

    medians_ms: the median step of each round. first_ms: the first step of each round, which traces
    and compiles.
    others_cores: the cores that other programs used in each round, where known.
    reason: why the configuration was not measured; empty where it was. fell_back: operations that
    ran on the CPU although the device is a GPU. no_gpu: there is no GPU to measure.
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
        """The median of the rounds' medians; None without a measured round."""
        return statistics.median(self.medians_ms) if self.medians_ms else None

    @property
    def spread(self) -> float | None:
        """The width of the median's 95 % interval as a share of the median; None with fewer than
        two rounds.

        It is made of order statistics, without an assumption on the distribution; with fewer than
        six rounds it spans all of them.
        """
        if len(self.medians_ms) < 2:
            return None
        ordered = sorted(self.medians_ms)
        cut = find_interval_cut(len(ordered))
        return (ordered[-1 - cut] - ordered[cut]) / statistics.median(ordered)

    @property
    def is_unsteady(self) -> bool:
        """True where the rounds differ so much that more rounds help."""
        return self.spread is not None and self.spread > WIDE

    @property
    def examples_s(self) -> float | None:
        """Examples per second."""
        return self.examples / self.step_ms * 1e3 if self.step_ms and self.examples else None

    def add_round(self, trial: Trial) -> None:
        """Add the result of a round."""
        measured = trial.results.get("measured", {})
        steps_ms = measured.get("steps_ms")
        if not steps_ms:
            self.no_gpu = bool(measured.get("no_gpu"))
            self.reason = str(measured.get("error") or explain(trial)[0])
            return
        self.medians_ms.append(statistics.median(steps_ms))
        self.first_ms.append(float(measured["first_ms"]))
        if measured.get("others_cores") is not None:
            self.others_cores.append(float(measured["others_cores"]))
        self.examples = int(measured["examples"])
        self.fell_back = list(fell_back(trial.log)) if self.spec.device == "gpu" else []


def find_interval_cut(rounds: int) -> int:
    """Return the number of values to drop at each end, so that the median is between the others 95
    times of 100.

    P(k or fewer of n on one side) is binomial with p = 1/2; see Conover, Practical Nonparametric
    Statistics, 3.2.
    """
    below, cut = 0.0, -1
    for fewer in range(rounds // 2):
        below += math.comb(rounds, fewer) / 2**rounds
        if 2 * below > 0.05:
            break
        cut = fewer
    return max(cut, 0)


class ResultPrinter:
    """Prints the rows at the end, even when interrupted, and shows them while they fill where
    stdout is a terminal.

    exit_code: 1 where stdout could not be written, else 0.
    """

    def __init__(self, as_json: bool, specs: Sequence[Spec]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._rows = [BenchRow(spec) for spec in specs]
        self._as_json = as_json
        self.exit_code = 0
        self._console = Console(highlight=False, markup=False)
        is_live = self._console.is_terminal and not as_json
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=True) if is_live else None
        )

    def __enter__(self) -> ResultPrinter:
        if self._live:
            self._live.start()
            self.update(self._rows)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()
        if self._as_json:
            text = (
                json.dumps({"results": [as_dict(row, self._rows) for row in self._rows]}, indent=1)
                + "\n"
            )
        else:
            text = render(sys.stdout, *render_rows(self._rows))
        self.exit_code = write(sys.stdout, text)

    def update(self, rows: list[BenchRow]) -> None:
        """Show the rows as they are now."""
        self._rows = rows
        if self._live:
            self._live.update(make_table(rows), refresh=True)


def render_rows(rows: Sequence[BenchRow]) -> list[Table | str]:
    """Return the table, its legend and remarks; the remarks alone where every row needs a missing
    GPU."""
    if all(row.no_gpu for row in rows):
        return [*make_remarks(rows)]
    return [make_table(rows), *_legend(rows), *make_remarks(rows)]


def make_table(rows: Sequence[BenchRow]) -> Table:
    """Make the table, a row for each configuration; a row without a round shows dots."""
    from rich.table import Table

    table = Table("body", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("mode", "device", "step", "examples/s", "speedup", "first step"):
        table.add_column(
            name, justify="left" if name in ("mode", "device") else "right", no_wrap=True
        )
    for row in rows:
        if not row.no_gpu:
            table.add_row(*_cells(row, rows))
    return table


def _cells(row: BenchRow, rows: Sequence[BenchRow]) -> tuple[str, ...]:
    spec = row.spec
    configuration = (_name(spec), spec.mode, spec.device)
    if row.step_ms is None:
        return (*configuration, "n/a" if row.reason else "...", "", "", "")
    speedup = _speedup(row, rows)
    return (
        *configuration,
        f"{units.milliseconds(row.step_ms)} {_spread(row)}",
        units.count(round(row.examples_s or 0)) if row.examples > 1 else "",
        "" if speedup is None else f"{speedup:.2f} x",
        units.milliseconds(max(row.first_ms)),
    )


def _spread(row: BenchRow) -> str:
    return "± n/a" if row.spread is None else f"±{row.spread / 2:.0%}"


def _legend(rows: Sequence[BenchRow]) -> list[str]:
    lines = [
        (
            "step: median of the rounds, a process each, ± half of their span (six or more: of the"
            " 95 % interval)"
        ),
        (
            "speedup: relative to the first row of the same body and size; first step: with trace"
            " and compile"
        ),
    ]
    if any(len(row.medians_ms) == 1 for row in rows):
        lines.append("± n/a: one round has no spread; use --rounds 2 or more")
    return lines


def _name(spec: Spec) -> str:
    return f"{spec.body} {spec.size}"


def make_remarks(rows: Sequence[BenchRow]) -> list[str]:
    """Return the rows not measured with the reasons, the operations that fell back, and the
    unsteady rows."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            name = "gpu" if row.no_gpu else f"{_name(row.spec)} {row.spec.mode} {row.spec.device}"
            reasons.setdefault(row.reason, []).append(name)
    lines = [
        f"not measured: {', '.join(dict.fromkeys(names))}: {reason}"
        for reason, names in reasons.items()
    ]
    lines += [
        f"{_name(row.spec)} {row.spec.mode}: {', '.join(row.fell_back)} ran on the CPU"
        for row in rows
        if row.fell_back
    ]
    return [*lines, *_find_unsteady(rows)]


def _find_unsteady(rows: Sequence[BenchRow]) -> list[str]:
    """Return the medians that are uncertain by more than a few percent, with the reason."""
    wide = [
        f"{_name(row.spec)} {row.spec.mode} {row.spec.device}" for row in rows if row.is_unsteady
    ]
    known = [cores for row in rows for cores in row.others_cores]
    used = statistics.median(known) if known else 0.0
    if used < BUSY_CORES:
        reason = "the machine throttled or was busy"
        return [f"unsteady, {reason}: {', '.join(wide)}"] if wide else []
    steady = "" if wide else "; the figures are those of a busy machine"
    others = f"unsteady: other programs use {used:.1f} of {os.cpu_count()} cores{steady}"
    return [f"{others}: {', '.join(wide)}" if wide else others]


def _speedup(row: BenchRow, rows: Sequence[BenchRow]) -> float | None:
    """Return the speed relative to the first row of the same body and size; None for that row."""
    alike = [
        other
        for other in rows
        if (other.spec.body, other.spec.size) == (row.spec.body, row.spec.size)
    ]
    first = alike[0]
    return (
        first.step_ms / row.step_ms if first is not row and first.step_ms and row.step_ms else None
    )


def as_dict(row: BenchRow, rows: Sequence[BenchRow]) -> dict[str, Any]:
    """Return one result for `--json`; figures of a row that was not measured are null."""
    spec = row.spec
    return {
        "body": spec.body,
        "size": spec.size,
        "mode": spec.mode,
        "device": spec.device,
        "step_ms": row.step_ms,
        "rounds_ms": row.medians_ms,
        "spread": row.spread,
        "others_cores": statistics.median(row.others_cores) if row.others_cores else None,
        "examples_s": row.examples_s,
        "speedup": _speedup(row, rows),
        "first_step_ms": max(row.first_ms, default=None),
        "fell_back": row.fell_back,
        "not_measured": row.reason or None,
    }
