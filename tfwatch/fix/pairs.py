"""A change that needs a restart: the script as it is and with the change in turn, a few steps each
time, in processes of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.errors import BadInputError
from tfwatch.fix.changes import ALLOWED, VALIDATED
from tfwatch.fix.tried import Tried, clears, in_fresh_runs, twice_as_wide
from tfwatch.fix.user_file import NoPatchError, copy_beside
from tfwatch.judge.comparing.compared_runs import compare_runs, estimate_of_times
from tfwatch.judge.comparing.run_to_compare import NotComparableError, RunToCompare
from tfwatch.judge.effects.wording import estimate_text
from tfwatch.runs.script_process import ScriptTrial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from tfwatch.core.clock import Clock
    from tfwatch.fix.changes import ScriptChange
    from tfwatch.fix.user_file import UserFile
    from tfwatch.judge.comparing.run_to_compare import Sides
    from tfwatch.judge.effects.interval import Estimate
    from tfwatch.judge.judged_run import JudgedRun

    #: Runs a script as a trial, and returns its run.
    Measure: TypeAlias = Callable[[Path, ScriptTrial], RunToCompare]

#: Pairs of a change: the spread between runs counts as measured from three on.
PAIRS = 4
#: Pairs after which a change that is slower by then is given up, which proves no gain by chance;
#: and after which one is proved that clears the least gain with an interval twice as wide, 99.5 %.
_FIRST_PAIRS, _CLEAR_PAIRS = 2, 3
#: Seconds that the steps of one run take, and their number: a start takes some seconds more.
_RUN_S, LEAST_STEPS, _MOST_STEPS = 5.0, 120, 2000
#: The most epochs that count of a run whose epochs count, and the fewest after a cache was filled:
#: each five have one validation of `validation_freq=5`. The longest such run, seconds.
_EPOCHS, _LEAST_EPOCHS, _LONGEST_S = 5, 2, 150.0
#: Losses of a change that rounds otherwise may differ by this share beside the spread of plain
#: runs; by twice the spread: four runs show about two standard deviations.
_ROUNDING, _SPREADS = 1e-3, 2.0


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """Tries changes of a script. until_ns: no run begins after this moment of the clock.

    script: its file. report: takes a sentence about each run.
    """

    script: str
    measure: Measure
    clock: Clock
    until_ns: int
    report: Callable[[str], object]

    def try_change(
        self, file: UserFile, text: str, change: ScriptChange, judged: JudgedRun
    ) -> tuple[Tried, str]:
        """Return the gain of a change, and the source with it where it is kept, else as it was.

        text: the source of the script as it is now. judged: a run of it.
        """
        try:
            changed, trial = change.make(text), _trial(judged, change)
            with copy_beside(file, text) as old, copy_beside(file, changed) as new:
                tried = self._tried((old, new), change, trial)
        except (NoPatchError, NotComparableError) as error:
            return Tried(change.text, f"not tried: {error}", kept=False), text
        return tried, changed if tried.kept else text

    def _tried(self, scripts: tuple[Path, Path], change: ScriptChange, trial: ScriptTrial) -> Tried:
        """Run the pairs.

        Raises:
            NoPatchError: the budget is used up, or the script with the change fails.
            NotComparableError: the runs cannot be compared.
        """
        sides: tuple[list[RunToCompare], list[RunToCompare]] = ([], [])
        for pair in range(PAIRS):
            if pair == _FIRST_PAIRS and gain_of(sides, change.epochs).ratio < 1:
                return Tried(change.text, f"not faster in {_FIRST_PAIRS} pairs of runs", kept=False)
            for side in (1, 0) if pair % 2 == 0 else (0, 1):
                which = ("without it", "with it")[side]
                self.report(f"{change.text}: {which}, {trial.steps} steps")
                sides[side].append(self._run(scripts[side], trial))
            if pair + 1 == _CLEAR_PAIRS and clears(twice_as_wide(gain_of(sides, change.epochs))):
                break
        estimate, pairs = gain_of(sides, change.epochs), len(sides[0])
        unlike = _unlike_losses(sides, change)
        kept = clears(estimate) and not (unlike and not change.kind)
        notes = (unlike, ALLOWED.get(change.kind, ""), change.effect if kept else "")
        outcome = f"{estimate_text(estimate)} over {pairs} pairs of runs"
        # A mean of four runs has half the spread of one.
        fresh = in_fresh_runs(estimate, estimate.half_log * math.sqrt(pairs))
        return Tried(change.text, "; ".join(filter(None, (outcome, *notes))), kept, estimate, fresh)

    def _run(self, script: Path, trial: ScriptTrial) -> RunToCompare:
        if self.clock.now_ns() >= self.until_ns:
            raise NoPatchError("the budget is used up")
        try:
            return self.measure(script, trial)
        except BadInputError as error:
            raise NoPatchError(str(error)) from error


def _trial(judged: JudgedRun, change: ScriptChange) -> ScriptTrial:
    """Return how long each run is: about 5 s of steps, or epochs with their validation.

    Raises:
        NoPatchError: the script has too few epochs, or they take too long.
    """
    if not change.epochs:
        step_s = judged.split.step.mean / 1e3 if judged.split else _RUN_S / LEAST_STEPS
        return ScriptTrial(max(LEAST_STEPS, min(_MOST_STEPS, math.ceil(_RUN_S / step_s))))
    manifest = judged.run.manifest
    first = next(iter(RunToCompare(judged, "").epochs.values()), None)
    # The first epoch has the steps also where the size of the data set is not known before.
    steps, epochs = manifest.steps_per_epoch or (first.step if first else None), manifest.epochs
    least = change.epochs + (_EPOCHS if change.epochs == VALIDATED else _LEAST_EPOCHS)
    if not steps or not epochs or epochs <= least:
        raise NoPatchError(f"its fit has fewer than {least + 1} epochs")
    epoch_s = judged.run.length_s / max(1, len(judged.run.steps) / steps)
    if epoch_s * least > _LONGEST_S:
        raise NoPatchError(f"an epoch takes {epoch_s:.0f} s")
    short = max(least, int(_LONGEST_S / max(epoch_s, 1e-3)))
    begun = min(epochs - 1, change.epochs + _EPOCHS, short)
    # With validation: it is a part of an epoch. The last step of a trial has no row.
    return ScriptTrial(begun * steps + 2, validates=True)


def gain_of(sides: Sides, epochs: int) -> Estimate:
    """Return the gain: of the step, or of the epochs after so many of them.

    Raises:
        NotComparableError: the runs cannot be compared.
    """
    if not epochs:
        return compare_runs(*sides).estimate
    last = min(int(run.run.steps["epoch"][-1]) for side in sides for run in side)
    if last <= epochs:
        raise NotComparableError(f"a run has no step of epoch {epochs + 2}")
    last = min(last, epochs + _EPOCHS)
    old, new = (np.array([[_epochs_s(run, epochs, last)] for run in side]) for side in sides)
    return estimate_of_times(old, new)


def _epochs_s(run: RunToCompare, first: int, last: int) -> float:
    """Return the seconds from the first step of an epoch to that of another one; from 0 on."""
    rows = run.run.steps
    begin, end = (int(rows["start_ns"][np.searchsorted(rows["epoch"], n)]) for n in (first, last))
    return (end - begin) / 1e9


# -- losses ----------------------------------------------------------------------------------------


def _unlike_losses(sides: Sides, change: ScriptChange) -> str:
    """Return why the losses of both sides do not agree; empty where they do."""
    old_runs, new_runs = ([_losses_by_step(run) for run in side] for side in sides)
    common = set(old_runs[0]).intersection(*old_runs, *new_runs)
    known = [step for step in common if all(math.isfinite(run[step]) for run in old_runs)]
    if not known:
        return "no loss is known on both sides"
    step = max(known)
    old, new = ([run[step] for run in runs] for runs in (old_runs, new_runs))
    spread, apart = max(old) - min(old), abs(fmean(new) - fmean(old))
    unlike = f"the loss after step {step} is {fmean(new):.6g}, without it {fmean(old):.6g}"
    if change.is_exact and spread == 0:
        return "" if set(new) == set(old) else unlike
    if change.moves_map:
        return (
            "not kept: the map may compute something else over a batch, and runs of the script as "
            "it is have unequal losses"
        )
    allowed = _SPREADS * spread + _ROUNDING * abs(fmean(old))
    return "" if apart <= allowed else unlike


def _losses_by_step(run: RunToCompare) -> dict[int, float]:
    """Return the losses that are recorded, by the number of steps done: at times, and at the end of
    each epoch."""
    rows = run.run.progress
    ended = {one.step: one.metrics.get("loss", math.nan) for one in run.epochs.values()}
    return {**dict(zip(rows["step"].tolist(), rows["loss"].tolist(), strict=True)), **ended}
