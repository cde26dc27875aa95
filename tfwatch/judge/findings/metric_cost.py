"""A metric that takes a large part of the step.

Remedy: evenly spaced thresholds, or the metric in validation only. The weights stay the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

_EVEN = "keras.metrics.AUC(..., num_thresholds=200)  # in place of thresholds=[...]"
_AT_END = "model.compile(..., metrics=[])  # and the metric of model.predict after an epoch"


def find(now: Situation) -> Finding | None:
    """Find the metric that takes most, by a profile of the step."""
    part = next((one for one in now.parts if one.role == "metric"), None)
    if part is None:
        return None
    compared = _compared(now, part.name)
    values = f", in which it compares with {units.count(compared)} values" if compared else ""
    evenly = "evenly spaced thresholds, or compute it" if compared else "compute it"
    return compute_loss(
        now,
        "metric",
        part.share,
        f"metric {part.name} takes {units.percent(part.share)} of compute",
        f": {units.milliseconds(part.took_ms)} of each step{values}",
        advice=f"{evenly} in validation only: the weights stay the same",
        code=_EVEN if compared and part.kind == "AUC" else _AT_END,
        where=part.name,
    )


def _compared(now: Situation, name: str) -> int:
    """Return with how many thresholds a metric compares each prediction, or the first of several;
    0 where none does.

    Keras counts at evenly spaced thresholds in one pass. With a batch of 4 096 on two cores 4 000
    others took an AUC 48 ms, and 50 to 4 000 evenly spaced ones less than 1.
    """
    metrics = now.manifest.model.threshold_metrics if now.manifest.model else []
    return next((one.thresholds for one in metrics if one.name in name.split(", ")), 0)
