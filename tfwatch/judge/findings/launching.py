"""Launching the kernels of a step takes longer than the GPU computes.

Remedy: larger batches, `steps_per_execution=8` or `jit_compile=True`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import JIT_COMPILE, STEPS_PER_EXECUTION, Finding
from tfwatch.judge.findings.situation import of_step
from tfwatch.judge.steps.steady_steps import LAUNCH_FROM

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.steady_steps import Breakdown

_ADVICE = (
    "larger batches, compile(steps_per_execution=8) or jit_compile=True: fewer, larger kernels"
)
_CODE = "model.compile(..., steps_per_execution=8, jit_compile=True)"


def find(now: Situation) -> Finding | None:
    """Find the launching of kernels, on an accelerator, as far as it is longer than the rest of
    compute. That of a loop is the loop's."""
    part, spent = now.split, now.regime.spent
    if part is None or not now.manifest.accelerated or part.launch_share < LAUNCH_FROM:
        return None
    gaps_ms = _gaps_ms(now, part)
    share = 2 * part.launch_share - 1 if gaps_ms is None else min(gaps_ms / part.compute.mean, 1.0)
    why = "longer than the GPU then computes"
    # Kernels run while others are launched: what is over half of compute leaves it idle.
    basis = f"launching takes {units.percent(part.launch_share)} of compute; half is hidden"
    if gaps_ms is not None:
        why = f"the GPU idles {units.milliseconds(gaps_ms)} between two kernels"
        basis = now.profiled(share)
    brief = f"launching kernels takes {of_step(part.dispatch, part.step)}/step"
    return Finding(
        "launch-bound",
        now.label("LAUNCH-BOUND", part.dispatch.mean, part.step.mean),
        f"{brief}, {why}: its kernels are too small",
        _ADVICE,
        _CODE,
        arguments=(STEPS_PER_EXECUTION, JIT_COMPILE),
        brief=brief,
        basis=basis,
        claims={"compute_s": spent.compute_s * share},
    )


def _gaps_ms(now: Situation, part: Breakdown) -> float | None:
    """Return the GPU's idle time between kernels of a step, without the time by which the profile
    lengthened its steps; None without a profile of them."""
    profile = now.profile
    if profile is None or profile.gaps_ms is None:
        return None
    longer_ms = max(profile.step_ms - part.step.mean, 0.0)
    return max(profile.gaps_ms - longer_ms, 0.0)
