"""The facts of a model that take time in each step, in words: all that is known of a step without
a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.dense_updates import updates_all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.runs.format import Manifest

#: At most so many have a line.
_MOST_LINES = 8


def fact_lines(manifest: Manifest) -> list[str]:
    """Return a line for each fact; none where the model is not known, as in a loop of the script's
    own."""
    return [*_facts(manifest)][:_MOST_LINES]


def _facts(manifest: Manifest) -> Iterator[str]:
    model = manifest.model
    if model is None:
        return
    if (table := model.largest_embedding) and updates_all_rows(model.optimizer):
        size = f"{units.count(table.rows)} x {units.count(table.columns)}"
        yield f"{model.optimizer} updates all rows of {table.name} ({size}) in each step"
    for metric in model.threshold_metrics:
        count = units.count(metric.thresholds)
        yield f"metric {metric.name} ({metric.kind}) compares each prediction with {count} values"
    for layer in model.preprocessing:
        yield f"{layer.name} ({layer.kind}) preprocesses images within the step"
    for recurrent in model.without_cudnn if manifest.has_cudnn else ():
        against = ", ".join(recurrent.against)
        yield f"{recurrent.name} ({recurrent.kind}) runs without cuDNN: {against}"
    for layer in model.float16_convolutions if not manifest.accelerated else ():
        yield f"{layer.name} ({layer.kind}) computes in float16"
