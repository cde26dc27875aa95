"""`tfwatch selftest`: are the numbers right on this machine?

Trainings with injected delays are compared with Watch's figures for them. The table has a line for
each group with its worst case, every failure, and the cost of tfwatch.
"""

from __future__ import annotations

import json
import os
import tempfile
import textwrap
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tfwatch.checks.selftest_cases import experiments
from tfwatch.doctor.facts import describe_load
from tfwatch.terminal.capture import Capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from tfwatch.checks.injected_trainings import Trainings
    from tfwatch.checks.selftest_cases import Case, Experiment


_SEED = 20_11
#: The first words of the groups' names, in the order of the table.
_ORDER = (
    "wait",
    "copy",
    "compute",
    "host",
    "wait + compute + host = wall",
    "verdict",
    "switch",
)
#: Columns for the texts of a group.
_WIDE = 32


def selftest(as_json: bool) -> int:
    """Run all cases and print them with the cost of tfwatch; return 0 where all cases pass, else
    1."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with tempfile.TemporaryDirectory() as folder, Capture(screen=False) as terminal:
        _show(terminal.err, "measuring the load of other programs")
        if load := describe_load():
            _show(terminal.err, "")
            terminal.err.write(f"tfwatch: {load}; repeat a FAIL on an idle machine\n")
        _show(terminal.err, "importing TensorFlow")
        from tfwatch.checks.injected_trainings import Trainings, rounds_ms

        runs_dir = Path(folder) / "runs"
        cases = run_all(
            list(experiments()),
            Trainings(runs_dir, _SEED),
            lambda done, of: _show(terminal.err, f"{done} of {of} trainings"),
        )
        _show(terminal.err, "measuring the cost of tfwatch")
        cost = cost_of(rounds_ms(runs_dir))
        _show(terminal.err, "")
        if as_json:
            terminal.out.write(json.dumps(cases_json(cases, cost)) + "\n")
        else:
            print_table(terminal.out, cases, cost)
        terminal.out.flush()
        if terminal.write_error:
            terminal.err.write(f"tfwatch: the output cannot be written: {terminal.write_error}\n")
            return 1
    return 0 if all(case.passed for case in cases) else 1


def run_all(
    experiments: Iterable[Experiment],
    trainings: Trainings,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Case]:
    """Run all experiments, and one with a failure twice: noise does not fail twice, an error
    does."""
    experiments = list(experiments)
    cases: list[Case] = []
    for done, experiment in enumerate(experiments):
        progress(done, len(experiments))
        cases += _run_until_passed(experiment, trainings)
    return cases


@dataclass(frozen=True, slots=True)
class WatchCost:
    """The cost of Watch, as medians over the rounds.

    ratio: step time with Watch over that without. added_us: the difference. step_ms: the step time
    without Watch. noise: the difference of two runs without Watch, as a share.
    """

    ratio: float
    added_us: float
    step_ms: float
    noise: float

    @property
    def sentence(self) -> str:
        """The cost in a sentence."""
        added = f"{self.added_us:+.0f} us of {self.step_ms:.2f} ms"
        noise = f"two runs without it differ by {self.noise:.3f}"
        return f"Watch: a step takes {self.ratio:.3f} of its time without Watch ({added}; {noise})"


def cost_of(rounds_ms: Sequence[Mapping[str, float]]) -> WatchCost:
    """Return the cost of Watch from the times of interleaved trainings, see
    `injected_trainings.rounds_ms`."""
    return WatchCost(
        ratio=median(row["watched"] / row["bare"] for row in rounds_ms),
        added_us=median((row["watched"] - row["bare"]) * 1e3 for row in rounds_ms),
        step_ms=median(row["bare"] for row in rounds_ms),
        noise=median(abs(row["bare again"] / row["bare"] - 1) for row in rounds_ms),
    )


def _run_until_passed(experiment: Experiment, trainings: Trainings) -> list[Case]:
    first = list(experiment(trainings))
    if all(case.passed for case in first):
        return first
    again = {(case.group, case.case): replace(case, tries=2) for case in experiment(trainings)}
    return [
        case if case.passed else again.get((case.group, case.case), replace(case, tries=2))
        for case in first
    ]


def _show(err: TextIO, text: str) -> None:
    """Show the progress on a terminal, in place of the text before."""
    if err.isatty():
        err.write(f"\r\x1b[K{text}")
        err.flush()


def cases_json(cases: Sequence[Case], cost: WatchCost) -> dict[str, Any]:
    """Return the selftest as `--json` prints it.

    passed, failed: numbers of cases, without those that are skipped. second_try: those that passed
    at the second try. cases: figures in `unit`, or texts, whose error is None; a figure without
    enough steps is None (null). cost: of Watch, which has no tolerance.
    """
    compared = [case for case in cases if not case.skipped]
    passed = [case for case in compared if case.passed]
    return {
        "passed": len(passed),
        "failed": len(compared) - len(passed),
        "second_try": sum(case.tries > 1 for case in passed),
        "cases": [_as_json(case) for case in cases],
        "cost": asdict(cost),
    }


def _as_json(case: Case) -> dict[str, Any]:
    values = {**asdict(case), "error": case.error, "passed": case.passed}
    del values["error_share"]
    return {
        name: None if isinstance(value, float) and value != value else value
        for name, value in values.items()
    }


def print_table(out: TextIO, cases: Sequence[Case], cost: WatchCost) -> None:
    """Print the table, in 80 columns except for failures."""
    compared = [case for case in cases if not case.skipped]
    lines = [
        _line("case", "pass", "injected", "measured", "error", ""),
        *_groups(compared),
        *_skipped(cases),
    ]
    out.writelines(f"{line.rstrip()}\n" for line in (*lines, "", cost.sentence, _total(compared)))


def _groups(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each group with the worst case that passed, and below it every failure."""
    groups = dict.fromkeys(case.group for case in cases)
    for group in sorted(groups, key=lambda group: _ORDER.index(group.partition(":")[0])):
        in_group = [case for case in cases if case.group == group]
        passed, failed = (
            [case for case in in_group if case.passed],
            [case for case in in_group if not case.passed],
        )
        retried = sum(case.tries > 1 for case in passed)
        result = "FAIL" if failed else f"pass{f', {retried} at 2nd try' if retried else ''}"
        yield _line(group, f"{len(passed)}/{len(in_group)}", *_worst(passed), result)
        yield from (f"    FAIL, twice: {_failure(case)}" for case in failed)


