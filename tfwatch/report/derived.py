"""What the analysis makes of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.grounds import Grounds, tables
from tfwatch.analysis.hardware import Hardware, hardware
from tfwatch.analysis.ledger import Ledger, make_ledger
from tfwatch.analysis.record import Record, record
from tfwatch.analysis.summary import Summary, between, summarise
from tfwatch.analysis.switches import compare
from tfwatch.core.events import PipelineSwitched, StagesFound

if TYPE_CHECKING:
    from tfwatch.runs.opened import Run


def summary_of(run: Run) -> Summary:
    """A run in figures."""
    open_wait = run.under_way.wait if run.under_way else None
    manifest = run.manifest
    return summarise(run.steps, run.events, manifest.accelerated, open_wait, manifest.op_by_op)


def ledger_of(run: Run) -> Ledger:
    """What each second of a run went to."""
    return make_ledger(run.epochs, run.events, run.length_s, run.under_way.phase if run.under_way else None)


def hardware_of(run: Run) -> Hardware:
    """A run's machine in figures."""
    return hardware(run.samples, run.steps, run.events, run.manifest.accelerated)


def grounds_of(run: Run) -> Grounds:
    """What forecasts of a run's switches stand on."""
    found = {event.pipeline: event for event in run.events if isinstance(event, StagesFound)}
    switched = [event for event in run.events if isinstance(event, PipelineSwitched)]
    return Grounds(
        run.manifest,
        lambda first, last: between(run.steps, first, last),
        run.samples,
        tables(run.stages, found),
        switched,
    )


def record_of(run: Run) -> Record:
    """What was foretold of a run's switches, against what came."""
    grounds = grounds_of(run)
    return record(grounds, compare(run.events, len(run.steps), grounds.rows_between))
