"""Stalls: a few long waits, between which the pipeline keeps up.

Remedy: look at the line or the stage that the finding names. A larger buffer hides short stalls
only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.rows import Flag
from tfwatch.core.user_code import split_place
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.findings.situation import LEADS_FROM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.stalls import Stall

#: Stalls are the finding where they hold this share of the data wait.
_MOST = 0.5
#: A call of this many seconds is logged.
_LOGGED_S = 1


def find(now: Situation) -> Finding | None:
    """Find the stalls of the present regime."""
    stalls = _of_regime(now)
    lost_s = _stalled_s(now)
    if not lost_s:
        return None
    each = units.seconds(lost_s / len(stalls))
    counted = units.counted(len(stalls), "stall")
    brief = f"{counted} of {each}" if len(stalls) == 1 else f"{counted} of {each} each"
    place = _costliest(stalls, "place")
    brief += f", last at step {units.count(stalls[-1].step)}" if place else ""
    reason = place or _costliest(stalls, "reason") or "nothing recorded explains them"
    return Finding(
        "stall",
        now.label("STALLS", lost_s),
        f"{brief}: {reason}; between them {_between(now, lost_s)}",
        _advice(place),
        brief=brief,
        where=place,
        claims={"data_wait_s": lost_s},
    )


def _stalled_s(now: Situation) -> float:
    """Return the seconds of the regime's stalls; 0 where most of its data wait is no stall."""
    lost_s = sum(one.lost_ms for one in _of_regime(now)) / 1e3
    return lost_s if lost_s >= _MOST * now.regime.spent.data_wait_s else 0.0


def waited_s(now: Situation) -> float:
    """Return the data wait of the regime without its stalls, where they are a loss of their own."""
    return now.regime.spent.data_wait_s - _stalled_s(now)


def stepped_s(now: Situation) -> float:
    """Return the time of the regime's steps without such stalls."""
    return now.regime.spent.worked_s - _stalled_s(now)


def _of_regime(now: Situation) -> list[Stall]:
    """Return the stalls of the present regime. The first batch of an epoch is a loss of its own."""
    return [
        one
        for one in now.stalls
        if one.start_ns >= now.regime.begin_ns and not one.flags & Flag.EPOCH_START
    ]


def _between(now: Situation, lost_s: float) -> str:
    """Return how the steps without a stall are: `the pipeline keeps up, 7.2 ms/step`."""
    spent, step_ms = now.regime.spent, now.median_step_ms
    wait_ms = 1e3 * max(spent.data_wait_s - lost_s, 0.0) / max(spent.steps, 1)
    if step_ms and wait_ms >= LEADS_FROM * step_ms:
        return f"a step waits {units.milliseconds(wait_ms)} for data in the mean"
    return f"the pipeline keeps up{f', {units.milliseconds(step_ms)}/step' if step_ms else ''}"


def _advice(place: str) -> str:
    """Advise to find the element that takes long. place: `feed.py:41 in rows, below map(read)`, or
    a stage; empty where unknown."""
    if not place:
        return "a larger buffer (.prefetch) hides short stalls only"
    line, function = split_place(place.partition(", ")[0])
    gets = function or "it"
    return f"log what {gets} gets when {line} takes over {_LOGGED_S} s; skip, copy or repair that"


def _costliest(stalls: Sequence[Stall], text: str) -> str:
    """Return the place, or the reason, of the most time; empty where none is known."""
    lost_ms: defaultdict[str, float] = defaultdict(float)
    for one in stalls:
        lost_ms[getattr(one, text)] += one.lost_ms
    known = {words: lost for words, lost in lost_ms.items() if words}
    return max(known, key=known.__getitem__, default="")
