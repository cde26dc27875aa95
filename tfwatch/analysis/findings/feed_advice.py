"""The forecast of how many workers of the tf.data service end the starving, before any is started."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfwatch.analysis.findings import code_suggestions
from tfwatch.analysis.findings.situation import SourceKind
from tfwatch.analysis.steps.verdict import Bound
from tfwatch.analysis.tuning.switch_text import best
from tfwatch.core import units
from tfwatch.core.stage_kinds import code_kinds, count_moving, why_not_moving

if TYPE_CHECKING:
    from tfwatch.analysis.findings.bottleneck import Stage, StageTable
    from tfwatch.analysis.findings.feed_lanes import Feed
    from tfwatch.analysis.findings.situation import Situation
    from tfwatch.analysis.steps.verdict import Breakdown

#: The work of a batch in a worker over the same work in the training's process, and the milliseconds in which a worker
#: sends an element: the least, the expected and the most. Sending took 0.5 ms on two busy cores, of 1 B as of 150 kB.
_WORK = (0.9, 1.05, 1.3)
_SENDING_MS = (0.1, 0.4, 0.8)
#: The core milliseconds in which the training takes an element from the service: 0.25 to 0.35 on two busy cores.
_TAKING_MS = 0.25


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """The workers that end the starving; low, high: the 90 % prediction interval."""

    likely: int
    low: int
    high: int

    @property
    def interval(self) -> str:
        """`3 (2 to 4)`; without the interval where that is one number."""
        return (
            f"{self.likely} ({self.low} to {self.high})"
            if self.low < self.high
            else str(self.likely)
        )

    @property
    def words(self) -> str:
        """`3 (2 to 4) workers`."""
        return f"{self.interval} worker{'s' * (self.high != 1)}"


def forecast_workers(supply_ms: float, rest_ms: float, batch_size: int) -> WorkerCount | None:
    """Return the forecast; None where the step does not wait for the supply, or a time is not known.

    supply_ms: the time in which the pipeline as it is makes one batch. rest_ms: compute and host time of a step.
    """
    if not (0 < rest_ms < supply_ms < math.inf):
        return None
    costs = (
        supply_ms * work + batch_size * sending
        for work, sending in zip(_WORK, _SENDING_MS, strict=True)
    )
    low, likely, high = (math.ceil(cost / rest_ms) for cost in costs)
    return WorkerCount(likely, low, high)


def taking_ms(batch_size: int, cores: float) -> float:
    """Return the time in which the training takes the elements of a batch from the service on so many cores."""
    return batch_size * _TAKING_MS / max(cores, 1.0)


Place: TypeAlias = Literal["this machine", "other machines"]

_ORDER = "elements then come in another order"
#: The elements of a batch of unknown size, as in a forecast of a switch.
_BATCH = 32
_SOURCE = "Source"
#: Workers that use less than this of a core each are not the limit.
_IDLE = 0.5


@dataclass(frozen=True, slots=True)
class FeedForecast:
    """The workers that end the starving of a run.

    count: None where there is no forecast; missing: the reason. place: the machines with cores for them.
    first: the change that comes before workers; empty where they are the advice. now: the workers that feed the run.
    """

    count: WorkerCount | None = None
    missing: str = ""
    place: Place = "this machine"
    first: str = ""
    now: int = 0

    @property
    def is_advised(self) -> bool:
        """True where workers are the right change for this run."""
        return self.count is not None and not self.first

    @property
    def is_last(self) -> bool:
        """True where workers come after all that this machine can do."""
        return self.place == "other machines" and not self.now

    @property
    def advice(self) -> str:
        """The advice, which begins with the action; empty where workers are not the right change."""
        if self.count is None or self.first:
            return ""
        workers = f"{self.count.words} of the tf.data service"
        if self.now:
            place = (
                ""
                if self.place == "this machine"
                else ", on other machines: this one has no cores for them"
            )
            return f"more workers of the tf.data service: {self.count.interval} in place of {self.now}{place}"
        if self.place == "this machine":
            return (
                f"--feed-workers {self.count.likely}: {workers} prepare batches in time; {_ORDER}"
            )
        return (
            f"{workers} on other machines (tfwatch feed): this one has no cores for them; {_ORDER}"
        )

    @property
    def words(self) -> str:
        """The forecast as a sentence of its own, or the reason for none."""
        if self.count is None:
            return f"n/a: {self.missing}"
        where = (
            ""
            if self.place == "this machine"
            else " on other machines: this one has no cores for them"
        )
        first = f"; before that {self.first}" if self.first else ""
        return f"{self.count.words} of the tf.data service{where}{first}"


def forecast_feed(now: Situation) -> FeedForecast | None:
    """Return the forecast for a run that starves; None for any other run."""
    part = now.judgement.breakdown
    if now.judgement.bound is not Bound.INPUT or part is None:
        return None
    why, table = _why_none(now), now.stages
    if why or table is None:
        return FeedForecast(missing=why)
    if now.feed:
        return _more_workers(now, now.feed, part)
    size = now.batch_size
    if size and (taking := taking_ms(size, now.cores_free + _own_cores(table))) > part.work_mean_ms:
        taken = f"to take {units.count(size)} elements from the service needs about {units.milliseconds(taking)}"
        return FeedForecast(missing=f"{taken}, longer than compute and host")
    supply_ms = _supply_ms(table, part)
    if supply_ms <= part.work_mean_ms:
        takes = f"a batch takes {units.milliseconds(supply_ms)}, less than compute and host"
        return FeedForecast(missing=f"{takes}: prefetch makes it while a step runs")
    count = forecast_workers(supply_ms, part.work_mean_ms, size or _BATCH)
    if count is None:
        return FeedForecast(missing="the time of a batch is not known")
    return FeedForecast(count, place=_place(now, table, count), first=_first(now, table))


def _more_workers(now: Situation, feed: Feed, part: Breakdown) -> FeedForecast:
    """Return the forecast for a run that workers feed already: they supply a batch in each step."""
    if feed.cores_each is not None and feed.cores_each < _IDLE and now.cores_free >= 1:
        return FeedForecast(
            missing="its workers are idle half of the time: to take their elements is the limit"
        )
    count = forecast_workers(part.step.mean * len(feed.lanes), part.work_mean_ms, 0)
    if count is None:
        return FeedForecast(missing="the time of a batch is not known")
    each, now_used = feed.cores_each, len(feed.lanes)
    has_room = (
        each is None
        or math.isnan(now.cores_free)
        or (count.likely - now_used) * each <= now.cores_free
    )
    gain = best(now.forecasts.values())
    first = code_suggestions.switch_phrase(gain.knob, gain.value, now.fast_pipeline) if gain else ""
    return FeedForecast(
        count, "", "this machine" if has_room else "other machines", first, now_used
    )


def _why_none(now: Situation) -> str:
    """Return why the pipeline cannot be fed, or why that is unknown; empty where it can."""
    if now.has_own_loop:
        return "the tf.data service feeds fit, not a loop of the script's own"
    if now.replicas > 1:
        return "the data set below a strategy has no stage figures"
    if now.origin.kind not in (SourceKind.TF_DATA, SourceKind.UNKNOWN):
        return f"the data is no tf.data data set but {now.origin.kind.value}"
    table = now.stages
    if table is None or not table.all_ms > 0:
        return "the stages of the pipeline are not known"
    if not now.feed and (why := _why_staying(table.stages)):
        return why
    part = now.judgement.breakdown
    if part and table.is_ahead(part.work_mean_ms):
        return "batches wait in a full buffer: the wait is the fetch itself"
    return "" if table.bottleneck else "no stage of the pipeline explains the wait"


def _why_staying(stages: tuple[Stage, ...]) -> str:
    kinds = [_kinds(stage) for stage in stages]
    moving = count_moving(kinds)
    if not moving:
        return "no batch is its last stage, and only what is below the last batch moves"
    if not any("Map" in part for part in kinds[:moving]):
        return "no map is below the last batch"
    for stage, part in zip(stages[:moving], kinds, strict=False):
        if stage.calls_python:
            return f"{stage.name} calls Python, which the workers cannot"
        if why := next(filter(None, map(why_not_moving, _below_batch(part))), ""):
            return f"{stage.name} {why}"
    return ""


def _below_batch(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds that move: not a batch that is fused with a map, nor a source without stages."""
    if kinds == (_SOURCE,):
        return ()
    return kinds[:1] if kinds[-1:] == ("Batch",) else kinds


