"""A run, or several equal ones, against the limits of a user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfwatch.core import units
from tfwatch.core.events import EpochEnded
from tfwatch.judge.comparing import intervals
from tfwatch.judge.comparing.compared_runs import compare_runs, log_of, others_share, part_spread
from tfwatch.judge.comparing.intervals import (
    BASIS,
    LEAST_STEPS,
    STEP,
    WAIT_SHARE,
    assumed_share,
    estimate_spread,
    measure_runs,
)
from tfwatch.judge.comparing.run_to_compare import check_side
from tfwatch.judge.loss import current_divergence
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.judge.comparing.intervals import Interval
    from tfwatch.judge.comparing.run_to_compare import RunToCompare

Outcome: TypeAlias = Literal["passed", "failed", "inconclusive"]

_END = "run ended normally"


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """The largest figures that pass; None: no limit."""

    #: Data wait over step time, 0 to 1.
    wait_share: float | None = None
    step_ms: float | None = None
    memory_bytes: float | None = None
    #: At the run's end.
    loss: float | None = None
    #: The step time beyond that of the baseline, 0 to 1.
    slower_share: float | None = None


@dataclass(frozen=True, slots=True)
class CheckedFigure:
    """A figure with its interval, its limit and the outcome."""

    #: Stable between versions.
    name: str
    title: str
    #: `share`, `ms`, `bytes` or empty.
    unit: str
    outcome: Outcome
    #: None where the figure is missing; `reason` says why, or why there is no clear outcome. low,
    #: high are the value itself where it is exact.
    value: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    reason: str = ""
    #: The steps that count, where the summary of the run counts others.
    basis: str = ""


def decide(low: float, high: float, limit: float) -> Outcome:
    """Return `passed` where all of the interval is within the limit, and `failed` where none of it
    is."""
    if math.isnan(low) or math.isnan(high):
        return "failed"
    if high <= limit:
        return "passed"
    return "failed" if low > limit else "inconclusive"


def worst(outcomes: list[Outcome]) -> Outcome:
    """Return `failed` where one failed, else `inconclusive` where one is, else `passed`."""
    for outcome in ("failed", "inconclusive"):
        if outcome in outcomes:
            return "failed" if outcome == "failed" else "inconclusive"
    return "passed"


def check_runs(
    runs: Sequence[RunToCompare], limits: CheckLimits, baseline: Sequence[RunToCompare] = ()
) -> list[CheckedFigure]:
    """Check equal runs against limits; the first figure is the end of the runs.

    Raises:
        NotComparableError: the runs differ in their settings, or cannot be compared with the
        baseline.
    """
    check_side(runs)
    figures = [_end(runs), *_step_figures(runs, limits)]
    if limits.memory_bytes is not None:
        figures.append(_memory(runs, limits.memory_bytes))
    if limits.loss is not None:
        figures.append(_loss(runs, limits.loss))
    if limits.slower_share is not None and baseline:
        figures.append(_slower(runs, baseline, limits.slower_share))
    return figures


def _end(runs: Sequence[RunToCompare]) -> CheckedFigure:
    """Return whether the training ended by itself, or was stopped."""
    outcome: Outcome = "passed"
    reason = ""
    for one in runs:
        ended = one.run.ended
        if ended is not None and ended.cause in ("finished", "stopped"):
            continue
        if ended is not None or one.run.life is Life.KILLED:
            return CheckedFigure("end", _END, "", "failed", reason=_end_text(one))
        outcome, reason = "inconclusive", f"{one.name} is {one.run.life.value}"
    return CheckedFigure("end", _END, "", outcome, reason=reason)


def _end_text(one: RunToCompare) -> str:
    if one.run.failure:
        return f"{one.name} {one.run.failure}"
    unrecorded = "ended (no end record)" if one.run.has_unrecorded_end else "killed (no end record)"
    return f"{one.name}: {one.run.ended.cause if one.run.ended else unrecorded}"


def _step_figures(runs: Sequence[RunToCompare], limits: CheckLimits) -> Iterator[CheckedFigure]:
    wanted = {WAIT_SHARE: limits.wait_share, STEP: limits.step_ms}
    if all(limit is None for limit in wanted.values()):
        return
    short = next((run for run in runs if len(run.rows) < LEAST_STEPS), None)
    levels = {} if short else measure_levels(runs)
    for name, limit in wanted.items():
        if limit is None:
            continue
        key, unit = ("wait_share", "share") if name == WAIT_SHARE else ("step_ms", "ms")
        if short:
            reason = _too_short(short)
            yield CheckedFigure(key, name, unit, "inconclusive", limit=limit, reason=reason)
        else:
            yield _decided(key, name, unit, levels[name], limit)


def _too_short(run: RunToCompare) -> str:
    steps = units.counted(len(run.rows), "steady step")
    return f"{run.name} has {steps}: {LEAST_STEPS} are needed"


def _decided(key: str, title: str, unit: str, level: Interval, limit: float) -> CheckedFigure:
    outcome = decide(level.low, level.high, limit)
    reason = "the limit lies within the interval: more steps or more runs narrow it"
    reason = reason if outcome == "inconclusive" else ""
    return CheckedFigure(
        key, title, unit, outcome, level.value, level.low, level.high, limit, reason, BASIS
    )


def measure_levels(runs: Sequence[RunToCompare]) -> dict[str, Interval]:
    """Return the share of data wait and the step time of all runs together."""
    measured = measure_runs([run.rows for run in runs])
    share = assumed_share([others_share(runs)])
    waits = [run.figures[WAIT_SHARE] for run in measured]
    spread = estimate_spread([waits], part_spread(share, max(run.value for run in waits), 1.0))
    wait = intervals.level(waits, spread)
    logs = [log_of(run.figures[STEP]) for run in measured]
    step = intervals.level(logs, estimate_spread([logs], share))
    clipped = intervals.Interval(wait.value, max(wait.low, 0.0), min(wait.high, 1.0))
    return {
        WAIT_SHARE: clipped,
        STEP: intervals.Interval(*(math.exp(at) for at in (step.value, step.low, step.high))),
    }


def _memory(runs: Sequence[RunToCompare], limit: float) -> CheckedFigure:
    peaks = [peak for run in runs if (peak := run.peak_bytes) is not None]
    if len(peaks) < len(runs):
        reason = "the memory of the process was not sampled while it trained"
        return CheckedFigure(
            "memory_bytes", "peak memory", "bytes", "inconclusive", limit=limit, reason=reason
        )
    peak = max(peaks)
    return CheckedFigure(
        "memory_bytes", "peak memory", "bytes", decide(peak, peak, limit), peak, peak, peak, limit
    )


def _loss(runs: Sequence[RunToCompare], limit: float) -> CheckedFigure:
    """Return the largest final loss; a loss that is NaN or infinite fails."""
    diverged = next((run for run in runs if current_divergence(run.run.events)), None)
    if diverged:
        reason = f"the loss of {diverged.name} is NaN or infinite"
        return CheckedFigure("loss", "final loss", "", "failed", limit=limit, reason=reason)
    losses = [_final_loss(run) for run in runs]
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses):
        reason = "no epoch ended with a loss"
        return CheckedFigure("loss", "final loss", "", "inconclusive", limit=limit, reason=reason)
    loss = max(known)
    return CheckedFigure(
        "loss", "final loss", "", decide(loss, loss, limit), loss, loss, loss, limit
    )


def _final_loss(one: RunToCompare) -> float | None:
    """Return the loss of the last epoch."""
    epochs = one.run.events.of(EpochEnded)
    return epochs[-1].metrics.get("loss") if epochs else None


def _slower(
    runs: Sequence[RunToCompare], baseline: Sequence[RunToCompare], limit: float
) -> CheckedFigure:
    (comparison,) = compare_runs([baseline, runs])
    low, high = (1 / end - 1 for end in (comparison.estimate.high, comparison.estimate.low))
    outcome = decide(low, high, limit)
    reason = "the limit lies within the interval: three runs of each side, made in turn, narrow it"
    reason = reason if outcome == "inconclusive" else ""
    title = "step time over that of the baseline"
    return CheckedFigure(
        "slower_share",
        title,
        "share",
        outcome,
        1 / comparison.estimate.ratio - 1,
        low,
        high,
        limit,
        reason,
    )
