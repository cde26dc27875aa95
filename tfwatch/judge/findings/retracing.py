"""Steps that are traced or compiled again: new shapes, or Python numbers as arguments.

Remedy: pad batches to a few lengths, or `tf.function(reduce_retracing=True)`; pass tensors in place
of Python numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Advice, Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

_SHAPES = (
    "pad batches to a few lengths (bucket_by_sequence_length), or tf.function(reduce_retracing="
    "True), or an input_signature with None for what changes"
)
#: `reduce_retracing` relaxes shapes alone: 50 Python numbers were 50 traces with it too.
_NUMBERS = "pass tensors in place of Python numbers and new objects"
_TENSOR = "number = tf.constant(number)  # before the call: tensors of one shape are one signature"
_COMPILED = (
    "without jit_compile=True, or with batches padded to a few lengths: XLA compiles each length"
)
_BUCKETS = (
    "dataset = dataset.bucket_by_sequence_length(length, boundaries, batch_sizes)"
    "  # pads to a few lengths"
)
_RELAXED = "@tf.function(reduce_retracing=True)  # or input_signature=[tf.TensorSpec((None, None))]"


def find(now: Situation) -> Finding | None:
    """Find the traces after the first one of each model."""
    regime, spent = now.regime, now.regime.spent
    if not (again := regime.traces_again):
        return None
    lost_s = spent.compile_s * again / spent.traces
    many = f"{units.count(again)} of {units.counted(spent.steps, 'step')}"
    change = f", {regime.trace_change}" if regime.trace_change else ""
    brief = f"{many} traced again, {units.seconds(lost_s)}"
    advice = _advise(now)
    return Finding(
        "retracing",
        now.label("RETRACING", lost_s),
        f"{brief}: each new signature of the step is a new trace{change}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=regime.trace_change,
        claims={"compile_s": lost_s},
    )


def _advise(now: Situation) -> Advice:
    change = now.regime.trace_change
    if now.manifest.model and now.manifest.model.jit_compile:
        return Advice(_COMPILED, _BUCKETS)
    if change and "shape" not in change:
        return Advice(_NUMBERS, _TENSOR)
    return Advice(_SHAPES, _RELAXED if now.has_own_loop else _BUCKETS)