def _skipped(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each group of cases that cannot be compared here, with the reason."""
    for group, why in dict.fromkeys((case.group, case.skipped) for case in cases if case.skipped):
        yield f"{group:<33}{'skip':>6}   {why}"


def _worst(cases: Sequence[Case]) -> tuple[str, str, str]:
    """Return injected, measured and error of the worst case; for texts, all of them."""
    figures = [case for case in cases if case.error is not None]
    if not figures:
        texts = ", ".join(dict.fromkeys(str(case.injected) for case in cases))
        return textwrap.shorten(texts, _WIDE, placeholder=" ..."), "", ""
    worst = max(figures, key=lambda case: case.error_share)
    return _format(worst.injected, worst.unit), _format(worst.measured, worst.unit), _error(worst)


def _failure(case: Case) -> str:
    figures = (
        f"injected {_format(case.injected, case.unit)}, measured"
        f" {_format(case.measured, case.unit)}"
    )
    return f"{case.case}: {figures}{f', error {_error(case)}' if case.error is not None else ''}"


def _error(case: Case) -> str:
    return "" if case.error is None else f"{case.error:+.{_digits(case.unit)}f} {case.unit}"


def _format(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    return "too few steps" if value != value else f"{value:.{_digits(unit)}f} {unit}"


def _digits(unit: str) -> int:
    return 3 if unit == "%" else 2


def _line(name: str, passed: str, injected: str, measured: str, error: str, result: str) -> str:
    figures = f"{injected:>12}{measured:>12}{error:>11}" if measured else f"   {injected:<{_WIDE}}"
    return f"{name:<33}{passed:>6}{figures}  {result}"


def _total(cases: Iterable[Case]) -> str:
    cases = list(cases)
    passed = [case for case in cases if case.passed]
    retried = sum(case.tries > 1 for case in passed)
    tries = f", {retried} of them at the second try" if retried else ""
    return f"{len(passed)} of {len(cases)} cases pass{tries}"
