"""Launching the kernels of a step takes longer than the GPU computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings import advice, code_suggestions
from tfwatch.judge.findings.finding import Advice, Fact, Finding
from tfwatch.judge.steps.steady_steps import LAUNCH_FROM

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

_LAUNCHING = Advice(
    "larger batches, compile(steps_per_execution=8) or jit_compile=True: fewer, larger kernels",
    code_suggestions.FEWER_LAUNCHES,
)


def find(now: Situation) -> Finding | None:
    """Find the launching of kernels, on an accelerator, as far as it is longer than the rest of
    compute."""
    part, spent = now.setting.judgement.breakdown, now.setting.regime.spent
    if part is None or not now.manifest.accelerated or part.launch_share < LAUNCH_FROM:
        return None
    launched = f"{advice.of_step(part.dispatch, part.step)}/step"
    brief = f"launching kernels takes {launched}"
    return Finding(
        "launch-bound",
        f"LAUNCH-BOUND {units.percent(part.dispatch_share)}",
        f"{brief}, longer than the GPU then computes: its kernels are too small",
        _LAUNCHING.sentence,
        _LAUNCHING.edit,
        brief=brief,
        evidence=(Fact("launch_mean", part.dispatch.mean, "ms"),),
        # Kernels run while others are launched: what is over half of compute leaves it idle.
        claims={"compute_s": spent.compute_s * (2 * part.launch_share - 1)},
    )
