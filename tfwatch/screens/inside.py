"""The input pipeline from inside, as its pane shows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.analysis.machine import PIPELINE, missing_sensors
from tfwatch.analysis.verdict import Verdict
from tfwatch.core import units
from tfwatch.core.events import SensorMissing
from tfwatch.core.rows import Phase
from tfwatch.runs.reader import Life
from tfwatch.widgets.pipeline import PipelineView, StageRow
from tfwatch.widgets.timeline_picture import clock

if TYPE_CHECKING:
    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.analysis.stages import Stage, StageTable
    from tfwatch.live.view import RunView

_EARLY = (Phase.STARTING, Phase.IMPORT, Phase.DATA_SET, Phase.COMPILE)
#: A wait this long is looked into by what reads the stages; a shorter one says nothing of them.
_STALL_S = 3.0
#: Stages that could have workers, of all cores: what they have is told of so many.
_WIDENS = ("Map", "Parallel")


def pipeline_view(view: RunView) -> PipelineView:
    """The stages as they were read last; without a reading why there is none."""
    table = view.situation.stages
    if table is None:
        return PipelineView(said=_unread(view))
    stages = tuple(_row(view, table, n, stage) for n, stage in enumerate(table.stages))
    part = view.situation.judgement.breakdown
    return PipelineView(
        stages,
        _known(table.all_ms),
        _against(view, table, part),
        _said(view, table),
        not view.snapshot.life.is_stale and (_stalled(view) or _starves(view)),
        _age(view, table),
    )


def _row(view: RunView, table: StageTable, n: int, stage: Stage) -> StageRow:
    located = view.situation.located if _stalled(view) else None
    return StageRow(
        stage.name,
        _known(stage.busy_ms),
        _at_a_time(view, stage),
        _whole(stage.buffered),
        _whole(stage.buffer_size),
        slowest=not _stalled(view) and table.bottleneck is not None and table.bottleneck.stage == n,
        silent=located is not None and located.stage == stage.name,
    )


def _at_a_time(view: RunView, stage: Stage) -> str:
    """`1 of 10` cores where it could have workers, `1` where not; empty where it does no work."""
    if math.isnan(stage.parallelism) or stage.hands_over:
        return ""
    cores = view.snapshot.manifest.machine.get("cores")
    of_cores = f" of {cores}" if cores and stage.kind.startswith(_WIDENS) else ""
    return f"{stage.parallelism:.0f}{of_cores}"


def _against(view: RunView, table: StageTable, part: Breakdown | None) -> tuple[str, ...]:
    """`< 13.8 compute + host: all hidden`, the longest words first."""
    if part is None or math.isnan(table.all_ms):
        return ()
    work, waits = part.work_mean_ms, units.number(part.wait.mean)
    beside = f"{units.number(work)} compute + host"
    if view.situation.knobs.get("prefetch") == "off":
        return f"+ {beside}: none is made ahead", f"+ {beside}"
    sign = "<" if table.rate_ms < work else ">"
    outcome = "all hidden" if sign == "<" and not _starves(view) else f"{waits} waited for"
    at_once = f"at once {units.number(table.rate_ms)} "
    several = at_once if table.rate_ms < 0.9 * table.all_ms else ""
    return (
        f"{several}{sign} {beside}: {outcome}",
        f"{several}{sign} {units.number(work)}: {outcome}",
        outcome,
    )


def _said(view: RunView, table: StageTable) -> str:
    now = view.situation
    if not _stalled(view):
        if math.isnan(table.all_ms):
            return _why_missing(view) or "nothing has passed in the last seconds"
        return table.bottleneck.sentence if table.bottleneck else ""
    located = now.located
    if located is None or not located.stage:
        since_s = now.now_s - now.phase_s
        place = f"; the {located.thread} stands at {located.place}" if located and located.place else ""
        return f"no batch since {clock(view.snapshot, since_s)}{place}"
    stands = f"; the generator stands at {located.place}" if located.thread == "generator" else ""
    return f"nothing from {located.stage} since {clock(view.snapshot, located.since_ns / 1e9)}{stands}"


def _stalled(view: RunView) -> bool:
    return view.situation.waits_long and view.situation.phase_s >= _STALL_S


def _starves(view: RunView) -> bool:
    return view.situation.judgement.verdict in (Verdict.MODERATELY, Verdict.HIGHLY)


def _age(view: RunView, table: StageTable) -> str:
    if view.snapshot.life not in (Life.RUNNING, Life.SILENT):  # their clock alone goes on
        return "as it was read last"
    age_s = max(1, math.ceil(view.snapshot.now_s - table.at_ns / 1e9))
    return f"tf.data, {age_s} s ago"


def _unread(view: RunView) -> str:
    if why := _why_missing(view):
        return why
    if view.is_over:
        return "n/a: tf.data's model of the pipeline was not read in this run"
    if view.situation.phase in _EARLY or not view.snapshot.steps_total:
        return "stage by stage, from the first batches on"
    return "n/a: tf.data's model of the pipeline has not been read lately"


def _why_missing(view: RunView) -> str:
    """`n/a: the batches come from no tf.data iterator`; empty where nothing is known."""
    told = next((event for event in _missing(view) if event.sensor == PIPELINE), None)
    return f"n/a: {told.reason}{f'; {told.fix}' if told.fix else ''}" if told else ""


def _missing(view: RunView) -> list[SensorMissing]:
    return missing_sensors(view.snapshot.events.of(SensorMissing))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else round(value)
