"""Layers that augment images within the step of a CPU, in place of the input pipeline.

Remedy: move the layers into a parallel `.map`, with `.prefetch` after it. The random draws change.
On a GPU they are no finding: it rotates a batch in 0.2 ms, for which six cores take 70.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: Keras' preprocessing layers: they learn nothing, so a map can run them beside the steps.
_KINDS = (
    "Random",
    "Resizing",
    "Rescaling",
    "CenterCrop",
    "AutoContrast",
    "AugMix",
    "CutMix",
    "MixUp",
    "Equalization",
    "Solarization",
)
_ADVICE = (
    "move it into the input pipeline, in parallel: it then runs beside the steps; other random"
    " draws than in the model"
)
_BUSY = "in a parallel map it runs beside the steps where cores are free: here all are busy"
_CODE = """augment = keras.Sequential([{kinds}])  # these layers, no longer in the model
dataset = dataset.map(
    lambda x, y: (augment(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE
).prefetch(tf.data.AUTOTUNE)"""


def find(now: Situation) -> Finding | None:
    """Find the preprocessing layers of the model, by a profile of the step on a CPU."""
    parts = [part for part in now.parts if part.role == "layer" and part.kind.startswith(_KINDS)]
    if not parts or now.manifest.accelerated:
        return None
    share = sum(part.share for part in parts)
    names = ", ".join(part.name for part in parts)
    brief = f"{names} augment{'' if len(parts) > 1 else 's'} within the step"
    kinds = dict.fromkeys(f"keras.layers.{part.kind}(...)" for part in parts)
    # On free cores. Two trainings that used both cores took 1.2 and 1.5 times as long with a map.
    hidden = 0.0 if math.isnan(now.cores_free) else min(1.0, now.cores_free)
    return compute_loss(
        now,
        "augmentation",
        share,
        brief,
        f": {units.percent(share)} of compute",
        gives_back=hidden,
        why=f", {units.percent(hidden)} of it beside the steps",
        advice=_ADVICE if hidden else _BUSY,
        code=_CODE.format(kinds=", ".join(kinds)),
        where=names,
    )
