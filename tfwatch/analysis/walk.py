"""Feeding the device, one switch after another: which comes next, whether it helped, and when there is no more to gain.

Pure: the settings, what was measured, what was tried and what is forecast go in; the next move or a reason to stop
comes out. Values of knobs are in words, as events have them.

First comes what feeds: prefetch with as few workers as hide the data, then more of what is missing. Then what takes
less of the cores. Settings that a few steps could not tell apart are compared again at the end, in turn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.analysis.gain import WORTH, Measured, helped, measure, no_slower, together
from tfwatch.analysis.moving import BUDGET, LEAST, Limits, Move, Place, Stop, Tried, stretch
from tfwatch.analysis.openings import easing, feeding, fits, seen_before, stretches
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.analysis.moving import Foretell
    from tfwatch.core.rows import Rows

#: Less data wait than this share of a step is no starving: no switch can win more than it.
FED_BELOW = 0.02
#: A step this near the device's own time has reached it.
NEAR_FLOOR = 0.02
#: Work this much longer than the device's own time shares its cores with those who make batches.
_CROWDED = 0.02


class Walk:
    """One walk, from the settings at its start.

    Attributes:
        knobs: what it stands at; first, now: what was measured as it began, and under what it stands at.
        tried: every move that was judged, oldest first.
    """

    def __init__(self, knobs: Mapping[str, str], first: Measured) -> None:
        self.knobs = dict(knobs)
        self.first = self.now = first
        self.tried: list[Tried] = []
        self._start = dict(knobs)
        self._floor_ms = first.work_ms
        self._fresh_until = 0

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was measured since `now`."""
        return len(self.tried) <= self._fresh_until

    def next(self, foretell: Foretell, limits: Limits) -> Move | Stop:
        """What comes next. foretell: the forecast of knobs turned to values from where it stands."""
        return next_move(self.place(foretell), limits)

    def place(self, foretell: Foretell) -> Place:
        """Where it stands."""
        return Place(self._start, self.knobs, self.now, self.tried, foretell, self._floor_ms, self.is_fresh)

    def judge(self, move: Move, rows: Rows, *, last: bool) -> bool | None:
        """Take the steps in that came after a move settled; says whether it is kept, None where more have to tell."""
        after = measure(rows)
        if after is None or after.steps < LEAST:
            return self.drop(move, after) if last else None
        kept = self._verdict(move, after, last=last)
        if kept is None or (kept and not last and after.error_ms > WORTH * after.step_ms):
            return None  # what is kept is what the next moves are compared with
        self._floor_ms = min(self._floor_ms, after.work_ms)
        if not kept:
            return self.drop(move, after)
        self.tried.append(Tried(dict(self.knobs), move, True, self.now, after, self.is_fresh))
        self.knobs, self.now, self._fresh_until = move.turned(self.knobs), after, len(self.tried)
        return True

    def drop(self, move: Move, after: Measured | None = None) -> bool:
        """A move is taken back, or was never made. after: what was measured under it."""
        self.tried.append(Tried(dict(self.knobs), move, False, self.now, after, self.is_fresh))
        return False

    def rebase(self, rows: Rows) -> None:
        """Take steps in that were measured anew where the walk stands."""
        self.now, self._fresh_until = measure(rows) or self.now, len(self.tried)

    def _verdict(self, move: Move, after: Measured, *, last: bool) -> bool | None:
        if move.leaner:
            return helped(self.now, after, last=last) or no_slower(self.now, after, last=last)
        if not move.again:
            return helped(self.now, after, last=last)
        rounds = [*stretches(self.place(lambda _: None), move.turned(self.knobs)), (self.now, after)]
        before, after = (together(sides) for sides in zip(*rounds, strict=True))
        return helped(before, after, last=last, again=True)


def next_move(place: Place, limits: Limits) -> Move | Stop:
    """What comes next."""
    now = place.now
    if now.step_ms <= (1 + NEAR_FLOOR) * place.floor_ms < math.inf:
        above = f"less than {units.percent(NEAR_FLOOR)} above the device's own {units.milliseconds(place.floor_ms)}"
        return Stop("floor", f"a step takes {units.milliseconds(now.step_ms)}, {above}")
    starves = now.wait_share >= FED_BELOW
    crowded = now.work_ms > (1 + _CROWDED) * place.floor_ms
    if not starves and limits.accelerated and not crowded:
        return Stop("fed", _fed(now))
    feed = [move for move in feeding(place, limits) if starves or move.knob in _LIGHTER]
    fitting = [move for move in feed if fits(place, limits, move)]
    ranked = sorted(fitting, key=lambda move: _rank(move, now))
    eased = [move for move in easing(place, limits) if crowded and fits(place, limits, move)]
    moves = [*ranked, *eased, *seen_before(place)]
    best = next((move for move in moves if stretch(place, move, limits) >= LEAST), None)
    if best:
        return best
    if any(move.knob != "cache" for move in moves):
        left = f"the {max(limits.steps, 0)} steps left of its {BUDGET} are too few to judge another switch by"
        return Stop("budget", f"{left}; {_fed(now)}")
    return _nothing_left(now, starves, bool(feed) and not ranked, bool(ranked))


#: What takes work off the cores, so that a CPU that trains gains even where it does not wait.
_LIGHTER = ("fast_form", "cache")
_ORDER = ("fast_form", "workers", "prefetch", "cache")


def _rank(move: Move, now: Measured) -> tuple[int, float]:
    """By forecast, those that promise something first; then those without one; last those that promise nothing.

    Another form changes what the others have to do: it comes first, unless it promises nothing; then two knobs at once.
    """
    forecast = move.forecast
    known = forecast is not None and forecast.is_known
    step_ms = now.step_ms
    if forecast is not None and known:
        step_ms = forecast.step_ms if math.isnan(forecast.mean_ms) else forecast.mean_ms
    promises = step_ms <= (1 - WORTH) * now.step_ms
    if move.knob == "fast_form" and (promises or not known):
        return 0, 0.0
    if len(move.turns) > 1:
        return 1, 0.0
    if not known:
        return 3, _ORDER.index(move.knob)
    return (2, step_ms) if promises else (4, _ORDER.index(move.knob))


def _nothing_left(now: Measured, starves: bool, refused: bool, caches: bool) -> Stop:
    later = "; a cache would gain once an epoch has filled it: c" if caches else ""
    if not starves:
        return Stop("fed", _fed(now) + later)
    limit = "the switches that are left need more memory than its limit" if refused else "no other switch makes it less"
    return Stop("tried", f"{_fed(now)}; {limit}{later}")


def _fed(now: Measured) -> str:
    waits = units.number(now.step_ms - now.work_ms)
    return f"it waits {waits} of {units.milliseconds(now.step_ms)} a step"
