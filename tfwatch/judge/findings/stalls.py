"""Stalls: a few long waits, between which the pipeline keeps up.

Remedy: look at the line or the stage that the finding names. A larger buffer hides short stalls
only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.stalls import Stall

#: Stalls are the finding where they hold this share of the data wait.
_MOST = 0.5


def find(now: Situation) -> Finding | None:
    """Find the stalls of the present regime."""
    regime = now.regime
    stalls = [one for one in now.stalls if one.start_ns >= regime.begin_ns]
    lost_s = sum(one.lost_ms for one in stalls) / 1e3
    if not stalls or lost_s < _MOST * regime.spent.data_wait_s:
        return None
    each = units.seconds(lost_s / len(stalls))
    counted = units.counted(len(stalls), "stall")
    brief = f"{counted} of {each}" if len(stalls) == 1 else f"{counted} of {each} each"
    place = _costliest(stalls, "place")
    reason = place or _costliest(stalls, "reason") or "nothing recorded explains them"
    pace = f", {units.milliseconds(now.median_step_ms)}/step" if now.median_step_ms else ""
    return Finding(
        "stall",
        now.label("STALLS", lost_s),
        f"{brief}: {reason}; between them the pipeline keeps up{pace}",
        f"look at {place}" if place else "a larger buffer (.prefetch) hides short stalls only",
        brief=brief,
        where=place,
        claims={"data_wait_s": lost_s},
    )


def _costliest(stalls: Sequence[Stall], text: str) -> str:
    """Return the place, or the reason, of the most time; empty where none is known."""
    lost_ms: defaultdict[str, float] = defaultdict(float)
    for one in stalls:
        lost_ms[getattr(one, text)] += one.lost_ms
    known = {words: lost for words, lost in lost_ms.items() if words}
    return max(known, key=known.__getitem__, default="")
