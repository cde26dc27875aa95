"""Each `fit` of a run in figures: short fits in a row share one."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.steps.steady_steps import breakdown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.core.events import EpochEnded, EpochStarted
    from tfwatch.core.rows import Rows

#: The newest steps of a fit, from which its figures are made.
_MOST_STEPS = 4096


@dataclass(frozen=True, slots=True)
class FitFigures:
    """One `fit`."""

    #: In its script, from 1.
    number: int
    #: Of its last epoch, seconds since 1970.
    end_s: float
    #: Those of its whole epochs.
    steps: int
    #: Means of its steady steps, or of all where it has none; None without a split.
    step_ms: float | None
    wait_share: float | None
    #: That of its last epoch, None where it has none.
    loss: float | None
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


class FitCounter:
    """Makes the figures of the fits of a run as it goes on.

    origin_s: the run's clock origin, seconds since 1970. steps_between: reads steps first to last,
    counted from 1.
    first: the number of the run's first fit. loop: where it stands, of a run of a loop.
    """

    def __init__(
        self,
        origin_s: float,
        steps_between: Callable[[int, int], Rows],
        first: int = 1,
        loop: str = "",
    ) -> None:
        self.done: tuple[FitFigures, ...] = ()
        self._origin_s = origin_s
        self._steps_between = steps_between
        self._first = first
        self._loop = loop

    def take(
        self, started: Sequence[EpochStarted], ended: Sequence[EpochEnded], is_over: bool
    ) -> int:
        """Add the fits that have ended. Return the number of the present fit, 0 before the
        first."""
        begins = [
            at for at, event in enumerate(started) if not at or event.fit != started[at - 1].fit
        ]
        known = len(begins) if is_over else len(begins) - 1
        for at in range(len(self.done), known):
            epochs = (
                started[begins[at]].epoch,
                started[begins[at + 1]].epoch if at + 1 < len(begins) else 2**32,
            )
            self.done += (self._figures(self._first + at, ended, epochs),)
        return self._first + len(begins) - 1 if begins else 0

    def _figures(
        self, number: int, ended: Sequence[EpochEnded], epochs: tuple[int, int]
    ) -> FitFigures:
        first, end = (bisect_left(ended, epoch, key=lambda event: event.epoch) for epoch in epochs)
        if first == end:
            return FitFigures(number, self._origin_s, 0, None, None, None, loop=self._loop)
        last = ended[end - 1]
        before = ended[first - 1].step if first else 0
        rows = self._steps_between(max(before + 1, last.step - _MOST_STEPS + 1), last.step)
        steady = rows[rows["flags"] == 0]
        parts = breakdown(steady if len(steady) else rows)
        return FitFigures(
            number,
            self._origin_s + last.at_ns / 1e9,
            last.step - before,
            parts.step.mean if parts else None,
            parts.wait_share if parts else None,
            last.metrics.get("loss"),
            loop=self._loop,
        )
