"""The findings on a run, each with its evidence and the confidence in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfwatch.core import units
from tfwatch.core.events import TrainingFailed
from tfwatch.judge.comparing.checked_run import measure_levels
from tfwatch.judge.comparing.intervals import BASIS, LEAST_STEPS, STEP, WAIT_SHARE
from tfwatch.judge.comparing.run_to_compare import RunToCompare
from tfwatch.judge.effects.switch_text import best
from tfwatch.judge.findings import banner
from tfwatch.judge.findings.log_lines import find_meanings, summarise_log
from tfwatch.judge.findings.loss import divergence_text, divergences
from tfwatch.judge.steps.patterns import pattern_text
from tfwatch.judge.steps.stalls import stall_place_text
from tfwatch.judge.steps.verdict import HIGHLY_FROM, MODERATELY_FROM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.comparing.intervals import Interval
    from tfwatch.judge.findings.situation import Banner
    from tfwatch.judge.judged_run import JudgedRun

Confidence: TypeAlias = Literal["high", "medium", "low"]

#: Stalls and patterns below this share of the run are no finding.
_LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure of the evidence; low, high: its interval, None where it is exact."""

    name: str
    value: float | str
    #: Empty for words.
    unit: str = ""
    low: float | None = None
    high: float | None = None
    #: The steps that count, where the summary of the run counts others.
    basis: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    #: Stable between versions.
    kind: str
    word: str
    sentence: str
    evidence: tuple[Fact, ...]
    confidence: Confidence
    #: Of the confidence.
    reason: str
    #: Empty where there is nothing to do.
    advice: str = ""
    code: str = ""


def find_all(judged: JudgedRun) -> list[Finding]:
    """Return the findings, the limit of the steps first; none for a run without enough steps and
    without events."""
    return [
        *_failure(judged),
        *_limits(judged),
        *_losses(judged),
        *_slow_steps(judged),
        *_machine(judged),
        *_log(judged),
    ]


def _failure(judged: JudgedRun) -> Iterator[Finding]:
    failed = next(
        (event for event in reversed(judged.run.events) if isinstance(event, TrainingFailed)), None
    )
    if failed:
        facts = (Fact("step", failed.step, "step"),)
        yield Finding(
            "failed", "FAILED", judged.run.failure, facts, "high", "the error was recorded"
        )


def _limits(judged: JudgedRun) -> Iterator[Finding]:
    """Yield the time between epochs where it costs most, and the limit of the steps."""
    bound, limit = judged.summary.bound, banner.describe_bound(judged.situation)
    if bound is None or limit is None:
        return
    if judged.between_epochs:
        spent = judged.situation.setting.epoch_spent
        share = spent.between_share if spent else math.nan
        facts = (Fact("between_epochs_share", share, "share"),)
        yield _finding(
            "between-epochs", judged.between_epochs, facts, "high", "measured over whole epochs"
        )
    evidence, confidence, reason = _limit_evidence(judged)
    yield _finding(bound.value, limit, evidence, confidence, reason)


def _finding(
    kind: str, banner: Banner, facts: tuple[Fact, ...], confidence: Confidence, reason: str
) -> Finding:
    return Finding(
        kind, banner.word, banner.sentence, facts, confidence, reason, banner.advice, banner.edit
    )


def _limit_evidence(judged: JudgedRun) -> tuple[tuple[Fact, ...], Confidence, str]:
    """Return the figures of the last setting, and the confidence in its limit."""
    split = judged.setting.judgement.breakdown
    assert split is not None  # a run with a limit has steps
    facts = [Fact("steady_steps", split.steps, "step")]
    one = RunToCompare(judged, judged.run.manifest.run)
    levels = measure_levels([one]) if len(one.rows) >= LEAST_STEPS else {}
    wait, step = levels.get(WAIT_SHARE), levels.get(STEP)
    facts.append(_fact("data_wait_share", split.wait_share, "share", wait))
    facts.append(_fact("step_time", split.step.mean, "ms", step))
    parts = (
        ("step_time", split.step),
        ("data_wait", split.wait),
        ("compute", split.compute),
        ("host", split.host),
    )
    facts += [Fact(f"{name}_mean", part.mean, "ms") for name, part in parts]
    if (table := judged.pipeline) and table.bottleneck:
        facts.append(Fact("bottleneck", table.bottleneck.sentence))
    forecast = best(judged.situation.setting.forecasts.values())
    if forecast is not None:
        knob = f"forecast_step_time_{forecast.knob}_{forecast.value}"
        facts.append(Fact(knob, forecast.step_ms, "ms", forecast.low_ms, forecast.high_ms))
    return (tuple(facts), *_limit_confidence(wait, split.steps))


