"""Operations that the CPU computes within a GPU's step while the GPU waits, as looking up words.

Remedy: compute them in a parallel `.map` of the input pipeline, or by operations that the GPU has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss
from tfwatch.judge.findings.python_in_step import CALLS

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

_CODE = """dataset = dataset.map(
    lambda x, y: (layer(x), y), num_parallel_calls=tf.data.AUTOTUNE
).prefetch(tf.data.AUTOTUNE)"""


def find(now: Situation) -> Finding | None:
    """Find the parts of a GPU's step that the CPU computes, by a profile of the step. Calls of
    Python are a finding of their own, and what a metric takes; a part that is neither the user's
    nor a layer's may launch kernels."""
    parts = [
        one
        for one in now.parts
        if one.on_host
        and one.operation not in CALLS
        and (one.role in ("layer", "loss") or one.place)
    ]
    if not parts:
        return None
    share = sum(part.share for part in parts)
    # As of layers that augment: beside the steps only where cores are free.
    hidden = 0.0 if math.isnan(now.cores_free) else min(1.0, now.cores_free)
    return compute_loss(
        now,
        "host-operations",
        share,
        f"the GPU waits {units.percent(share)} of compute for operations on the CPU",
        f": {parts[0].operation}, most of it in {parts[0].title}",
        gives_back=hidden,
        why=f", {units.percent(hidden)} of it beside the steps",
        advice="compute them in a map of the data set, in parallel, or by operations that the"
        " GPU has",
        code=_CODE,
        where=parts[0].place,
    )
