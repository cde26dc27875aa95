"""Products of matrices and convolutions in float32 on a GPU whose tensor cores idle.

Remedy: the policy `mixed_float16`, or TensorFloat-32. Rounding changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss

if TYPE_CHECKING:
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: The part of their time that tensor cores are taken to give back: not measured. They pass eight
#: times as many products a second (NVIDIA's data sheets: V100 15.7 and 125 TFLOPS, A100 19.5 and
#: 156), where memory keeps up.
_RECOVERED = 0.5
#: GPUs of compute capability 7.5 without tensor cores.
_WITHOUT = "GTX 16"
_ADVICE = (
    "mixed_float16 computes them on tensor cores, as does TensorFloat-32 from an A100 on, where the"
    " script has switched it off; both change the rounding"
)
_CODE = 'keras.mixed_precision.set_global_policy("mixed_float16")  # before the model is made'


def find(now: Situation) -> Finding | None:
    """Find the kernels that compute in float32 without tensor cores, by a profile of the step."""
    took_ms = now.profile.float32_ms if now.profile else None
    name = now.machine.found.name if now.machine and now.machine.found else ""
    all_ms = sum(part.took_ms for part in now.parts)
    if not took_ms or not all_ms or _WITHOUT in name:
        return None
    share = took_ms / all_ms
    brief = f"kernels in float32 take {units.percent(share)} of compute, and tensor cores idle"
    return compute_loss(
        now,
        "idle-tensor-cores",
        share,
        brief,
        f": {units.milliseconds(took_ms)} of each step",
        gives_back=_RECOVERED,
        why="; tensor cores are taken to give back half of it",
        advice=_ADVICE,
        code=_CODE,
    )
