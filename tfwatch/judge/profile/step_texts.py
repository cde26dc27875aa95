"""A step by layer as text: the lines of a profile, a part in words, and the facts of the model that
are known without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.dense_updates import updates_all_rows
from tfwatch.judge.profile.step_groups import step_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.core.events import StepProfiled
    from tfwatch.judge.profile.step_parts import StepPart
    from tfwatch.runs.format import Manifest

#: The longest parts have a line.
_MOST_LINES = 12


def profile_lines(profile: StepProfiled) -> list[str]:
    """Return a profile as lines of a text: each part with its time a step, its share and its
    line; or why there is none."""
    if profile.missing:
        return [f"no profile: {profile.missing}"]
    return [
        f"{time_text(one.took_ms):>8} {units.percent(one.share):>5}  {part_text(one)}"
        for one in step_rows(profile)[:_MOST_LINES]
    ]


def name_text(part: StepPart) -> str:
    """Return the name of a part: `conv2d (Conv2D)`, `block_3 (6 layers)`, `metric auc (AUC)`."""
    role = f"{part.role} " if part.role in ("metric", "optimizer", "loss") else ""
    name = part.name if part.name.strip() != part.role else ""
    kind = part.kind or (units.counted(part.count, "layer") if part.count > 1 else "")
    kind = f" ({kind})" if kind else ""
    variable = f" of {part.variable}" if part.variable else ""
    return f"{role}{name}{kind}{variable}".strip()


def part_text(part: StepPart) -> str:
    """Return a part in words: `conv2d (Conv2D), backward 6.1 ms, train.py:41 in call`."""
    backward = f"backward {time_text(part.backward_ms)}" if part.backward_ms else ""
    longest = f"most in {part.longest}" if part.longest else ""
    return ", ".join(filter(None, (name_text(part), backward, longest, part.place)))


def time_text(took_ms: float) -> str:
    """Return milliseconds, with two decimals of a short time: many parts are."""
    return units.milliseconds(took_ms) if took_ms >= 1 else f"{units.number(took_ms, 2)} ms"


#: At most so many have a line.
_MOST_FACTS = 8


def fact_lines(manifest: Manifest) -> list[str]:
    """Return a line for each fact; none where the model is not known, as in a loop of the script's
    own."""
    return [*_facts(manifest)][:_MOST_FACTS]


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
