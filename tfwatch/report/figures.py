"""Figures as the JSON object holds them: what is missing is None."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfwatch.analysis.breakdown import Breakdown, Stat


def finite(value: Any) -> Any:
    """What JSON can hold, all the way down: None for NaN and infinity, which are no JSON."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def split_json(split: Breakdown | None) -> dict[str, Any]:
    """The parts of a step, each {median, mean, p95} in milliseconds, and the share of data wait."""
    return {
        "step_ms": _stat(split.step if split else None),
        "data_wait_ms": _stat(split.wait if split else None),
        "compute_ms": _stat(split.compute if split else None),
        "host_ms": _stat(split.host if split else None),
        "dispatch_ms": _stat(split.dispatch if split else None),
        "data_wait_share": split.wait_share if split else None,
    }


def _stat(stat: Stat | None) -> dict[str, float | None]:
    return {name: getattr(stat, name) if stat else None for name in ("median", "mean", "p95")}
