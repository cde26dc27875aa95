"""A forecast in words. It says `about`: `faster` and `slower` are for what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.analysis.forecast import Forecast
    from tfwatch.analysis.record import Record

#: A forecast that promises less than this, or costs less, is told as no gain.
WORTH = 0.05
#: A range that spreads by more than this, high over low, is told beside the number.
_WIDE = 1.4


def note(told: Forecast) -> str:
    """`23.4 ms  0.6 x`, `13.9 ms  no gain`, or why there is no number; beside a knob."""
    if not told.is_known:
        return told.why
    return f"{units.milliseconds(told.telling_ms)}  {_gain(told)}"


def promise(told: Forecast) -> str:
    """`about 13.8 ms, 1.7 x (the rest is compute)`; with its range where that is wide."""
    within = f" ({between(told)})" if between(told) else ""
    return f"about {units.milliseconds(told.telling_ms)}{within}, {_gain(told)} ({told.why})"


def between(told: Forecast) -> str:
    """`13.2 to 78.4`: its range in milliseconds; empty where that is narrow, and where not the median is told."""
    if not told.is_known or told.high_ms <= _WIDE * told.low_ms or told.in_bursts:
        return ""
    return " to ".join(units.together(told.low_ms, told.high_ms)).removesuffix(" ms")


def gains(told: Forecast) -> bool:
    """Whether the switch promises anything that may be had."""
    return promises(told) and not told.beyond_limit


def promises(told: Forecast) -> bool:
    """Whether the switch promises anything, whatever memory it takes."""
    return told.is_known and told.ratio >= 1 + WORTH


def best(forecasts: Iterable[Forecast]) -> Forecast | None:
    """The switch that promises most; None where none does. Simulated latency is turned off by nobody to train faster.

    Of switches that promise nearly the same the first is taken that a key makes, in the order of the screen.
    """
    promising = [one for one in forecasts if gains(one) and one.knob != "latency_ms"]
    most = max((one.ratio for one in promising), default=0.0)
    near = [one for one in promising if one.ratio >= most * (1 - WORTH)]
    return min(near, key=lambda one: _ORDER.index(one.knob) if one.knob in _ORDER else len(_ORDER), default=None)


def record_words(found: Record) -> str:
    """`forecasts: 4 switches, 3 % off (median), 4 in their range`; empty where nothing was foretold."""
    count = len(found.foretold)
    if not count:
        return ""
    off = f"{units.percent(found.median_off)} off"
    if count == 1:
        return f"its forecast was {off}, {'in' if found.inside else 'outside'} its range"
    return f"forecasts: {count} switches, {off} (median), {found.inside} in their range"


def last_words(found: Record | None) -> str:
    """`foretold 13.8, came 13.9 ms`, then `forecasts off by 4 % in the median of 5`; empty where none was made."""
    if not found or not found.foretold:
        return ""
    newest, count = found.foretold[-1], len(found.foretold)
    if count > 1:
        return f"forecasts off by {units.percent(found.median_off)} in the median of {count}"
    return f"foretold {', came '.join(units.together(newest.forecast.step_ms, newest.came_ms))}"


#: What costs least comes first.
_ORDER = ("prefetch", "workers", "fast_form", "cache")


def _gain(told: Forecast) -> str:
    return "no gain" if abs(told.ratio - 1) < WORTH else f"{units.times(told.ratio, 1)} x"
