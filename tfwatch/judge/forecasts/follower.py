"""The forecasts of the switches that the keys of a run offer now, and the evidence of a run that is
live, over or tuned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import PipelineSwitched, StagesFound
from tfwatch.judge.effects.comparison import compare
from tfwatch.judge.effects.tuner_events import EXPERIMENT_EVENTS, running_experiment
from tfwatch.judge.findings.bottleneck import make_stage_table
from tfwatch.judge.forecasts.evidence import (
    Evidence,
    EvidenceTables,
    build_evidence,
    stage_tables_by_time,
)
from tfwatch.judge.forecasts.forecast import CheckedForecast, Forecast, forecasts
from tfwatch.judge.steps.summary import between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.knob_state import KnobState
    from tfwatch.judge.findings.bottleneck import StageTable
    from tfwatch.runs.snapshot import Snapshot

#: By knob and value.
Forecasts: TypeAlias = dict[tuple[str, str], Forecast]

_UNDER_WAY, _EXPERIMENT = "switching", "trying both"


class ForecastFollower:
    """Follows one run.

    forecasts: of the settings that the keys would ask for now, by knob and value. table: of the
    pipeline's stages, None where they cannot be read. cores_free: NaN where unknown.
    """

    def __init__(self, steps_between: Callable[[int, int], Rows]) -> None:
        self.forecasts: Forecasts = {}
        self.table: StageTable | None = None
        self.cores_free = math.nan
        self._steps_between = steps_between
        self._due: tuple[int, int, bool] | None = None
        #: The forecasts of switches that were made while it followed, by their first step.
        self._made: dict[int, Forecast] = {}

    def take(
        self,
        snapshot: Snapshot,
        comparisons: Sequence[Comparison],
        knobs: Mapping[str, KnobState],
    ) -> None:
        """Take in a snapshot, once a second and after a switch. A run that is over has no
        forecasts."""
        reason = _reason_for_none(snapshot, knobs)
        due = second_of(snapshot.now_s, Slot.HEADER), len(comparisons), bool(reason)
        if due == self._due:
            return
        self._due = due
        for switch in comparisons[-1:]:
            known = self.forecasts.get((switch.knob, switch.new))
            if known and known.is_known:
                self._made.setdefault(switch.step, known)
        evidence = evidence_now(snapshot, self._steps_between, comparisons, reason)
        self.table, self.cores_free = evidence.stages, evidence.cores_free
        self.forecasts = {}
        if snapshot.ended is None:
            self.forecasts = {(one.knob, one.value): one for one in forecasts(evidence)}

    def checked(self, comparisons: Sequence[Comparison]) -> CheckedForecast | None:
        """Return the newest switch with the forecast that was shown before it; None until it has
        settled."""
        for switch in comparisons[-1:]:
            known = self._made.get(switch.step)
            if known and switch.settled and switch.after:
                return CheckedForecast(switch, known, switch.after.step.median)
        return None


def _reason_for_none(snapshot: Snapshot, knobs: Mapping[str, KnobState]) -> str:
    """Return what goes on while there is no forecast; empty where one can be made."""
    if running_experiment(snapshot.events.of(*EXPERIMENT_EVENTS)):
        return _EXPERIMENT
    asked = any(
        state.asked and not snapshot.manifest.epochs_until(knob, state.asked)
        for knob, state in knobs.items()
    )
    return _UNDER_WAY if asked else ""


def stages_found(events: Iterable[object]) -> dict[int, StagesFound]:
    """The stages of each pipeline of a run, by its number."""
    return {event.pipeline: event for event in events if isinstance(event, StagesFound)}


def build_evidence_tables_of_run(run: Snapshot) -> EvidenceTables:
    """The tables that evidence is gathered from, of all that a run has recorded."""
    switched = run.events.of(PipelineSwitched)
    table_at = stage_tables_by_time(run.stages, stages_found(run.events))
    return EvidenceTables(
        run.manifest,
        lambda first, last: between(run.steps, first, last),
        run.samples,
        table_at,
        switched,
    )


def evidence_now(
    snapshot: Snapshot,
    steps_between: Callable[[int, int], Rows],
    comparisons: Sequence[Comparison] | None = None,
    no_forecast_reason: str = "",
) -> Evidence:
    """The evidence of this moment. comparisons: of the switches so far, made here where they are
    not given.

    no_forecast_reason: see `Evidence`.
    """
    switches, total = snapshot.events.of(PipelineSwitched), snapshot.steps_total
    if comparisons is None:
        accelerated = snapshot.manifest.accelerated
        comparisons = compare(switches, total, steps_between, accelerated=accelerated)
    tables = EvidenceTables(
        snapshot.manifest,
        steps_between,
        snapshot.samples,
        lambda at_ns: make_stage_table(snapshot.recent_stages, snapshot.stages_found),
        switches,
    )
    at_ns = round(snapshot.now_s * 1e9)
    return build_evidence(tables, comparisons, total, at_ns, no_forecast_reason)
