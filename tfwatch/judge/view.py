"""One frozen view of a run a frame: its snapshot, judged as its rows come."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import (
    EpochStarted,
    ExperimentEnded,
    PipelineSwitched,
    without_experiments,
)
from tfwatch.core.knobs import Refusal
from tfwatch.core.rows import Flag, step_ms
from tfwatch.judge.banner import banner
from tfwatch.judge.effects.comparison import (
    Comparison,
    KnownComparisons,
    compare,
    find_better_settings,
)
from tfwatch.judge.effects.switching_state import (
    AUTOPILOT_EVENTS,
    EXPERIMENT_EVENTS,
    KnobRequest,
    KnobState,
    RunningExperiment,
    autopilot_runs,
    knob_states,
    running_autopilot,
    running_experiment,
)
from tfwatch.judge.findings.ranking import LeadHolder, find_losses
from tfwatch.judge.findings.situation import (
    Situation,
    at_this_moment,
    batch_source,
    left_s,
    steps_in_all,
)
from tfwatch.judge.findings.switch_lines import lines_of, proved_knobs, settings_of_patch
from tfwatch.judge.forecasts.evidence import evidence_now
from tfwatch.judge.forecasts.forecast import forecasts
from tfwatch.judge.log_lines import LogFinding, LogFollower, that_matter
from tfwatch.judge.machine import MachineFollower
from tfwatch.judge.other_programs import OthersFollower
from tfwatch.judge.profile.step_parts import profile_of_run
from tfwatch.judge.regime import RunningRegime
from tfwatch.judge.script_runs import newest_fit
from tfwatch.judge.steps.stalls import Stall, StallSearch, python_stage
from tfwatch.judge.steps.steady_steps import NEEDED, judge
from tfwatch.judge.steps.time_breakdown import RunningTimeBreakdown, is_breakdown_event
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import RECENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.core.events import Event
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.forecasts.evidence import Evidence
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.runs.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class RunView:
    """A run as the panes show it; tuples hold the oldest first."""

    snapshot: Snapshot
    situation: Situation
    finding: Finding
    #: The losses of the present regime, the largest first.
    losses: tuple[Finding, ...]
    knobs: dict[str, KnobState]
    #: Of the switches.
    comparisons: tuple[Comparison, ...]
    #: Known lines of TensorFlow's log.
    log_findings: tuple[LogFinding, ...] = ()
    #: The number of the present fit, counted over the script's runs; 0 before the first.
    fit: int = 0
    #: The state of the script that `tfwatch run` shows, e.g. `script runs`; empty where there is
    #: none.
    script: str = ""
    #: The share of the steps searched for stalls, while a long run is read; None once all are.
    searched: float | None = None
    #: A proved setting has a line in a file of the user's.
    has_patch: bool = False

    @property
    def is_over(self) -> bool:
        """True once the run is over."""
        return self.snapshot.life.is_over

    def refusal(self, knob: str, live: bool, is_ending: bool = False) -> str:
        """Return the reason why a knob cannot be switched now; empty where it can.

        live: keys reach the training. is_ending: the user asked to stop.
        """
        return self.run_refusal(live, is_ending) or self.snapshot.manifest.why_not_switchable(knob)

    def run_refusal(self, live: bool, is_ending: bool = False) -> str:
        """Return the reason why no knob of the run can be switched now; empty where one may."""
        if self.snapshot.ended or self.snapshot.life is Life.KILLED:
            return Refusal.RUN_IS_OVER.words
        if is_ending:
            return Refusal.RUN_IS_ENDING.words
        if self.awaits_fit:
            return Refusal.NO_FIT_YET.words
        if self.situation.regime.single_steps == "fits":
            return Refusal.ONE_STEP.words
        return "" if live else Refusal.READ_ONLY.words

    @property
    def awaits_fit(self) -> bool:
        """True while a script of `tfwatch run` has not called `fit` yet."""
        return bool(self.script) and self.snapshot.folder is None

    @property
    def code(self) -> str:
        """The code suggestion of the finding; without one, the lines for the current settings that
        are proved. Empty without either."""
        now = self.situation
        return self.finding.code or lines_of(now, proved_knobs(now), {})


# -- the search of the steps -----------------------------------------------------------------------

#: Steps that wait for their search, at most: half of those that a snapshot has at hand.
_BEHIND = RECENT // 2
_BLOCK = 65_536


class StepSearch:
    """Looks at each step once.

    searched: the number of steps that were looked at. done: their share while a long run is still
    read, else None.
    """

    def __init__(self) -> None:
        self.searched = 0
        self.done: float | None = None
        self.stalls: tuple[Stall, ...] = ()
        self.machine = MachineFollower()
        self.regime = RunningRegime()
        self._events_taken = 0
        self._stall_search = StallSearch()
        self._over = False
        self._due: tuple[int, int, Life] | None = None

    def take(self, snapshot: Snapshot) -> None:
        """Once a second, and in each frame while there is more to search than is kept at hand."""
        due = (
            second_of(snapshot.now_s, Slot.SEARCH),
            len(snapshot.events.of(PipelineSwitched)),
            snapshot.life,
        )
        # The clock of a run that is over stands still while its steps are still searched.
        behind = 0 if snapshot.life.is_over else _BEHIND
        if due != self._due or snapshot.steps_total - self.searched > behind:
            self._due = due
            if self.searched < snapshot.steps_total:
                self._search_block(snapshot)
            if self.searched >= snapshot.steps_total:
                self._take_open_wait(snapshot)
        is_reading = snapshot.steps_total - self.searched > behind
        self.done = self.searched / snapshot.steps_total if is_reading else None

    def _search_block(self, snapshot: Snapshot) -> None:
        """Look at the next block of steps: a long run that was just opened takes some frames."""
        first, last = self.searched + 1, min(self.searched + _BLOCK, snapshot.steps_total)
        in_hand = snapshot.steps_total - len(snapshot.recent)
        rows = (
            snapshot.recent[first - 1 - in_hand :]
            if first > in_hand
            else snapshot.steps_between(first, last)
        )
        new = rows[rows["step"] > self.searched]
        self._stall_search.take(new)
        self.stalls = tuple(self._stall_search.found(snapshot.events))
        events = snapshot.events[self._events_taken :]
        self._events_taken = len(snapshot.events)
        self.regime.add(new, filter(is_breakdown_event, events))
        self.searched = snapshot.steps_total if first > in_hand else last

    def _take_open_wait(self, snapshot: Snapshot) -> None:
        last = snapshot.open_phase
        if last and not self._over and snapshot.life.is_over:
            self._over = True
            self._stall_search.take(last.wait)
            self.stalls = tuple(self._stall_search.found(snapshot.events))


# -- the judgement ---------------------------------------------------------------------------------


class Follower:
    """Follows one run; remembers the last verdict, the comparisons made and the stalls found.

    `live`: keys are obeyed;
    `judge_ended`: returns the losses of a run that is over, None until they are known;
    `earlier_fits`: the number of those of the script's runs before this one; `script`: returns the
    state of the script,
    empty without one.
    """

    def __init__(
        self,
        live: bool,
        judge_ended: Callable[[Snapshot], tuple[Finding, ...] | None] = lambda run: None,
        earlier_fits: int = 0,
        script: Callable[[], str] = str,
    ) -> None:
        self._earlier_fits = earlier_fits
        self._script = script
        self._live = live
        self._judge_ended = judge_ended
        self._comparisons: tuple[Comparison, ...] = ()
        self._known: KnownComparisons = {}
        self._measured: Situation | None = None
        self._figured: tuple[int, int, int] | None = None
        self._step_search = StepSearch()
        self._time_breakdown = RunningTimeBreakdown()
        self._breakdown_events: list[Event] = []
        self._seen = 0
        self._losses: tuple[Finding, ...] | None = None
        self._lead = LeadHolder()
        self._log = LogFollower()
        self._others = OthersFollower()
        self._forecasts: dict[tuple[str, str], Forecast] = {}
        self._evidence: Evidence | None = None
        self._forecast_due: tuple[int, int, bool] | None = None

    def follow(
        self, snapshot: Snapshot, asks: Sequence[KnobRequest], stopping_s: float | None
    ) -> RunView:
        """Judge a snapshot. asks: this screen's requests. stopping_s: since it asked to stop."""
        self._step_search.take(snapshot)
        self._log.follow(snapshot.log_head, snapshot.log_tail, snapshot.log_total)
        switches = snapshot.events.switches()
        # The clock of a run that is over stands still while its steps are still searched; the first
        # ones are counted.
        second = second_of(snapshot.now_s, Slot.JUDGE)
        over = snapshot.life.is_over
        due = (
            second,
            len(switches),
            self._step_search.searched if over else min(snapshot.steps_total, NEEDED),
        )
        if due != self._figured:
            is_same_setting = self._figured is not None and self._figured[1] == len(switches)
            self._measured = self._measure(snapshot)
            total, accelerated = snapshot.steps_total, snapshot.manifest.accelerated
            self._comparisons = tuple(
                compare(switches, total, snapshot.steps_between, self._known, accelerated)
            )
            self._figured = due
            if over or not is_same_setting:  # else with the forecasts, in a frame of their own
                self._losses = None
        knobs = knob_states(snapshot.manifest.knobs, switches, asks)
        if self._make_forecasts(snapshot, knobs):
            self._losses = None  # their advice has the figures of the knobs' rows
        situation = self._situation(snapshot, knobs, stopping_s)
        if not self._losses:
            regime, losses = situation.regime, find_losses(situation)
            self._losses = self._lead.order(losses, regime.begin_ns, snapshot.now_s)
        losses = situation.last_losses or self._losses
        return RunView(
            snapshot,
            situation,
            banner(situation, losses, self._lead.held),
            losses,
            knobs,
            self._comparisons,
            that_matter(self._log.findings, snapshot.manifest.machine),
            self._earlier_fits + newest_fit(snapshot),
            self._script(),
            self._step_search.done,
            bool(settings_of_patch(situation)[1]),
        )

    def _measure(self, snapshot: Snapshot) -> Situation:
        """The present setting, of the newest steps; its knobs and forecasts are newer, and come
        later."""
        stalls, last = self._step_search.stalls, snapshot.open_phase
        recent = snapshot.recent[-64:]
        uncompiled_ms = step_ms(snapshot.recent)[snapshot.recent["flags"] & Flag.COMPILE == 0]
        return Situation(
            snapshot.manifest,
            split=judge(snapshot.recent),
            regime=self._step_search.regime.now(snapshot.now_s, last.phase if last else None),
            profile=profile_of_run(snapshot),
            log=frozenset(one.name for one in self._log.findings),
            stalls=stalls,
            python_stage=python_stage(snapshot.stages_found.values()),
            median_step_ms=float(np.median(step_ms(recent))) if len(recent) else None,
            longest_step_s=float(uncompiled_ms.max(initial=0.0)) / 1e3,
            waited_s=self._data_wait_s(snapshot),
            machine=self._step_search.machine.machine(snapshot),
            others=self._others.now(snapshot),
            # How many more fits a script calls is unknown.
            left_s=left_s(snapshot.progress, steps_in_all(snapshot))
            if newest_fit(snapshot) < 2
            else None,
            live=self._live,
        )

    def _data_wait_s(self, snapshot: Snapshot) -> float:
        last = snapshot.open_phase
        # Pauses are many, and the time breakdown needs only the stops.
        self._breakdown_events += filter(is_breakdown_event, snapshot.events[self._seen :])
        self._seen = len(snapshot.events)
        total, _ = self._time_breakdown.take(
            snapshot.epochs,
            self._breakdown_events,
            snapshot.now_s,
            last.phase if last else None,
        )
        return total.data_wait_s

    def _make_forecasts(self, snapshot: Snapshot, knobs: dict[str, KnobState]) -> bool:
        """Make forecasts, once a second and after a switch; return True where it did. A run that is
        over has none."""
        reason = "switching" if _asked(snapshot, knobs) else ""
        reason = "trying both" if _experiment(snapshot) else reason
        due = second_of(snapshot.now_s, Slot.HEADER), len(self._comparisons), bool(reason)
        if due == self._forecast_due:
            return False
        self._forecast_due = due
        self._evidence = evidence_now(snapshot, self._comparisons, reason)
        made = forecasts(self._evidence) if snapshot.ended is None else ()
        self._forecasts = {(one.knob, one.value): one for one in made}
        return True

    def _situation(
        self, snapshot: Snapshot, knobs: dict[str, KnobState], stopping_s: float | None
    ) -> Situation:
        comparisons, values = self._comparisons, {knob: one.now for knob, one in knobs.items()}
        known, requested = self._evidence, {(knob, one.asked) for knob, one in knobs.items()}
        now = at_this_moment(self._measured or Situation(snapshot.manifest), snapshot)
        return replace(
            now,
            manifest=snapshot.manifest,
            knobs=values,
            origin=batch_source(snapshot.manifest, snapshot.stages_found),
            # Not those of requested settings: the key would undo the request.
            forecasts={key: one for key, one in self._forecasts.items() if key not in requested},
            stages=known.stages if known else None,
            cores_free=known.cores_free if known else math.nan,
            cores_used=known.cores_used if known else math.nan,
            last_losses=self._judge_ended(snapshot) if snapshot.life.is_over else None,
            shuffle=self._log.shuffle if now.epoch_begins else None,
            asked=_asked(snapshot, knobs),
            deferred=_deferred(snapshot, knobs),
            better=find_better_settings(
                comparisons,
                snapshot.events.of(ExperimentEnded),
                autopilot_runs(snapshot.events.of(*AUTOPILOT_EVENTS)),
            ),
            experiment=_experiment(snapshot),
            autopilot_run=running_autopilot(snapshot.events.of(*AUTOPILOT_EVENTS)),
            stopping_s=None if stopping_s is None else max(0.0, snapshot.now_s - stopping_s),
        )


