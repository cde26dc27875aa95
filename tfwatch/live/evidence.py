"""The evidence that forecasts use, built here for a run that is live, followed, over or tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.findings.bottleneck import make_stage_table
from tfwatch.analysis.steps.summary import between
from tfwatch.analysis.tuning.comparison import compare
from tfwatch.analysis.tuning.evidence import Evidence, EvidenceTables, build_evidence, stage_tables_by_time
from tfwatch.core.events import PipelineSwitched, StagesFound, SwitchAsked, SwitchFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tfwatch.analysis.findings.bottleneck import StageTable
    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.buffers import Events
    from tfwatch.runs.opened import Run
    from tfwatch.runs.reader import Snapshot


def switches_of(events: Events) -> list[SwitchAsked | PipelineSwitched | SwitchFailed]:
    """The requests for switches, and the outcome of each."""
    return events.of(SwitchAsked, PipelineSwitched, SwitchFailed)


def stages_found(events: Iterable[Event]) -> dict[int, StagesFound]:
    """The stages of each pipeline of a run, by its number."""
    return {event.pipeline: event for event in events if isinstance(event, StagesFound)}


def build_evidence_tables(snapshot: Snapshot, steps_between: Callable[[int, int], Rows]) -> EvidenceTables:
    """The tables that evidence is gathered from, of a run as it is now.

    steps_between: reads rows of the run, by the first and the last step.
    """
    return _tables(snapshot, steps_between, _tables_kept(snapshot), snapshot.events.of(PipelineSwitched))


def build_evidence_tables_of_run(run: Run) -> EvidenceTables:
    """The tables that evidence is gathered from, of all that a run has recorded."""
    switched = [event for event in run.events if isinstance(event, PipelineSwitched)]
    table_at = stage_tables_by_time(run.stages, stages_found(run.events))
    return _tables(run, lambda first, last: between(run.steps, first, last), table_at, switched)


def _tables(
    run: Snapshot | Run,
    steps_between: Callable[[int, int], Rows],
    table_at: Callable[[int, int], StageTable | None],
    switched: Sequence[PipelineSwitched],
) -> EvidenceTables:
    return EvidenceTables(run.manifest, steps_between, run.samples, table_at, switched)


def evidence_now(
    snapshot: Snapshot,
    steps_between: Callable[[int, int], Rows],
    comparisons: Sequence[Comparison] | None = None,
    no_forecast_reason: str = "",
) -> Evidence:
    """The evidence of this moment. comparisons: of the switches so far, made here where they are not given.

    silence: see `Evidence`.
    """
    if comparisons is None:
        accelerated = snapshot.manifest.accelerated
        switches = switches_of(snapshot.events)
        comparisons = compare(switches, snapshot.steps_total, steps_between, accelerated=accelerated)
    tables = build_evidence_tables(snapshot, steps_between)
    return build_evidence(tables, comparisons, snapshot.steps_total, round(snapshot.now_s * 1e9), no_forecast_reason)


def _tables_kept(snapshot: Snapshot) -> Callable[[int, int], StageTable | None]:
    """The stages now, and those just before each switch."""

    def table_at(step: int, at_ns: int) -> StageTable | None:
        del at_ns
        rows = snapshot.stages if step == snapshot.steps_total else snapshot.stages_before.get(step)
        return None if rows is None else make_stage_table(rows, snapshot.stages_found)

    return table_at
