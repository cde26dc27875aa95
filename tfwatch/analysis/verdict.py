"""Whether the device starves: the TensorFlow profiler's words and lines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.core.rows import Rows


class Verdict(Enum):
    """The TensorFlow profiler's own words; its lines are 5 % and 20 % of step time."""

    UNKNOWN = "not enough data"
    NOT = "NOT input-bound"
    MODERATELY = "MODERATELY input-bound"
    HIGHLY = "HIGHLY input-bound"
    HOST = "host-bound"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict over a window; `steps` of `needed` steady steps were there to judge by."""

    verdict: Verdict
    steps: int
    needed: int
    breakdown: Breakdown | None


def judge(rows: Rows, before: Verdict = Verdict.UNKNOWN) -> Judgement:
    """Judge the newest steps of `rows` (the last max(20 steps, 2 s), steady ones).

    `before` is the last verdict: it is kept until the share is 2 points past the line (hysteresis).
    """
    raise NotImplementedError
