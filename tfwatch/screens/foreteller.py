"""What each knob's key would bring, once a second, and how near the forecasts of this run came."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.analysis import turns
from tfwatch.analysis.forecast import Forecast, forecast
from tfwatch.analysis.grounds import Grounds, gather
from tfwatch.analysis.measured import matters
from tfwatch.analysis.record import Foretold, Record, foretell
from tfwatch.analysis.stages import stage_table
from tfwatch.analysis.trials import underway
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.knobs import epochs_until
from tfwatch.core.trials import ExperimentBegan, ExperimentBlock, ExperimentEnded
from tfwatch.widgets.rhythm import Turn, second_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.analysis.grounds import Evidence
    from tfwatch.analysis.stages import StageTable
    from tfwatch.analysis.switches import Comparison
    from tfwatch.core.rows import Rows
    from tfwatch.runs.reader import Snapshot

#: By knob and value.
Forecasts: TypeAlias = dict[tuple[str, str], Forecast]

_UNDER_WAY, _EXPERIMENT = "switching", "trying both"
#: Switches foretold in one frame, each in about a millisecond: a run that is opened may have hundreds.
_AT_ONCE = 2
#: Forecasts take a third of a millisecond each: those of a second are made in the frames of so much of it.
_SPREAD_S = 0.75


class Foreteller:
    """Follows one run.

    forecasts: by knob and value, of what the keys would ask for now. record: of the switches that have settled. table:
    of the pipeline's stages, None where they cannot be read.
    """

    def __init__(self, steps_between: Callable[[int, int], Rows]) -> None:
        self.forecasts: Forecasts = {}
        self.record = Record()
        self.table: StageTable | None = None
        self._steps_between = steps_between
        self._due: tuple[int, int] | None = None
        self._told: dict[int, Foretold | None] = {}
        self._behind = False
        self._series: _Series | None = None
        self._at_s = 0.0

    def take(self, snapshot: Snapshot, comparisons: Sequence[Comparison], knobs: Mapping[str, turns.KnobState]) -> None:
        """Look at a snapshot; where nothing is due, what was found last stays. A run that is over has no switches."""
        since_s, self._at_s = snapshot.now_s - self._at_s, snapshot.now_s
        due = second_of(snapshot.now_s, Turn.HEADER), len(comparisons)
        if due == self._due and not self._behind:
            self._go_on(since_s)
            return
        switched, self._due = self._due is None or due[1] != self._due[1], due
        self._go_on(_SPREAD_S)
        self._begin(snapshot, comparisons, knobs)
        self._go_on(_SPREAD_S if switched or since_s >= _SPREAD_S else 0.0)

    def _begin(
        self, snapshot: Snapshot, comparisons: Sequence[Comparison], knobs: Mapping[str, turns.KnobState]
    ) -> None:
        """Gather what the next forecasts stand on."""
        grounds = self._grounds(snapshot)
        self.record = self._record(grounds, comparisons)
        asked = any(state.asked and not epochs_until(knob, state.asked) for knob, state in knobs.items())
        tried = underway(snapshot.events.of(ExperimentBegan, ExperimentBlock, ExperimentEnded))
        silence = _EXPERIMENT if tried else _UNDER_WAY if asked else ""
        known = gather(grounds, comparisons, snapshot.steps_total, round(snapshot.now_s * 1e9), silence)
        self.table = known.stages
        if snapshot.ended is not None:
            self.forecasts, self._series = {}, None
            return
        turnable = (knobs[knob] for knob in knobs if knob in snapshot.manifest.switchable and matters(knob))
        self._series = _Series(known, [(state.knob, value) for state in turnable for value in turns.choices(state)])

    def _go_on(self, since_s: float) -> None:
        """Make as many as `since_s` seconds ask for; they are compared, so that they are told together."""
        if self._series and self._series.go_on(since_s):
            self.forecasts, self._series = self._series.made, None

    def _grounds(self, snapshot: Snapshot) -> Grounds:
        def table_at(step: int, at_ns: int) -> StageTable | None:
            """Those before a switch, and now the newest."""
            del at_ns
            newest = step == snapshot.steps_total
            rows = snapshot.stages if newest else snapshot.stages_before.get(step)
            return None if rows is None else stage_table(rows, snapshot.stages_found)

        switched = snapshot.events.of(PipelineSwitched)
        return Grounds(snapshot.manifest, self._steps_between, snapshot.samples, table_at, switched)

    def _record(self, grounds: Grounds, comparisons: Sequence[Comparison]) -> Record:
        """A switch is foretold once: what was known before it does not change."""
        settled = ((n, switch.step) for n, switch in enumerate(comparisons) if switch.settled and switch.step)
        new = [(n, step) for n, step in settled if step not in self._told]
        for n, step in new[:_AT_ONCE]:
            self._told[step] = foretell(grounds, comparisons, n)
        self._behind = len(new) > _AT_ONCE
        told = ((switch, self._told.get(switch.step or 0)) for switch in comparisons)
        return Record(
            tuple(Foretold(now, one.forecast, now.after.step.median) for now, one in told if one and now.after)
        )


class _Series:
    """The forecasts of one moment, a few at a time; `made`: those there are."""

    def __init__(self, known: Evidence, wanted: Sequence[tuple[str, str]]) -> None:
        self.made: Forecasts = {}
        self._known = known
        self._wanted = wanted

    def go_on(self, since_s: float) -> bool:
        """Make as many as `since_s` seconds ask for, and say whether all are made; those without a number cost none."""
        share = 1.0 if self._known.silence else since_s / _SPREAD_S
        due = len(self.made) + math.ceil(len(self._wanted) * share)
        for knob, value in self._wanted[len(self.made) : due]:
            self.made[knob, value] = forecast(self._known, knob, value)
        return len(self.made) == len(self._wanted)
