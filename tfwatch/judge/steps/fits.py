"""Each `fit` of a run in figures: short fits in a row share a run."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import EpochEnded, EpochStarted
from tfwatch.judge.steps.steady_steps import breakdown

if TYPE_CHECKING:
    from tfwatch.runs.snapshot import Snapshot

#: The newest steps of a fit, from which its figures are made.
_MOST_STEPS = 4096


@dataclass(frozen=True, slots=True)
class FitFigures:
    """One `fit`."""

    #: In its script, from 1.
    number: int
    #: Those of its whole epochs.
    steps: int
    #: Means of its steady steps, or of all where it has none; None without a split.
    step_ms: float | None = None
    wait_share: float | None = None
    #: That of its last epoch, None where it has none.
    loss: float | None = None
    #: `stopped`, `failed` or `killed`, empty where it finished or is not the last of its run.
    outcome: str = ""
    #: Where it stands, of a loop of the script's own.
    loop: str = ""

    @property
    def words(self) -> str:
        """`fit 12: 23.4 ms/step, data wait 41 %, loss 1.31, 300 steps`, or `loop 12, train.py:22:
        ...`."""
        figures = [
            self.outcome,
            f"{units.milliseconds(self.step_ms)}/step" if self.step_ms is not None else "",
            f"data wait {units.percent(self.wait_share)}" if self.wait_share is not None else "",
            f"loss {self.loss:.3g}" if self.loss is not None else "",
            units.counted(self.steps, "step") if self.steps else "no whole epoch",
        ]
        name = f"loop {self.number}, {self.loop}" if self.loop else f"fit {self.number}"
        return f"{name}: {', '.join(filter(None, figures))}"


def newest_fit(run: Snapshot) -> int:
    """Return the number of a run's newest fit, from 1; 0 before the first."""
    newest = run.events.newest(EpochStarted)
    return newest.fit if newest else 0


def fits_of(run: Snapshot, first: int = 1) -> list[FitFigures]:
    """Return the fits of a run that is over. first: the number of its first fit."""
    started, ended = run.events.of(EpochStarted), run.events.of(EpochEnded)
    begins = [one.epoch for n, one in enumerate(started) if not n or one.fit != started[n - 1].fit]
    cause = run.ended.cause if run.ended else run.life.value
    outcome = cause if cause in ("stopped", "failed", "killed") else ""
    fits = []
    for n, begin in enumerate(begins):
        is_last = n + 1 == len(begins)
        end = 2**32 if is_last else begins[n + 1]
        at, past = (bisect_left(ended, epoch, key=lambda one: one.epoch) for epoch in (begin, end))
        fits.append(_figures(run, first + n, ended, at, past, outcome if is_last else ""))
    return fits


def _figures(
    run: Snapshot, number: int, ended: list[EpochEnded], first: int, end: int, outcome: str
) -> FitFigures:
    """Return the figures of the epochs `first` to `end` of those that ended."""
    loop = run.manifest.loop
    if first == end:
        return FitFigures(number, 0, outcome=outcome, loop=loop)
    last, before = ended[end - 1], ended[first - 1].step if first else 0
    rows = run.steps_between(max(before + 1, last.step - _MOST_STEPS + 1), last.step)
    steady = rows[rows["flags"] == 0]
    split = breakdown(steady if len(steady) else rows)
    return FitFigures(
        number,
        last.step - before,
        split.step.mean if split else None,
        split.wait_share if split and run.manifest.sees_data_wait else None,
        last.metrics.get("loss"),
        outcome,
        loop,
    )
