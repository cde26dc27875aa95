"""Situations to judge: a run that goes on, and what its finding is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfwatch.core.rows import Phase
from tfwatch.judge.findings.banner import banner
from tfwatch.judge.findings.situation import Situation
from tfwatch.judge.steps.verdict import Bound, Breakdown, Judgement, Stat, Verdict


def stat(ms: float) -> Stat:
    return Stat(ms, ms, ms)


def split(wait: float, compute: float, host: float, steps: int = 100) -> Breakdown:
    step = wait + compute + host
    return Breakdown(
        steps, stat(step), stat(wait), stat(1.0), stat(compute), stat(host), wait / step
    )


def judged(
    verdict: Verdict,
    wait: float = 9.6,
    compute: float = 13.0,
    host: float = 0.8,
    bound: Bound = Bound.COMPUTE,
) -> Judgement:
    bound = bound if verdict is Verdict.NOT else Bound.INPUT
    return Judgement(verdict, 100, 20, split(wait, compute, host), bound)


RUNNING = Situation(
    phase=Phase.COMPUTE,
    step=412,
    steps_total=411,
    device="the GPU",
    median_step_ms=23.4,
    knobs={"prefetch": "off", "workers": "off"},
    switchable=("prefetch", "workers"),
    run="2026-11-20T10-17-03_cnn",
    now_s=100.0,
)


def finding(**changes: Any) -> tuple[str, str, str]:
    found = banner(replace(RUNNING, **changes))
    return found.word, found.sentence, found.advice
