"""`tfwatch selftest`: are the numbers right on this machine?

Trainings with injected delays are compared with Watch's figures for them. The table has a line for
each case, injected and measured, and the cost of tfwatch.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tfwatch.checks.selftest_cases import experiments
from tfwatch.doctor.facts import describe_load
from tfwatch.report.facts import finite
from tfwatch.terminal.capture import Capture
from tfwatch.terminal.output import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tfwatch.checks.selftest_cases import Case, Experiment, Trainings


_SEED = 20_11


def selftest(as_json: bool) -> int:
    """Run all cases and print them with the cost of tfwatch; return 0 where all cases pass, else
    1."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with tempfile.TemporaryDirectory() as folder, Capture(screen=False) as terminal:
        show_progress(terminal.err, "measuring the load of other programs")
        if load := describe_load():
            show_progress(terminal.err, "")
            terminal.err.write(f"tfwatch: {load}; repeat a FAIL on an idle machine\n")
        show_progress(terminal.err, "importing TensorFlow")
        from tfwatch.checks.injected_trainings import InjectedTrainings, rounds_ms

        runs_dir = Path(folder) / "runs"
        cases = run_all(
            list(experiments()),
            InjectedTrainings(runs_dir, _SEED),
            lambda done, of: show_progress(terminal.err, f"{done} of {of} trainings"),
        )
        show_progress(terminal.err, "measuring the cost of tfwatch")
        cost = cost_of(rounds_ms(runs_dir))
        show_progress(terminal.err, "")
        if as_json:
            terminal.out.write(json.dumps(cases_json(cases, cost)) + "\n")
        else:
            terminal.out.writelines(f"{line}\n" for line in table(cases, cost))
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
    again = {case.name: replace(case, tries=2) for case in experiment(trainings)}
    return [case if case.passed else again.get(case.name, replace(case, tries=2)) for case in first]


def cases_json(cases: Sequence[Case], cost: WatchCost) -> dict[str, Any]:
    """Return the selftest as `--json` prints it.

    passed, failed: numbers of cases, without those that are skipped. cases: figures in `unit`, or
    texts, whose error is None (null), as is a figure without enough steps. cost: of Watch, which
    has no tolerance.
    """
    compared = [case for case in cases if not case.skipped]
    passed = sum(case.passed for case in compared)
    return {
        "passed": passed,
        "failed": len(compared) - passed,
        "cases": [_as_json(case) for case in cases],
        "cost": asdict(cost),
    }


def _as_json(case: Case) -> dict[str, Any]:
    values = {**asdict(case), "error": case.error, "passed": case.passed}
    del values["error_share"]
    return {name: finite(value) for name, value in values.items()}


def table(cases: Sequence[Case], cost: WatchCost) -> list[str]:
    """Return a line for each case, the cost of tfwatch, and the number of cases that pass."""
    compared = [case for case in cases if not case.skipped]
    passed = [case for case in compared if case.passed]
    retried = sum(case.tries > 1 for case in passed)
    tries = f", {retried} of them at the second try" if retried else ""
    total = f"{len(passed)} of {len(compared)} cases pass{tries}"
    return [*map(_line, cases), "", cost.sentence, total]


def _line(case: Case) -> str:
    if case.skipped:
        return f"skip  {case.name}: {case.skipped}"
    error = "" if case.error is None else f"{case.error:+.2f} {case.unit}"
    figures = f"{_format(case.injected, case.unit):>13} {_format(case.measured, case.unit):>13}"
    return f"{'pass' if case.passed else 'FAIL'}  {case.name:<44}{figures}  {error}".rstrip()


def _format(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    return "too few steps" if value != value else f"{value:.2f} {unit}"
