"""`tfwatch selftest`: are the numbers right on this machine? Known delays against what Watch says of them."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.terminal import Capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TextIO

    from tfwatch.commands.selftest_case import Case
    from tfwatch.commands.selftest_cases import Experiment
    from tfwatch.training.injected import Trainings

_SEED = 20_11


def selftest(as_json: bool) -> int:
    """Run all cases, print them and what tfwatch costs, and return 0 where all cases pass, else 1."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with tempfile.TemporaryDirectory() as folder, Capture(screen=False) as terminal:
        terminal.record_to(Path(folder) / "log.txt")
        _show(terminal.err, "importing TensorFlow")
        from tfwatch.commands import selftest_cases, selftest_cost, selftest_table
        from tfwatch.training.injected import Trainings

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
            terminal.out.write(json.dumps(selftest_table.as_json(cases, costs)) + "\n")
        else:
            selftest_table.print_table(terminal.out, cases, costs)
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
