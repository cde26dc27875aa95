"""A figure of a run against its limit, decided by the end of its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest figures that pass; None: no limit.

    wait_share: data wait over step time, 0 to 1. slower_share: the step time beyond that of the baseline, 0 to 1.
    loss: at the run's end. straggler_share: the time that ranks wait for the slowest one over the group's step, 0 to 1.
    """

    wait_share: float | None = None
    step_ms: float | None = None
    memory_bytes: float | None = None
    loss: float | None = None
    slower_share: float | None = None
    straggler_share: float | None = None


@dataclass(frozen=True, slots=True)
class CheckedFigure:
    """A figure with its interval, its limit and the outcome.

    name: stable between versions. value, low, high: None where the figure is missing; `reason` says why, or why
    there is no clear outcome. low, high are the value itself where it is exact. unit: `share`, `ms`, `bytes` or empty.
    """

    name: str
    title: str
    unit: str
    outcome: Outcome
    value: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    reason: str = ""


def decide(low: float, high: float, limit: float) -> Outcome:
    """Return `passed` where all of the interval is within the limit, and `failed` where none of it is."""
    if math.isnan(low) or math.isnan(high):
        return "failed"
    if high <= limit:
        return "passed"
    return "failed" if low > limit else "inconclusive"


def worst(outcomes: list[Outcome]) -> Outcome:
    """Return `failed` where one failed, else `inconclusive` where one is, else `passed`."""
    for outcome in ("failed", "inconclusive"):
        if outcome in outcomes:
            return "failed" if outcome == "failed" else "inconclusive"
    return "passed"
