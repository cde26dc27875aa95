"""Launching the kernels of a step takes longer than the GPU computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Fact, Finding
from tfwatch.judge.findings.situation import of_step
from tfwatch.judge.steps.steady_steps import LAUNCH_FROM

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

_ADVICE = (
    "larger batches, compile(steps_per_execution=8) or jit_compile=True: fewer, larger kernels"
)
_CODE = "model.compile(..., steps_per_execution=8, jit_compile=True)"


def find(now: Situation) -> Finding | None:
    """Find the launching of kernels, on an accelerator, as far as it is longer than the rest of
    compute."""
    part, spent = now.split, now.regime.spent
    if part is None or not now.manifest.accelerated or part.launch_share < LAUNCH_FROM:
        return None
    brief = f"launching kernels takes {of_step(part.dispatch, part.step)}/step"
    return Finding(
        "launch-bound",
        now.label("LAUNCH-BOUND", spent.compute_s * part.launch_share),
        f"{brief}, longer than the GPU then computes: its kernels are too small",
        _ADVICE,
        _CODE,
        brief=brief,
        evidence=(Fact("launch_mean", part.dispatch.mean, "ms"),),
        basis=f"launching takes {units.percent(part.launch_share)} of compute; half is hidden",
        # Kernels run while others are launched: what is over half of compute leaves it idle.
        claims={"compute_s": spent.compute_s * (2 * part.launch_share - 1)},
    )
