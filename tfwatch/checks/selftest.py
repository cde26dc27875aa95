"""`tfwatch selftest`: known delays against what Watch reports, and what tfwatch costs.

`tfwatch selftest`: are the numbers right on this machine? Known delays against what Watch says of them.

What the selftest prints: a line a group with its worst case, every failure, and what tfwatch costs.
"""

from __future__ import annotations

import json
import os
import tempfile
import textwrap
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.terminal.capture import Capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TextIO

    from tfwatch.checks.injected_trainings import Trainings
    from tfwatch.checks.selftest_cases import Case, Experiment
    from tfwatch.checks.selftest_cost import Costs

_SEED = 20_11


def selftest(as_json: bool) -> int:
    """Run all cases, print them and what tfwatch costs, and return 0 where all cases pass, else 1."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with tempfile.TemporaryDirectory() as folder, Capture(screen=False) as terminal:
        terminal.record_to(Path(folder) / "log.txt")
        _show(terminal.err, "importing TensorFlow")
        from tfwatch.checks import selftest_cases, selftest_cost
        from tfwatch.checks.injected_trainings import Trainings

        runs_dir = Path(folder) / "runs"
        cases = run_all(
            list(selftest_cases.experiments()),
            Trainings(runs_dir, _SEED),
            lambda done, of: _show(terminal.err, f"{done} of {of} trainings"),
        )
        _show(terminal.err, "what tfwatch costs")
        costs = selftest_cost.find_costs(runs_dir)
        _show(terminal.err, "")
        if as_json:
            terminal.out.write(json.dumps(cases_json(cases, costs)) + "\n")
        else:
            print_table(terminal.out, cases, costs)
        terminal.out.flush()
        if terminal.unsaid:
            terminal.err.write(f"tfwatch: this could not be written: {terminal.unsaid}\n")
            return 1
    return 0 if all(case.passed for case in cases) else 1


def run_all(
    experiments: Iterable[Experiment], trainings: Trainings, progress: Callable[[int, int], None] = lambda *_: None
) -> list[Case]:
    """The cases of all experiments. One with a failure is run twice: noise does not come back, an error does."""
    experiments = list(experiments)
    cases: list[Case] = []
    for done, experiment in enumerate(experiments):
        progress(done, len(experiments))
        cases += _twice(experiment, trainings)
    return cases


def _twice(experiment: Experiment, trainings: Trainings) -> list[Case]:
    first = list(experiment(trainings))
    if all(case.passed for case in first):
        return first
    again = {(case.group, case.case): replace(case, tries=2) for case in experiment(trainings)}
    return [case if case.passed else again.get((case.group, case.case), replace(case, tries=2)) for case in first]


def _show(err: TextIO, words: str) -> None:
    """Say on a terminal what goes on, in place of what was said before."""
    if err.isatty():
        err.write(f"\r\x1b[K{words}")
        err.flush()


#: What a group's name begins with, in the order of the table.
_ORDER = ("wait", "compute", "host", "wait + compute + host = wall", "verdict", "spike", "stall", "switch")
#: Columns for the words of a group.
_WIDE = 32


def cases_json(cases: Sequence[Case], costs: Costs) -> dict[str, Any]:
    """The selftest as `--json` prints it.

    passed, failed: how many cases; second_try: how many of those that passed did not at first.
    cases: [{group, case, injected, measured, unit, error, passed, tries}]: figures in `unit`, or words; error is
        None for words. A figure that could not be had is None (null).
    cost: {watch: {ratio, added_us, step_ms, noise}, frame: {median_ms, p95_ms}}, told and not judged.
    """
    passed = sum(case.passed for case in cases)
    return {
        "passed": passed,
        "failed": len(cases) - passed,
        "second_try": sum(case.passed and case.tries > 1 for case in cases),
        "cases": [_as_json(case) for case in cases],
        "cost": asdict(costs),
    }


def _as_json(case: Case) -> dict[str, Any]:
    return {
        "group": case.group,
        "case": case.case,
        "injected": _plain(case.injected),
        "measured": _plain(case.measured),
        "unit": case.unit,
        "error": _plain(case.error),
        "passed": case.passed,
        "tries": case.tries,
    }


def _plain(value: float | str | None) -> float | str | None:
    return None if isinstance(value, float) and value != value else value


def print_table(out: TextIO, cases: Sequence[Case], costs: Costs) -> None:
    """For people: read in a minute, in 80 columns but for the words of a failure."""
    lines = [_line("case", "pass", "injected", "measured", "error", ""), *_groups(cases)]
    out.writelines(f"{line.rstrip()}\n" for line in (*lines, "", *costs.words, _sum(cases)))


def _groups(cases: Sequence[Case]) -> Iterator[str]:
    """Each group with the worst of what passed, or with its words, and below it every failure."""
    groups = dict.fromkeys(case.group for case in cases)
    for group in sorted(groups, key=lambda group: _ORDER.index(group.partition(":")[0])):
        own = [case for case in cases if case.group == group]
        good, bad = [case for case in own if case.passed], [case for case in own if not case.passed]
        again = sum(case.tries > 1 for case in good)
        result = "FAIL" if bad else f"pass{f', {again} at 2nd try' if again else ''}"
        yield _line(group, f"{len(good)}/{len(own)}", *_worst(good), result)
        yield from (f"    FAIL, twice: {_failure(case)}" for case in bad)


def _worst(cases: Sequence[Case]) -> tuple[str, str, str]:
    """injected, measured and error of the case that is furthest off; of words each one."""
    figures = [case for case in cases if case.error is not None]
    if not figures:
        words = ", ".join(dict.fromkeys(str(case.injected) for case in cases))
        return textwrap.shorten(words, _WIDE, placeholder=" ..."), "", ""
    worst = max(figures, key=lambda case: case.off)
    return _shown(worst.injected, worst.unit), _shown(worst.measured, worst.unit), _error(worst)


def _failure(case: Case) -> str:
    figures = f"injected {_shown(case.injected, case.unit)}, measured {_shown(case.measured, case.unit)}"
    return f"{case.case}: {figures}{f', error {_error(case)}' if case.error is not None else ''}"


def _error(case: Case) -> str:
    return "" if case.error is None else f"{case.error:+.{_digits(case.unit)}f} {case.unit}"


def _shown(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    return "too few steps" if value != value else f"{value:.{_digits(unit)}f} {unit}"


def _digits(unit: str) -> int:
    return 3 if unit == "%" else 2


def _line(name: str, passed: str, injected: str, measured: str, error: str, result: str) -> str:
    figures = f"{injected:>12}{measured:>12}{error:>11}" if measured else f"   {injected:<{_WIDE}}"
    return f"{name:<33}{passed:>6}{figures}  {result}"


def _sum(cases: Iterable[Case]) -> str:
    cases = list(cases)
    passed = [case for case in cases if case.passed]
    again = sum(case.tries > 1 for case in passed)
    tries = f", {again} of them at the second try" if again else ""
    return f"{len(passed)} of {len(cases)} cases pass{tries}"