def _experiment(snapshot: Snapshot) -> RunningExperiment | None:
    if snapshot.life.is_over:
        return None
    running = running_experiment(snapshot.events.of(*EXPERIMENT_EVENTS))
    if running is None:
        return None
    knob, switches = running.began.knob, snapshot.events.of(PipelineSwitched)
    values = [one.new for one in without_experiments(switches) if one.knob == knob]
    before = values[-1] if values else snapshot.manifest.knobs.get(knob, "")
    return replace(running, before=before)


def _asked(snapshot: Snapshot, knobs: dict[str, KnobState]) -> dict[str, str]:
    """The requests for the next batch."""
    return {
        knob: state.asked
        for knob, state in knobs.items()
        if state.asked is not None and not snapshot.manifest.epochs_until(knob, state.asked)
    }


def _deferred(snapshot: Snapshot, knobs: dict[str, KnobState]) -> dict[str, tuple[str, str]]:
    """The requests that wait for an epoch to begin: the value, and `requested, from epoch 3`."""
    asked = [state for state in knobs.values() if state.asked is not None]
    starts, last = snapshot.events.of(EpochStarted) if asked else (), snapshot.manifest.epochs
    texts = {}
    for state in asked:
        if epochs := snapshot.manifest.epochs_until(state.knob, state.coming):
            first = epochs + sum(event.at_ns / 1e9 <= state.asked_s for event in starts)
            is_late = last and first > last
            words = f"{'too late' if is_late else 'requested'}, from epoch {first}"
            texts[state.knob] = state.coming, words
    return texts