def _fact(name: str, value: float, unit: str, interval: Interval | None) -> Fact:
    """Return a figure with its interval and the value that this belongs to, as `check` prints it;
    else `value`."""
    if interval is None:
        return Fact(name, value, unit)
    return Fact(name, interval.value, unit, interval.low, interval.high, BASIS)


def _limit_confidence(wait: Interval | None, steps: int) -> tuple[Confidence, str]:
    """Return the confidence in a verdict: high where no threshold lies in the interval of data
    wait."""
    if wait is None:
        return "low", f"only {units.counted(steps, 'steady step')}"
    inside = [
        threshold
        for threshold in (MODERATELY_FROM, HIGHLY_FROM)
        if wait.low < threshold <= wait.high
    ]
    interval = f"data wait is {wait.low * 100:.1f} to {wait.high * 100:.1f} % of a step"
    if inside:
        return (
            "medium",
            (
                f"{interval} (95 % interval), which contains the threshold of"
                f" {units.percent(inside[0])}"
            ),
        )
    return "high", f"{interval} (95 % interval), which contains no threshold"


def _losses(judged: JudgedRun) -> Iterator[Finding]:
    for divergence in divergences(judged.run.events):
        facts = (
            Fact("step", divergence.began.step, "step"),
            Fact("finite_step", divergence.began.finite_step, "step"),
        )
        yield Finding(
            "loss-diverged",
            "LOSS",
            divergence_text(divergence.began),
            facts,
            "high",
            "the loss of this step is recorded",
        )


def _slow_steps(judged: JudgedRun) -> Iterator[Finding]:
    """Yield the longest stall, and the costliest periodic slow-down or drift."""
    least_ms = _LEAST_SHARE * judged.run.length_s * 1e3
    stall = max(judged.summary.stalls, key=lambda stall: stall.lost_ms, default=None)
    if stall and stall.lost_ms >= least_ms:
        facts = (
            Fact("lost", stall.lost_ms, "ms"),
            Fact("step", stall.step, "step"),
            Fact("cause", stall.cause),
        )
        lost, step = units.seconds(stall.lost_ms / 1e3), units.count(stall.step)
        over = f" over {stall.steps} steps" if stall.steps > 1 else ""
        place = f"{stall.cause}{stall_place_text(stall, judged.run.events)}"
        words = f"longest stall: {lost} without data at step {step}{over}, {place}"
        yield Finding("stall", "STALL", words, facts, *_cause_confidence(stall.cause))
    pattern = max(judged.summary.patterns, key=lambda pattern: pattern.lost_ms, default=None)
    if pattern and pattern.lost_ms >= least_ms:
        facts = (
            Fact("lost", pattern.lost_ms, "ms"),
            Fact("step", pattern.step, "step"),
            Fact("cause", pattern.cause),
        )
        where = f"from step {units.count(pattern.step)} over {units.counted(pattern.steps, 'step')}"
        words = f"{pattern_text(pattern)} {where}: {units.seconds(pattern.lost_ms / 1e3)} lost"
        yield Finding("pattern", "PATTERN", words, facts, *_cause_confidence(pattern.cause))


def _cause_confidence(cause: str) -> tuple[Confidence, str]:
    if cause in ("", "unexplained"):
        return "low", "the lost time is measured, its cause is unknown"
    return (
        "medium",
        "the lost time is measured, its cause follows from what was recorded at the same moment",
    )


def _machine(judged: JudgedRun) -> Iterator[Finding]:
    """Yield the time that heat and swapping cost, and memory that grew."""
    for kind, lasted_s in (("heat", judged.hardware.heat_s), ("swapping", judged.hardware.swap_s)):
        if lasted_s >= _LEAST_SHARE * judged.run.length_s and lasted_s > 0:
            words = f"slowed down by {kind} for {units.seconds(lasted_s)}"
            yield Finding(
                kind,
                kind.upper(),
                words,
                (Fact("lasted", lasted_s, "s"),),
                "high",
                "the system reported it",
            )
    memory = judged.hardware.process_memory
    if memory and memory.grew:
        facts = (
            Fact("begin", memory.begin_bytes, "bytes"),
            Fact("peak", memory.peak_bytes, "bytes"),
        )
        words = f"memory of the process: {memory.text}"
        yield Finding(
            "memory-growth",
            "MEMORY",
            words,
            facts,
            "medium",
            "sampled; caches and buffers grow too",
        )


def _log(judged: JudgedRun) -> Iterator[Finding]:
    for line in summarise_log(find_meanings(judged.run.log)):
        if not line.harmless:
            yield Finding(
                "tensorflow-log", "TENSORFLOW", line.text, (), "high", "TensorFlow logged it"
            )
