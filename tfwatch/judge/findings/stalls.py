"""Stalls: a few long waits, between which the pipeline keeps up.

Remedy: look at the line or the stage that the finding names. A larger buffer hides short stalls
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Fact, Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

#: Stalls are the finding where they hold this share of the data wait.
_MOST = 0.5


def find(now: Situation) -> Finding | None:
    """Find the stalls of the present regime."""
    regime = now.regime
    stalls = [one for one in now.stalls if one.start_ns >= regime.begin_ns]
    lost_s = sum(one.lost_ms for one in stalls) / 1e3
    if not stalls or lost_s < _MOST * regime.spent.data_wait_s:
        return None
    longest = max(stalls, key=lambda one: one.lost_ms)
    each = units.seconds(lost_s / len(stalls))
    place = f": {longest.cause}" if longest.cause != "unexplained" else ""
    located = now.stall_place
    where = f", {located}" if located else ""
    brief = f"{units.counted(len(stalls), 'stall')} of {each} cost {units.seconds(lost_s)}"
    return Finding(
        "stall",
        now.label("STALLS", lost_s),
        f"{brief}{place}{where}; between them the pipeline keeps up",
        f"look at {located}" if located else "a larger buffer (.prefetch) hides short stalls only",
        brief=brief,
        where=located,
        evidence=(
            Fact("stalls", len(stalls)),
            Fact("longest", longest.lost_ms, "ms"),
            Fact("step", longest.step, "step"),
        ),
        claims={"data_wait_s": lost_s},
    )
