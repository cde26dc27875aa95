"""The evidence that forecasts use, of a run that is live, over or tuned; and the forecast of each
knob's key."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import (
    PipelineSwitched,
    StagesFound,
)
from tfwatch.judge.effects import knob_state
from tfwatch.judge.effects.comparison import compare
from tfwatch.judge.effects.tuner_text import EXPERIMENT_EVENTS, running_experiment
from tfwatch.judge.findings.bottleneck import make_stage_table
from tfwatch.judge.forecasts.evidence import (
    Evidence,
    EvidenceTables,
    build_evidence,
    stage_tables_by_time,
)
from tfwatch.judge.forecasts.forecast import (
    CheckedForecast,
    Forecast,
    Record,
    check_forecast,
    forecast,
)
from tfwatch.judge.steps.summary import between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.findings.bottleneck import StageTable
    from tfwatch.runs.snapshot import Snapshot

#: By knob and value.
Forecasts: TypeAlias = dict[tuple[str, str], Forecast]

_UNDER_WAY, _EXPERIMENT = "switching", "trying both"
#: Switches whose forecast is made in one frame, each in about a millisecond: a run that is opened
#: may have hundreds.
_AT_ONCE = 2
#: Forecasts take a third of a millisecond each: those of a second are made in the frames of so much
#: of it.
_SPREAD_S = 0.75


class ForecastFollower:
    """Follows one run.

    forecasts: of the settings that the keys would ask for now, by knob and value. record: of the
    switches that have settled. table: of the pipeline's stages, None where they cannot be read.
    cores_free: NaN where unknown.
    """

    def __init__(self, steps_between: Callable[[int, int], Rows]) -> None:
        self.forecasts: Forecasts = {}
        self.record = Record()
        self.table: StageTable | None = None
        self.cores_free = math.nan
        self._steps_between = steps_between
        self._due: tuple[int, int] | None = None
        self._made: dict[int, CheckedForecast | None] = {}
        self._behind = False
        self._series: _Series | None = None
        self._at_s = 0.0

    def take(
        self,
        snapshot: Snapshot,
        comparisons: Sequence[Comparison],
        knobs: Mapping[str, knob_state.KnobState],
    ) -> None:
        """Take in a snapshot; where nothing is due, the last forecasts stay. A run that is over has
        none."""
        since_s, self._at_s = snapshot.now_s - self._at_s, snapshot.now_s
        due = second_of(snapshot.now_s, Slot.HEADER), len(comparisons)
        if due == self._due and not self._behind:
            self._go_on(since_s)
            return
        switched = self._due is None or due[1] != self._due[1]
        self._go_on(_SPREAD_S)
        self._begin(snapshot, comparisons, knobs)
        self._due = due
        self._go_on(_SPREAD_S if switched or since_s >= _SPREAD_S else 0.0)

    def _begin(
        self,
        snapshot: Snapshot,
        comparisons: Sequence[Comparison],
        knobs: Mapping[str, knob_state.KnobState],
    ) -> None:
        """Gather the evidence of the next forecasts."""
        self.record = self._record(
            build_evidence_tables(snapshot, self._steps_between), comparisons
        )
        asked = any(
            state.asked and not snapshot.manifest.epochs_until(knob, state.asked)
            for knob, state in knobs.items()
        )
        running_test = running_experiment(snapshot.events.of(*EXPERIMENT_EVENTS))
        no_forecast_reason = _EXPERIMENT if running_test else _UNDER_WAY if asked else ""
        known = evidence_now(snapshot, self._steps_between, comparisons, no_forecast_reason)
        self.table, self.cores_free = known.stages, known.cores_free
        if snapshot.ended is not None:
            self.forecasts, self._series = {}, None
            return
        turnable = (knobs[knob] for knob in knobs if knob in snapshot.manifest.switchable)
        stages = len(snapshot.manifest.parallel_stages)
        self._series = _Series(
            known,
            [
                (state.knob, value)
                for state in turnable
                for value in knob_state.choices(state, stages)
            ],
        )

    def _go_on(self, since_s: float) -> None:
        """Make as many as `since_s` seconds ask for; they are compared, so that they are shown
        together."""
        if self._series and self._series.go_on(since_s):
            self.forecasts, self._series = self._series.made, None

    def _record(self, tables: EvidenceTables, comparisons: Sequence[Comparison]) -> Record:
        """The forecast of a switch is made once: the evidence before it does not change."""
        settled = (
            (n, switch.step)
            for n, switch in enumerate(comparisons)
            if switch.settled and switch.step
        )
        new = [(n, step) for n, step in settled if step not in self._made]
        for n, step in new[:_AT_ONCE]:
            self._made[step] = check_forecast(tables, comparisons, n)
        self._behind = len(new) > _AT_ONCE
        pairs = ((switch, self._made.get(switch.step or 0)) for switch in comparisons)
        return Record(
            tuple(
                CheckedForecast(now, one.forecast, now.after.step.median)
                for now, one in pairs
                if one and now.after
            )
        )


class _Series:
    """The forecasts of one moment, made over several frames; `made`: those so far."""

    def __init__(self, known: Evidence, wanted: Sequence[tuple[str, str]]) -> None:
        self.made: Forecasts = {}
        self._known = known
        self._wanted = wanted

    def go_on(self, since_s: float) -> bool:
        """Make as many as `since_s` seconds ask for, and say whether all are made; those without a
        number cost none."""
        share = 1.0 if self._known.no_forecast_reason else since_s / _SPREAD_S
        due = len(self.made) + math.ceil(len(self._wanted) * share)
        for knob, value in self._wanted[len(self.made) : due]:
            self.made[knob, value] = forecast(self._known, knob, value)
        return len(self.made) == len(self._wanted)


def stages_found(events: Iterable[Event]) -> dict[int, StagesFound]:
    """The stages of each pipeline of a run, by its number."""
    return {event.pipeline: event for event in events if isinstance(event, StagesFound)}


def build_evidence_tables(
    snapshot: Snapshot, steps_between: Callable[[int, int], Rows]
) -> EvidenceTables:
    """The tables that evidence is gathered from, of a run as it is now.

    steps_between: reads rows of the run, by the first and the last step.
    """
    return _tables(
        snapshot, steps_between, _tables_kept(snapshot), snapshot.events.of(PipelineSwitched)
    )


def build_evidence_tables_of_run(run: Snapshot) -> EvidenceTables:
    """The tables that evidence is gathered from, of all that a run has recorded."""
    switched = run.events.of(PipelineSwitched)
    table_at = stage_tables_by_time(run.stages, stages_found(run.events))
    return _tables(run, lambda first, last: between(run.steps, first, last), table_at, switched)


def _tables(
    run: Snapshot | Snapshot,
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
    """The evidence of this moment. comparisons: of the switches so far, made here where they are
    not given.

    no_forecast_reason: see `Evidence`.
    """
    if comparisons is None:
        switches, accelerated = snapshot.events.switches(), snapshot.manifest.accelerated
        comparisons = compare(
            switches, snapshot.steps_total, steps_between, accelerated=accelerated
        )
    tables = build_evidence_tables(snapshot, steps_between)
    return build_evidence(
        tables, comparisons, snapshot.steps_total, round(snapshot.now_s * 1e9), no_forecast_reason
    )


def _tables_kept(snapshot: Snapshot) -> Callable[[int, int], StageTable | None]:
    """The stages now, and those just before each switch."""

    def table_at(step: int, at_ns: int) -> StageTable | None:
        del at_ns
        rows = (
            snapshot.recent_stages
            if step == snapshot.steps_total
            else snapshot.stages_before.get(step)
        )
        return None if rows is None else make_stage_table(rows, snapshot.stages_found)

    return table_at
