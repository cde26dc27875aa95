"""`tfwatch selftest`: are the numbers right on this machine? Known delays against what Watch says of them."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.analysis.breakdown import steady
from tfwatch.analysis.spikes import find_spikes
from tfwatch.analysis.verdict import judge
from tfwatch.terminal import Capture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from tfwatch.training.injected import Schedule, Trained

_SEED = 20_11
#: What a figure may be off, of the injected delay: 2 % of the wait; computing and callbacks have costs of their own.
_TOLERANCES = {"wait": (0.3, 0.02), "compute": (1.0, 0.05), "host": (1.0, 0.05)}
_WALL_ERROR = 0.001
_KINDS = ("dataset", "unknown", "generator", "eager", "validation")
_WAITS_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
#: (data, compute) milliseconds far from the lines of 5 % and 20 %, and the verdict's word for them.
_VERDICTS = ((0.0, 30.0, "NOT"), (0.5, 40.0, "NOT"), (3.0, 24.0, "MODERATELY"), (12.0, 12.0, "HIGHLY"))


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table, as it is printed."""

    case: str
    injected: str
    measured: str
    error: str
    passed: bool


def selftest(as_json: bool) -> int:
    """Run all cases, print them, and return 0 where all pass, else 1."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with tempfile.TemporaryDirectory() as folder, Capture(screen=False) as terminal:
        terminal.record_to(Path(folder) / "log.txt")
        cases = []
        for case in _cases(Path(folder) / "runs"):
            cases.append(case)
            _show_progress(terminal.err, len(cases))
        _print(terminal.out, cases, as_json)
    return 0 if all(case.passed for case in cases) else 1


def _cases(runs_dir: Path) -> Iterator[Case]:
    """Every case, in the order of the table."""
    from tfwatch.training.injected import Schedule

    for kind in _KINDS:
        # A table to be read in a minute: the other parts stand there once a kind, and wherever they fail.
        for n, wait_ms in enumerate(_WAITS_MS):
            schedule = Schedule(wait_ms, compute_ms=(4.0, 12.0)[n % 2], host_ms=(2.0, 6.0)[n // 2 % 2], kind=kind)
            cases = list(_parts(schedule, _train(schedule, runs_dir, n)))
            yield from (case for case in cases if n == 0 or case.case.startswith("wait") or not case.passed)
    for data_ms, compute_ms, word in _VERDICTS:
        yield _verdict(Schedule(data_ms, compute_ms, share=1.0), word, runs_dir)
    yield _spikes(Schedule(0.0, 4.0, share=1.0, steps=800, spikes=4), runs_dir)
    yield _spikes(Schedule(0.0, 4.0, share=1.0, steps=800), runs_dir)
    yield _switch(Schedule(8.0, 20.0, share=1.0, steps=80, prefetch=4), runs_dir)


def _train(schedule: Schedule, runs_dir: Path, n: int = 0) -> Trained:
    from tfwatch.training.injected import train

    return train(schedule, runs_dir, _SEED + n)


def _parts(schedule: Schedule, trained: Trained) -> Iterator[Case]:
    for found in trained.found:
        least_ms, share = _TOLERANCES[found.part]
        error_ms = found.measured_ms - found.injected_ms
        yield Case(
            f"{found.part}, {schedule.kind}",
            f"{found.injected_ms:.2f} ms",
            f"{found.measured_ms:.2f} ms",
            f"{error_ms:+.2f} ms",
            abs(error_ms) <= max(least_ms, share * found.injected_ms),
        )
    error = trained.wall_error
    yield Case(f"sum, {schedule.kind}", "100 %", f"{1 - error:.3%}", f"{error:.3%}", error <= _WALL_ERROR)


def _verdict(schedule: Schedule, word: str, runs_dir: Path) -> Case:
    judged = judge(_train(schedule, runs_dir).rows).verdict.value
    name = f"verdict at {schedule.wait_ms:g} of {schedule.wait_ms + schedule.compute_ms:g} ms"
    return Case(name, word, judged.partition(" ")[0], "", judged.startswith(word))


def _spikes(schedule: Schedule, runs_dir: Path) -> Case:
    """Injected spikes are found, in the part where they were; what else stands out has no cause made up for it."""
    trained = _train(schedule, runs_dir)
    held_up = set(trained.spikes)
    told = {spike.step: spike for spike in find_spikes(trained.rows)}
    found = {step for step in held_up if step in told and told[step].part == "wait"}
    unflagged = set(trained.rows["step"][trained.rows["flags"] == 0].tolist())
    invented = [step for step in unflagged & set(told) - held_up if told[step].cause != "unexplained"]
    return Case(
        f"spikes in {schedule.steps} steps",
        str(len(held_up)),
        str(len(found)),
        f"{len(invented)} invented",
        found == held_up and not invented,
    )


def _switch(schedule: Schedule, runs_dir: Path) -> Case:
    """Prefetch hides a delay that is shorter than the step's work."""
    trained = _train(schedule, runs_dir)
    name = f"prefetch hides {schedule.wait_ms:g} under {schedule.compute_ms:g} ms"
    if trained.switched is None:
        return Case(name, "<= 1.00 ms", "no switch", "", passed=False)
    after = steady(trained.rows[trained.rows["step"] > trained.switched + schedule.prefetch])
    wait_ms = float(sorted(after["wait_ms"])[len(after) // 2])
    return Case(name, "<= 1.00 ms", f"{wait_ms:.2f} ms", "", wait_ms <= 1.0)


# -- what is printed ----------------------------------------------------------------------------------


def _show_progress(err: TextIO, done: int) -> None:
    if err.isatty():
        err.write(f"\r{done} cases")
        err.flush()


def _print(out: TextIO, cases: list[Case], as_json: bool) -> None:
    passed = sum(case.passed for case in cases)
    if as_json:
        out.write(json.dumps({"passed": passed, "failed": len(cases) - passed, "cases": [asdict(c) for c in cases]}))
        out.write("\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("case", "injected", "measured", "error", "", box=None)
    for case in cases:
        table.add_row(case.case, case.injected, case.measured, case.error, "pass" if case.passed else "FAIL")
    console = Console(file=out, highlight=False, markup=False)
    console.print(table)
    console.print(f"{passed} of {len(cases)} cases pass")
