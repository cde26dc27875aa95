"""What happened in a run beside its losses: why it failed, a loss that is NaN, patterns, the
machine, and TensorFlow's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import TrainingFailed
from tfwatch.judge.findings.finding import Confidence, Fact, Finding, Tone
from tfwatch.judge.findings.log_lines import find_meanings, summarise_log
from tfwatch.judge.findings.loss import divergence_text, divergences
from tfwatch.judge.steps.patterns import pattern_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.judged_run import JudgedRun

#: Patterns below this share of the run are no finding.
_LEAST_SHARE = 0.01


def failure(judged: JudgedRun) -> Iterator[Finding]:
    """Yield the error that ended the training."""
    failed = next(
        (event for event in reversed(judged.run.events) if isinstance(event, TrainingFailed)), None
    )
    if failed:
        yield Finding(
            "failed",
            "FAILED",
            judged.run.failure,
            tone=Tone.BAD,
            evidence=(Fact("step", failed.step, "step"),),
            reason="the error was recorded",
        )


def beside(judged: JudgedRun) -> Iterator[Finding]:
    """Yield what happened beside the losses."""
    yield from _losses(judged)
    yield from _patterns(judged)
    yield from _machine(judged)
    yield from _log(judged)


def _losses(judged: JudgedRun) -> Iterator[Finding]:
    for divergence in divergences(judged.run.events):
        yield Finding(
            "loss-diverged",
            "LOSS",
            divergence_text(divergence.began),
            evidence=(
                Fact("step", divergence.began.step, "step"),
                Fact("finite_step", divergence.began.finite_step, "step"),
            ),
            reason="the loss of this step is recorded",
        )


def _patterns(judged: JudgedRun) -> Iterator[Finding]:
    """Yield the costliest periodic slow-down or drift."""
    least_ms = _LEAST_SHARE * judged.run.length_s * 1e3
    pattern = max(judged.summary.patterns, key=lambda pattern: pattern.lost_ms, default=None)
    if pattern is None or pattern.lost_ms < least_ms:
        return
    where = f"from step {units.count(pattern.step)} over {units.counted(pattern.steps, 'step')}"
    known = pattern.cause not in ("", "unexplained")
    confidence: Confidence = "medium" if known else "low"
    yield Finding(
        "pattern",
        "PATTERN",
        f"{pattern_text(pattern)} {where}: {units.seconds(pattern.lost_ms / 1e3)} lost",
        evidence=(
            Fact("lost", pattern.lost_ms, "ms"),
            Fact("step", pattern.step, "step"),
            Fact("cause", pattern.cause),
        ),
        confidence=confidence,
        reason="the lost time is measured; "
        + ("its cause was recorded at the same moment" if known else "its cause is unknown"),
    )


def _machine(judged: JudgedRun) -> Iterator[Finding]:
    """Yield the time that heat and swapping cost, and memory that grew."""
    for kind, lasted_s in (("heat", judged.hardware.heat_s), ("swapping", judged.hardware.swap_s)):
        if lasted_s >= _LEAST_SHARE * judged.run.length_s and lasted_s > 0:
            yield Finding(
                kind,
                kind.upper(),
                f"slowed down by {kind} for {units.seconds(lasted_s)}",
                evidence=(Fact("lasted", lasted_s, "s"),),
                reason="the system reported it",
            )
    memory = judged.hardware.process_memory
    if memory and memory.grew:
        yield Finding(
            "memory-growth",
            "MEMORY",
            f"memory of the process: {memory.text}",
            evidence=(
                Fact("begin", memory.begin_bytes, "bytes"),
                Fact("peak", memory.peak_bytes, "bytes"),
            ),
            confidence="medium",
            reason="sampled; caches and buffers grow too",
        )


def _log(judged: JudgedRun) -> Iterator[Finding]:
    for line in summarise_log(find_meanings(judged.run.log)):
        if not line.harmless:
            yield Finding("tensorflow-log", "TENSORFLOW", line.text, reason="TensorFlow logged it")
