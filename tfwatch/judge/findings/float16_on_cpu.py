"""Convolutions in float16 on a CPU, where TensorFlow has no fast ones.

Remedy: float32, or bfloat16 where the CPU has it. Rounding changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.profile.step_parts import StepPart

#: The part of their time that float32 gives back: on two cores of an AMD EPYC steps of nine
#: convolutional networks took 2.8 to 8.9 times as long in float16; of two with separable and
#: depthwise ones 1.6 and 1.9 times, of dense ones 1.2 to 1.4 times, and of an LSTM 0.75 to 1.1.
_RECOVERED, _RECOVERED_BY_CHANNEL = 0.87, 0.5
#: What is slow is the gradient of the kernel: on a Xeon with instructions for float16 a step took
#: 42 and 87 times as long, and in its profile the forward pass 0.3 % of the convolutions. In
#: float32 three convolutions took 5.0 to 5.9 times as long as their forward pass on two cores.
_OF_FORWARD = 5.0
_BY_CHANNEL = ("Depthwise", "Separable")
_CODE = 'keras.mixed_precision.set_global_policy("{policy}")  # before the model is made'


def find(now: Situation) -> Finding | None:
    """Find the convolutions that compute in float16; without a profile their seconds are not known,
    and none are claimed."""
    layers = now.manifest.model.float16_convolutions if now.manifest.model else []
    types = now.manifest.machine.get("cpu_types")
    if not layers or now.manifest.accelerated or types is None or "float16" in types:
        return None
    parts = [part for part in now.parts if any(one.has(part.name) for one in layers)]
    share = sum(part.share for part in parts)
    by_channel = sum(part.share for part in parts if part.kind.startswith(_BY_CHANNEL))
    recovered = _RECOVERED * (share - by_channel) + _RECOVERED_BY_CHANNEL * by_channel
    gives_back = max(recovered / share, 1 - _OF_FORWARD * _forward(parts)) if share else 0.0
    first = next((one for part in parts for one in layers if one.has(part.name)), layers[0])
    more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
    brief = f"{first.name} ({first.kind}){more} in float16, which is slow on this CPU"
    takes = f": {units.percent(share)} of compute" if share else ""
    faster = "float32, or bfloat16, which it has" if "bfloat16" in types else "float32"
    policy = "mixed_bfloat16" if "bfloat16" in types else "float32"
    return compute_loss(
        now,
        "float16-on-cpu",
        share,
        f"{brief}{takes}",
        gives_back=gives_back,
        why=f", of which float32 gave back {units.percent(gives_back)}",
        advice=f"{faster}: a convolution in float16 takes at least 2 to 9 times as long; it changes"
        " the rounding",
        code=_CODE.format(policy=policy),
        where=first.name,
    )


def _forward(parts: list[StepPart]) -> float:
    """Return the share of the forward pass in their time; 1.0 where it is unknown."""
    backward_ms = sum(part.backward_ms for part in parts)
    return 1 - backward_ms / sum(part.took_ms for part in parts)
