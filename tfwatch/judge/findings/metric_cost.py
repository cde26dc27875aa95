"""A metric that takes a large part of the step.

Remedy: fewer thresholds, or the metric in validation only. The weights stay the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: Metrics that count at many thresholds, 200 by default: each takes as long as it has of them.
_AT_THRESHOLDS = ("AUC", "AtRecall", "AtPrecision", "AtSensitivity", "AtSpecificity")
_FEWER = "keras.metrics.{kind}(..., num_thresholds=50)  # fewer than now"
_AT_END = "model.compile(..., metrics=[])  # and the metric of model.predict after an epoch"


def find(now: Situation) -> Finding | None:
    """Find the metric that takes most, by a profile of the step."""
    part = next((one for one in now.parts if one.role == "metric"), None)
    if part is None:
        return None
    brief = f"metric {part.name} takes {units.percent(part.share)} of compute"
    counts = any(word in part.kind for word in _AT_THRESHOLDS)
    fewer = "fewer thresholds, or compute it" if counts else "compute it"
    return compute_loss(
        now,
        "metric",
        part.share,
        brief,
        f": {units.milliseconds(part.took_ms)} of each step",
        advice=f"{fewer} in validation only: the weights stay the same",
        code=_FEWER.format(kind=part.kind) if counts else _AT_END,
        where=part.name,
    )
