"""Troubles of a run beside its lost time: a failure, a loss that is NaN, the machine, and
TensorFlow's log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import LossDiverged, Paused, TrainableIgnored, TrainingFailed
from tfwatch.judge.findings.finding import Fact, Finding, Tone
from tfwatch.judge.log_lines import find_meanings, that_matter
from tfwatch.judge.steps.stalls import is_stall_of_callback

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
        )


def beside(run: Snapshot, machine: MachineFigures) -> Iterator[Finding]:
    """Yield what happened beside the losses."""
    yield from _losses(run)
    yield from _callbacks(run)
    yield from _trainable(run)
    yield from _machine(run, machine)
    for one in that_matter(find_meanings(run.log), run.manifest.machine):
        yield Finding("tensorflow-log", "TENSORFLOW", one.text)


def _losses(run: Snapshot) -> Iterator[Finding]:
    for began in run.events.of(LossDiverged):
        yield Finding(
            "loss-diverged",
            "LOSS",
            divergence_text(began),
            evidence=(
                Fact("step", began.step, "step"),
                Fact("finite_step", began.finite_step, "step"),
            ),
        )


def _callbacks(run: Snapshot) -> Iterator[Finding]:
    longest = [one for one in run.events.of(Paused) if is_stall_of_callback(one)]
    for name in dict.fromkeys(one.detail for one in longest):
        took_s = [one.took_ms / 1e3 for one in longest if one.detail == name]
        place = next((one.place for one in longest if one.detail == name and one.place), "")
        of_line = f" ({place})" if place else ""
        each = f"{units.counted(len(took_s), 'time')}, the longest {units.seconds(max(took_s))}"
        yield Finding(
            "callback-stall",
            "CALLBACK",
            f"callback {name}{of_line} held the training up for {units.seconds(sum(took_s))}"
            f" ({each})",
            where=f"{name}, {place}" if place else name,
            evidence=(Fact("lasted", sum(took_s), "s"),),
        )


def _trainable(run: Snapshot) -> Iterator[Finding]:
    if ignored := run.events.newest(TrainableIgnored):
        yield Finding(
            "trainable-ignored",
            "TRAINABLE",
            ignored_text(ignored),
            "model.compile(...) again after a change of trainable",
        )


def _machine(run: Snapshot, machine: MachineFigures) -> Iterator[Finding]:
    if machine.others.matters:
        yield Finding(
            "other-programs",
            "OTHER PROGRAMS",
            f"{machine.others.past_text}: all times are longer for it",
            "compare runs that have the machine to themselves",
            evidence=(Fact("lasted", machine.others.took_s, "s"),),
        )
    for kind, lasted_s in (("heat", machine.heat_s), ("swapping", machine.swap_s)):
        if lasted_s >= _LEAST_SHARE * run.length_s and lasted_s > 0:
            yield Finding(
                kind,
                kind.upper(),
                f"slowed down by {kind} for {units.seconds(lasted_s)}",
                evidence=(Fact("lasted", lasted_s, "s"),),
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
        )


# -- the loss --------------------------------------------------------------------------------------


def current_divergence(run: Snapshot) -> LossDiverged | None:
    """Return the begin of a loss that is NaN or infinite; None where it is finite."""
    loss = run.latest.loss if run.latest else None
    is_finite = loss is not None and math.isfinite(loss)
    return None if is_finite else run.events.newest(LossDiverged)


def divergence_text(began: LossDiverged) -> str:
    """Return `loss is NaN since step 151`."""
    return f"loss is {began.loss} since {_which(began)}"


def divergences_text(run: Snapshot) -> str:
    """Return in one line when the loss of a run was NaN or infinite, the last time; empty where it
    never was."""
    began = run.events.newest(LossDiverged)
    if began is None:
        return ""
    if current_divergence(run):
        return divergence_text(began)
    return f"loss was {began.loss} from {_which(began)} on, finite again at the end"


# -- layers that are frozen ------------------------------------------------------------------------


def ignored_text(ignored: TrainableIgnored) -> str:
    """Return `frozen, but still trained: conv1 and 3 more (no compile() since)`."""
    sides = (
        ("frozen, but still trained", ignored.frozen),
        ("trainable, but not trained", ignored.unfrozen),
    )
    said = [
        f"{words}: {layers[0]}{f' and {len(layers) - 1} more' if len(layers) > 1 else ''}"
        for words, layers in sides
        if layers
    ]
    return f"{'; '.join(said)} (no compile() since)"


def _which(began: LossDiverged) -> str:
    first = began.finite_step + 1
    if first >= began.step:
        return f"step {units.count(began.step)}"
    return f"one of the steps {units.count(first)} to {units.count(began.step)}"
