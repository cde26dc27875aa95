"""A change that needs a restart: the script as it is and with the change in turn, a few steps each
time, in processes of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core.errors import BadInputError
from tfwatch.fix.arguments import Argument, set_argument
from tfwatch.fix.tried import Tried, clears
from tfwatch.fix.user_file import NoPatchError, copy_beside
from tfwatch.judge.comparing.compared_runs import compare_runs
from tfwatch.judge.comparing.run_to_compare import NotComparableError
from tfwatch.judge.effects.wording import estimate_text
from tfwatch.judge.findings.finding import JIT_COMPILE, RUN_EAGERLY, STEPS_PER_EXECUTION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from tfwatch.core.clock import Clock
    from tfwatch.fix.user_file import UserFile
    from tfwatch.judge.comparing.run_to_compare import RunToCompare
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.judged_run import JudgedRun

    #: Runs a script for so many steps, and returns its run.
    Measure: TypeAlias = Callable[[Path, int], RunToCompare]

_IN_ONE_CALL = Argument(
    STEPS_PER_EXECUTION, "8", "callbacks of a batch run once in 8 steps, the weights are the same"
)
#: Arguments of `compile` that change neither the batches nor their order, by what a finding names.
ARGUMENTS = (
    Argument(RUN_EAGERLY, "False", "a graph rounds otherwise", old="True"),
    _IN_ONE_CALL,
    Argument(JIT_COMPILE, "True", "XLA rounds otherwise"),
)
#: Pairs of a change: the spread between runs counts as measured from three on.
PAIRS = 4
#: Pairs after which a change that is slower by then is given up: that proves no gain by chance.
_FIRST_PAIRS = 2
#: Seconds that the steps of one run take, and their number: a start takes some seconds more.
_RUN_S, _LEAST_STEPS, _MOST_STEPS = 5.0, 120, 2000
#: Losses of a change that rounds otherwise may differ by this share beside the spread of plain
#: runs; by twice the spread: four runs show about two standard deviations.
_ROUNDING, _SPREADS = 1e-3, 2.0


def wanted_arguments(losses: Sequence[Finding]) -> list[Argument]:
    """Return the arguments that the findings of a run name as a remedy, in the order of the
    findings."""
    named = (one for finding in losses for one in ARGUMENTS if one.keyword in finding.arguments)
    return list(dict.fromkeys(named))


def steps_of_a_run(judged: JudgedRun) -> int:
    """Return how many steps take about 5 s."""
    step_s = judged.split.step.mean / 1e3 if judged.split else _RUN_S / _LEAST_STEPS
    return max(_LEAST_STEPS, min(_MOST_STEPS, math.ceil(_RUN_S / step_s)))


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """Tries changes of a script. until_ns: no run begins after this moment of the clock.

    report: takes a sentence about each run.
    """

    measure: Measure
    steps: int
    clock: Clock
    until_ns: int
    report: Callable[[str], object]

    def try_argument(self, file: UserFile, text: str, argument: Argument) -> tuple[Tried, str]:
        """Return the gain of an argument, and the source with it where it is kept, else as it
        was.

        text: the source of the script as it is now.
        """
        try:
            changed = set_argument(text, argument)
        except NoPatchError as error:
            return Tried(argument.text, f"not tried: {error}", kept=False), text
        is_exact = argument.keyword == _IN_ONE_CALL.keyword
        tried = self.try_change(file, (text, changed), argument.text, is_exact=is_exact)
        if tried.kept:
            return replace(tried, outcome=f"{tried.outcome}; {argument.effect}"), changed
        return tried, text

    def try_change(
        self, file: UserFile, texts: tuple[str, str], change: str, *, is_exact: bool
    ) -> Tried:
        """Return the gain of the second of two sources of a script over the first.

        change: in words. is_exact: the losses have to be the same bit for bit, where those of equal
        runs are.
        """
        try:
            with copy_beside(file, texts[0]) as old, copy_beside(file, texts[1]) as new:
                return self._tried((old, new), change, is_exact=is_exact)
        except (NoPatchError, NotComparableError) as error:
            return Tried(change, f"not tried: {error}", kept=False)

    def _tried(self, scripts: tuple[Path, Path], change: str, *, is_exact: bool) -> Tried:
        """Run the pairs.

        Raises:
            NoPatchError: the budget is used up, or the script with the change fails.
            NotComparableError: the runs cannot be compared.
        """
        sides: tuple[list[RunToCompare], list[RunToCompare]] = ([], [])
        for pair in range(PAIRS):
            if pair == _FIRST_PAIRS and compare_runs(*sides).estimate.ratio < 1:
                return Tried(change, f"not faster in {_FIRST_PAIRS} pairs of runs", kept=False)
            for side in (1, 0) if pair % 2 == 0 else (0, 1):
                self.report(f"{change}: {('without it', 'with it')[side]}, {self.steps} steps")
                sides[side].append(self._run(scripts[side]))
        estimate = compare_runs(*sides).estimate
        unlike = _unlike_losses(sides, is_exact=is_exact)
        outcome = f"{estimate_text(estimate)} over {PAIRS} pairs of runs"
        kept = clears(estimate) and not unlike
        return Tried(change, f"{outcome}; {unlike}" if unlike else outcome, kept, estimate)

    def _run(self, script: Path) -> RunToCompare:
        if self.clock.now_ns() >= self.until_ns:
            raise NoPatchError("the budget is used up")
        try:
            return self.measure(script, self.steps)
        except BadInputError as error:
            raise NoPatchError(str(error)) from error


# -- losses ----------------------------------------------------------------------------------------


def _unlike_losses(
    sides: tuple[Sequence[RunToCompare], Sequence[RunToCompare]], *, is_exact: bool
) -> str:
    """Return why the losses of both sides do not agree; empty where they do.

    is_exact: equal runs of one side promise that those of the other are equal too.
    """
    old_runs, new_runs = ([_losses_by_step(run) for run in side] for side in sides)
    common = set(old_runs[0]).intersection(*old_runs, *new_runs)
    known = [step for step in common if all(math.isfinite(run[step]) for run in old_runs)]
    if not known:
        return "no loss is known on both sides"
    step = max(known)
    old, new = ([run[step] for run in runs] for runs in (old_runs, new_runs))
    spread, apart = max(old) - min(old), abs(_mean(new) - _mean(old))
    unlike = f"the loss after step {step} is {_mean(new):.6g}, without it {_mean(old):.6g}"
    if is_exact and spread == 0:
        return "" if set(new) == set(old) else unlike
    allowed = _SPREADS * spread + _ROUNDING * abs(_mean(old))
    return "" if apart <= allowed else unlike


def _losses_by_step(run: RunToCompare) -> dict[int, float]:
    """Return the losses that are recorded, by the number of steps done: at times, and at the end of
    each epoch."""
    rows = run.run.progress
    ended = {one.step: one.metrics.get("loss", math.nan) for one in run.epochs.values()}
    return {**dict(zip(rows["step"].tolist(), rows["loss"].tolist(), strict=True)), **ended}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
