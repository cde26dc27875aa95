"""Findings beside the losses of a run: why it failed, a loss that is NaN, the machine,
and TensorFlow's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import TrainingFailed
from tfwatch.judge.findings.finding import Fact, Finding, Tone
from tfwatch.judge.log_lines import find_meanings, summarise_log
from tfwatch.judge.loss import divergence_text, divergences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.machine import MachineFigures
    from tfwatch.runs.snapshot import Snapshot

#: What held for less than this share of the run is no finding.
_LEAST_SHARE = 0.01


def failure(run: Snapshot) -> Iterator[Finding]:
    """Yield the error that ended the training."""
    failed = run.events.newest(TrainingFailed)
    if failed:
        yield Finding(
            "failed",
            "FAILED",
            run.failure,
            tone=Tone.BAD,
            evidence=(Fact("step", failed.step, "step"),),
            reason="the error was recorded",
        )


def beside(run: Snapshot, machine: MachineFigures) -> Iterator[Finding]:
    """Yield what happened beside the losses."""
    yield from _losses(run)
    yield from _machine(run, machine)
    yield from _log(run)


def _losses(run: Snapshot) -> Iterator[Finding]:
    for divergence in divergences(run.events):
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


def _machine(run: Snapshot, machine: MachineFigures) -> Iterator[Finding]:
    """Yield the time that heat and swapping cost, and memory that grew."""
    for kind, lasted_s in (("heat", machine.heat_s), ("swapping", machine.swap_s)):
        if lasted_s >= _LEAST_SHARE * run.length_s and lasted_s > 0:
            yield Finding(
                kind,
                kind.upper(),
                f"slowed down by {kind} for {units.seconds(lasted_s)}",
                evidence=(Fact("lasted", lasted_s, "s"),),
                reason="the system reported it",
            )
    memory = machine.process_memory
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


def _log(run: Snapshot) -> Iterator[Finding]:
    for line in summarise_log(find_meanings(run.log)):
        if not line.harmless:
            yield Finding("tensorflow-log", "TENSORFLOW", line.text, reason="TensorFlow logged it")