def _supply_ms(table: StageTable, part: Breakdown) -> float:
    """Return the time in which the pipeline makes one batch: behind a prefetch all of a step, else the wait."""
    return part.step.mean if table.is_prefetched or table.stages[-1].is_parallel else part.wait.mean


def _place(now: Situation, table: StageTable, count: WorkerCount) -> Place:
    """Return where so many workers have cores: free ones, and those of the pipeline that they replace."""
    each = _own_cores(table)
    has_room = math.isnan(now.cores_free) or count.likely * each <= now.cores_free + each
    return "this machine" if has_room else "other machines"


def _own_cores(table: StageTable) -> float:
    """Return the cores that the pipeline uses."""
    return table.wait_cores if table.wait_cores > 0 else table.all_ms / table.rate_ms


def _first(now: Situation, table: StageTable) -> str:
    """Return what ends the wait without workers, or at least comes before them; empty where nothing does."""
    gain = best(now.forecasts.values())
    if gain is not None:
        return code_suggestions.switch_phrase(gain.knob, gain.value, now.fast_pipeline)
    if not table.is_prefetched and not table.stages[-1].is_parallel:
        return ".prefetch(tf.data.AUTOTUNE) at the end"
    place = table.bottleneck
    assert place is not None  # else there is no forecast
    stage = table.stages[place.stage]
    if place.reason == "storage":
        return f"more calls at the same time: {stage.name} waits, and does not compute"
    is_serial_map = "Map" in _kinds(stage) and not stage.parallelism > 1
    is_tried = ("workers", "auto") in now.better
    if place.reason == "serial" and is_serial_map and not is_tried and not now.cores_free < 1:
        return f"parallel calls of {stage.name} on the free cores"
    return ""


def _kinds(stage: Stage) -> tuple[str, ...]:
    return code_kinds(stage.kind.partition(" ")[0])
