"""One frozen view of a run a frame: its snapshot, judged.

`build_situation` is the one builder of the situation that a finding is made from, of a run that is live or over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.findings.advice import find_slow_callback, find_slow_epoch_end, has_shuffle_fill
from tfwatch.analysis.findings.banner import banner
from tfwatch.analysis.findings.code_suggestions import pasted_lines
from tfwatch.analysis.findings.log_lines import LogFinding, LogFollower
from tfwatch.analysis.findings.loss import current_divergence
from tfwatch.analysis.findings.situation import (
    NOT_JUDGED,
    BatchSource,
    Memory,
    Situation,
    SourceKind,
    find_batch_source,
)
from tfwatch.analysis.findings.starving_cost import DataWaitCost, cost_of_data_wait
from tfwatch.analysis.steps.causes import STOPPED
from tfwatch.analysis.steps.fits import FitCounter, FitFigures
from tfwatch.analysis.steps.time_breakdown import RunningTimeBreakdown
from tfwatch.analysis.steps.verdict import NEEDED, Judgement, judge, left_s
from tfwatch.analysis.tuning.comparison import Comparison, KnownSides, compare, find_better_settings
from tfwatch.analysis.tuning.knob_state import KnobRequest, KnobState, knob_states
from tfwatch.analysis.tuning.tuner_text import (
    AUTOPILOT_EVENTS,
    UNDECIDED_EVENTS,
    RunningExperiment,
    Undecided,
    find_undecided,
    running_autopilot,
    running_experiment,
)
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.errors import printable
from tfwatch.core.events import (
    EpochEnded,
    EpochStarted,
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    LossDiverged,
    LossRecovered,
    Paused,
    PipelineSwitched,
    RecordingLost,
    StallLocated,
    TrainingFailed,
    WatchFailed,
)
from tfwatch.core.rows import Phase, step_ms
from tfwatch.core.units import is_missing
from tfwatch.live.forecasts import ForecastFollower
from tfwatch.live.restart import RestartFollower
from tfwatch.live.step_search import StepSearch, pauses_of
from tfwatch.runs.library.finding import replay_argument
from tfwatch.runs.liveness import find_open_phase
from tfwatch.runs.machine_info import memory_total

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.analysis.findings.bottleneck import StageTable
    from tfwatch.analysis.findings.hardware.machine import Machine
    from tfwatch.analysis.findings.situation import Banner
    from tfwatch.analysis.findings.starving_cost import Energy
    from tfwatch.analysis.steps.patterns import Pattern
    from tfwatch.analysis.steps.spikes import Compiled
    from tfwatch.analysis.steps.stalls import Stall
    from tfwatch.analysis.steps.time_breakdown import TimeSpent
    from tfwatch.analysis.tuning.forecasting.forecast import Forecast
    from tfwatch.analysis.tuning.restarts import Earlier
    from tfwatch.core.events import Event, StagesFound
    from tfwatch.core.rows import Rows
    from tfwatch.live.whole_run.previous import PreviousRun
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.in_memory.buffers import Events
    from tfwatch.runs.reader import Snapshot

#: Characters of a metric's name: its figure stands behind it.
_LONGEST_METRIC = 24
#: Epochs whose ends are searched for a callback that held them up.
_ENDS = 8


@dataclass(frozen=True, eq=False)
class RunView:
    """A run as the panes show it. `comparisons`, `stalls`, `patterns`, `compiles`: oldest first.

    comparisons: of the switches, after that of the restart that the run began with.

    energy: of the device that trains, so far; None where no power is read. said: known lines of TensorFlow's log.
    tried: the settings that a run which is over left undecided.
    fits: those that have ended, of the script's earlier runs too; fit: the number of the present one. script: the state
    of the script that `tfwatch run` shows, e.g. `script runs`; empty where there is none. previous: the run before of
    the same workload; None where there is none, and until it is read.
    """

    snapshot: Snapshot
    situation: Situation
    finding: Banner
    knobs: dict[str, KnobState]
    comparisons: tuple[Comparison, ...]
    stalls: tuple[Stall, ...]
    patterns: tuple[Pattern, ...] = ()
    compiles: tuple[Compiled, ...] = ()
    energy: Energy | None = None
    log_findings: tuple[LogFinding, ...] = ()
    undecided: Undecided | None = None
    fits: tuple[FitFigures, ...] = ()
    fit: int = 0
    script: str = ""
    previous: PreviousRun | None = None

    @property
    def is_over(self) -> bool:
        """True once the run is over."""
        return self.snapshot.life.is_over

    @property
    def awaits_fit(self) -> bool:
        """True while a script of `tfwatch run` has not called `fit` yet."""
        return bool(self.script) and self.snapshot.folder is None

    @property
    def code(self) -> str:
        """The code suggestion of the finding; without one, the lines for the current settings. Empty without either."""
        now = {knob: state.now for knob, state in self.knobs.items()}
        fast_name = self.snapshot.manifest.fast_pipeline
        return self.finding.edit or pasted_lines(now, {}, self.situation.stages, fast_name, code=self.situation.code)


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """One setting of the knobs, and the measurements that its finding is made from: fields of `Situation`."""

    judgement: Judgement = NOT_JUDGED
    knobs: Mapping[str, str] = field(default_factory=dict)
    epoch_spent: TimeSpent | None = None
    callback: str = ""
    has_shuffle_fill: bool = False
    slow_epoch_end: Paused | None = None
    forecasts: Mapping[tuple[str, str], Forecast] = field(default_factory=dict)
    stages: StageTable | None = None


@dataclass(frozen=True, slots=True)
class _Figures:
    """Figures that are made once a second."""

    setting: MeasuredSetting = field(default_factory=MeasuredSetting)
    median_step_ms: float | None = None
    waited_s: float = 0.0
    between_s: float = 0.0
    machine: Machine | None = None
    energy: Energy | None = None
    left_s: float | None = None
    lost: DataWaitCost | None = None


class Follower:
    """Follows one run; remembers the last verdict, the comparisons made and the stalls found.

    `steps_between(first, last)` reads rows of the run; `live`: keys are obeyed; `earlier`: the run before a restart;
    `ended_finding`: returns that of the run once it is over, None until it is known; `earlier_fits`: of the script's
    runs before this one; `script`: returns the state of the script, empty without one; `find_previous`: returns the run
    before of the same workload, None until it is known.
    """

    def __init__(
        self,
        steps_between: Callable[[int, int], Rows],
        live: bool,
        earlier: Earlier | None = None,
        ended_finding: Callable[[], Banner | None] | None = None,
        earlier_fits: tuple[FitFigures, ...] = (),
        script: Callable[[], str] = str,
        find_previous: Callable[[Snapshot], PreviousRun | None] = lambda snapshot: None,
    ) -> None:
        self.find_previous = find_previous
        self._steps_between = steps_between
        self._earlier_fits = earlier_fits
        self._script = script
        self._fits: FitCounter | None = None
        self._fits_now: tuple[tuple[FitFigures, ...], int] = (earlier_fits, 0)
        self._fits_counted: tuple[object, ...] = ()
        self._live = live
        self._ended_finding = ended_finding
        self._restarts = RestartFollower(earlier, steps_between)
        self._comparisons: tuple[Comparison, ...] = ()
        self._known = KnownSides()
        self._figures = _Figures()
        self._figured: tuple[int, int, int] | None = None
        self._step_search = StepSearch(steps_between)
        self._switches = 0
        self._time_breakdown = RunningTimeBreakdown()
        self._breakdown_events: list[Event] = []
        self._seen = 0
        self._log = LogFollower()
        self._forecasts = ForecastFollower(steps_between)

    def follow(self, snapshot: Snapshot, asks: Sequence[KnobRequest], stopping_s: float | None) -> RunView:
        """Judge a snapshot; `asks`: this screen's requests, `stopping_s`: since it asked to stop."""
        self._step_search.take(snapshot)
        self._log.follow(snapshot.log_head, snapshot.log, snapshot.log_total)
        switches = snapshot.events.switches()
        # The clock of a run that is over stands still while its steps are still searched; the first ones are counted.
        second = second_of(snapshot.now_s, Slot.JUDGE)
        over = snapshot.life.is_over
        due = second, len(switches), self._step_search.searched if over else min(snapshot.steps_total, NEEDED)
        if due != self._figured:
            self._figured = due
            self._figures = self._figure(snapshot)
            total, accelerated = snapshot.steps_total, snapshot.manifest.accelerated
            self._comparisons = tuple(compare(switches, total, self._steps_between, self._known, accelerated))
            self._restarts.take(snapshot)
            self._count_fits(snapshot)
        knobs = knob_states(snapshot.manifest.knobs, switches, asks)
        self._forecasts.take(snapshot, self._comparisons, knobs)
        situation = self._situation(snapshot, knobs, stopping_s)
        return RunView(
            snapshot,
            situation,
            banner(situation),
            knobs,
            self._restarts.found + self._comparisons,
            self._step_search.stalls,
            tuple(self._step_search.patterns.values()),
            tuple(self._step_search.compiles),
            self._figures.energy,
            self._log.findings,
            find_undecided(snapshot.events.of(*UNDECIDED_EVENTS)) if over else None,
            *self._fits_now,
            self._script(),
            self.find_previous(snapshot),
        )

    def _count_fits(self, snapshot: Snapshot) -> None:
        """Find the fits that have ended and the number of the present one, when an epoch began or ended."""
        events, is_over = snapshot.events, snapshot.life.is_over
        counted = (events.newest(EpochStarted), events.newest(EpochEnded), is_over)
        if counted == self._fits_counted:
            return
        self._fits_counted = counted
        if self._fits is None:
            origin_s = snapshot.manifest.origin_wall_ns / 1e9
            self._fits = FitCounter(origin_s, self._steps_between, len(self._earlier_fits) + 1)
        number = self._fits.take(events.of(EpochStarted), events.of(EpochEnded), is_over)
        self._fits_now = ((*self._earlier_fits, *self._fits.done), number)

    def _figure(self, snapshot: Snapshot) -> _Figures:
        recent = snapshot.steps[-64:]
        steps_ms = step_ms(recent)
        total, whole = self._take_time_breakdown(snapshot)
        examples = snapshot.latest.examples if snapshot.latest else None
        return _Figures(
            replace(self._measure(snapshot), epoch_spent=whole),
            float(np.median(steps_ms)) if len(recent) else None,
            total.data_wait_s,
            total.between_s,
            machine=self._step_search.machine.machine(snapshot),
            energy=self._step_search.machine.energy(snapshot),
            left_s=left_s(snapshot.progress, steps_in_all(snapshot)),
            lost=cost_of_data_wait(total, snapshot.now_s, examples, None),
        )

    def _measure(self, snapshot: Snapshot) -> MeasuredSetting:
        """The present setting, of the newest steps; its knobs and forecasts are newer, and come later."""
        rows, switches = snapshot.steps, len(snapshot.events.of(PipelineSwitched))
        before = self._figures.setting.judgement if switches == self._switches else NOT_JUDGED
        judgement = judge_now(snapshot, before)
        self._switches = switches
        host_ms = judgement.breakdown.host.mean if judgement.breakdown else 0.0
        return MeasuredSetting(
            judgement,
            callback=find_slow_callback(pauses_of(rows, snapshot.events), host_ms),
            has_shuffle_fill=has_shuffle_fill(rows),
            slow_epoch_end=_slow_epoch_end(snapshot.events),
        )

    def _take_time_breakdown(self, snapshot: Snapshot) -> tuple[TimeSpent, TimeSpent | None]:
        """The time breakdown of the run so far, and of its newest whole epoch."""
        last = find_open_phase(snapshot.ended, snapshot.pulse)
        # Pauses are many, and the time breakdown needs only the stops.
        self._breakdown_events += (event for event in snapshot.events[self._seen :] if _is_breakdown_event(event))
        self._seen = len(snapshot.events)
        doing = last.phase if last else None
        return self._time_breakdown.take(snapshot.epochs.rows, self._breakdown_events, snapshot.now_s, doing)

    def _situation(self, snapshot: Snapshot, knobs: dict[str, KnobState], stopping_s: float | None) -> Situation:
        figures, comparisons = self._figures, self._comparisons
        setting = replace(
            figures.setting,
            knobs={knob: state.now for knob, state in knobs.items()},
            forecasts=self._forecasts.forecasts,
            stages=self._forecasts.table,
        )
        now = build_situation(snapshot.manifest, snapshot.stages_found, setting, live=self._live)
        now = at_this_moment(now, snapshot)
        return replace(
            now,
            last_finding=self._ended_finding() if self._ended_finding and snapshot.life.is_over else None,
            shuffle=self._log.shuffle if now.epoch_begins else None,
            median_step_ms=figures.median_step_ms,
            waited_s=figures.waited_s,
            between_s=figures.between_s,
            machine=figures.machine,
            left_s=figures.left_s,
            lost=figures.lost,
            asked=_asked(snapshot, knobs),
            switch=comparisons[-1] if comparisons else None,
            better=find_better_settings(comparisons, snapshot.events.of(ExperimentEnded)),
            experiment=_experiment(snapshot),
            autopilot_run=running_autopilot(snapshot.events.of(*AUTOPILOT_EVENTS)),
            stopping_s=None if stopping_s is None else max(0.0, snapshot.now_s - stopping_s),
            record=self._forecasts.record,
            stalls=len(self._step_search.stalls),
            searched=self._step_search.done,
            longest_stall_s=max((stall.lost_ms / 1e3 for stall in self._step_search.stalls), default=0.0),
        )


def build_situation(
    manifest: Manifest, found: Mapping[int, StagesFound], setting: MeasuredSetting, *, live: bool = False
) -> Situation:
    """The situation of a run with this setting. found: the stages of its pipelines. live: keys are obeyed."""
    return Situation(
        live=live,
        judgement=setting.judgement,
        knobs=setting.knobs,
        epoch_spent=setting.epoch_spent,
        callback=setting.callback,
        has_shuffle_fill=setting.has_shuffle_fill,
        slow_epoch_end=setting.slow_epoch_end,
        forecasts=setting.forecasts,
        stages=setting.stages,
        pid=manifest.pid,
        host=manifest.machine.get("host") or "unknown",
        device="the GPU" if manifest.accelerated else "the CPU's compute",
        accelerated=manifest.accelerated,
        op_by_op=manifest.op_by_op,
        has_own_loop=not manifest.knobs,
        cpu_asked=manifest.settings.get("device") == "cpu",
        switchable=tuple(manifest.switchable),
        replicas=len(manifest.replicas),
        fast_pipeline=manifest.fast_pipeline,
        started=manifest.knobs,
        origin=_batch_source(setting.knobs, found),
        code=manifest.code,
        batch_size=manifest.batch_size,
        batch_bytes=manifest.batch_bytes,
        copied_bytes=manifest.copied_bytes,
        copy_ahead_ms=manifest.copy_ahead_ms,
    )


def _batch_source(knobs: Mapping[str, str], found: Mapping[int, StagesFound]) -> BatchSource:
    """Return the source of the batches; a `PyDataset` is known by its knobs, before its stages are read."""
    if "multiprocessing" not in knobs:
        return find_batch_source(found.values())
    return BatchSource(SourceKind.PY_DATASET, knobs.get("workers", "off") != "off" or knobs["multiprocessing"] == "on")


def at_this_moment(setting: Situation, snapshot: Snapshot) -> Situation:
    """The situation of a setting with the moment of a snapshot: the phase, the run's life, the memory."""
    pulse, events = snapshot.pulse, snapshot.events
    lost, failed = events.newest(RecordingLost), events.newest(WatchFailed)
    return replace(
        setting,
        life=snapshot.life.value,
        phase=pulse.phase if pulse else Phase.STARTING,
        phase_s=max(0.0, (pulse.now_ns - pulse.since_ns) / 1e9) if pulse else snapshot.now_s,
        detail=pulse.detail if pulse else "",
        step=max(pulse.step if pulse else 0, snapshot.steps_total),
        steps_total=snapshot.steps_total,
        epoch=pulse.epoch if pulse else 0,
        silent_s=snapshot.silent_s,
        now_s=snapshot.now_s,
        epoch_begins=_epoch_begins(snapshot),
        unrecorded=snapshot.unrecorded,
        unrecorded_step=lost.step if lost else 0,
        watch_failed=failed.reason if failed else "",
        ended=snapshot.ended,
        failed=events.newest(TrainingFailed),
        metric=_metric_text(snapshot),
        memory=_memory(snapshot),
        run=replay_argument(snapshot.folder) if snapshot.folder else "",
        located=_located(snapshot),
        diverged=current_divergence(events.of(LossDiverged, LossRecovered)),
    )


def judge_now(snapshot: Snapshot, before: Judgement = NOT_JUDGED) -> Judgement:
    """The judgement of the newest steps of the present setting. before: the last one of this setting."""
    manifest = snapshot.manifest
    return judge(
        snapshot.steps,
        before.verdict,
        accelerated=manifest.accelerated,
        op_by_op=manifest.op_by_op,
        bound=before.bound,
        copy_ahead_ms=manifest.copy_ahead_ms,
    )


def _located(snapshot: Snapshot) -> StallLocated | None:
    """The place of the wait that lasts now."""
    located, pulse = snapshot.events.newest(StallLocated), snapshot.pulse
    is_now = located and pulse and pulse.phase is Phase.WAIT and located.at_ns >= pulse.since_ns
    return located if is_now else None


def _metric_text(snapshot: Snapshot) -> str:
    """`acc 0.71`; empty before there is one."""
    latest = snapshot.latest
    name = metric_name(snapshot.manifest.metric)
    if latest is None or is_missing(latest.metric) or not name:
        return ""
    return f"{name} {latest.metric:.2f}"


def metric_name(name: str) -> str:
    """`acc` for accuracy: where it stands there is little room."""
    short = printable(name.replace("accuracy", "acc"))
    return short if len(short) <= _LONGEST_METRIC else f"{short[: _LONGEST_METRIC - 3]}..."


def _epoch_begins(snapshot: Snapshot) -> bool:
    started = snapshot.events.newest(EpochStarted)
    if started is None:
        return False
    return not len(snapshot.steps) or started.at_ns > int(snapshot.steps[-1]["start_ns"])


def _memory(snapshot: Snapshot) -> Memory | None:
    if not len(snapshot.samples):
        return None
    row = snapshot.samples[-1]
    used, available, swap = (
        float(row[name]) for name in ("memory_used_bytes", "memory_available_bytes", "swap_used_bytes")
    )
    return None if math.isnan(used) else Memory(used, available, swap, memory_total(snapshot.manifest.machine))


def steps_in_all(snapshot: Snapshot) -> int | None:
    """Return the planned number of steps of the run; None where unknown."""
    steps: int | None = snapshot.manifest.settings.get("steps")
    if steps is not None:
        return steps
    epochs, per_epoch = snapshot.manifest.epochs, snapshot.manifest.steps_per_epoch
    return epochs * per_epoch if epochs and per_epoch else None


def _slow_epoch_end(events: Events) -> Paused | None:
    """Of the newest epochs: pauses are many."""
    ended = events.of(EpochEnded)[-_ENDS:]
    return find_slow_epoch_end([*ended, *events.between(Paused, ended[0].at_ns - 10**9, 2**63)]) if ended else None


def _experiment(snapshot: Snapshot) -> RunningExperiment | None:
    found = running_experiment(snapshot.events.of(ExperimentBegan, ExperimentBlock, ExperimentEnded))
    return replace(found, cut_off=snapshot.life.is_over) if found else None


def _asked(snapshot: Snapshot, knobs: dict[str, KnobState]) -> dict[str, str]:
    """The requests for the next batch; one that waits for an epoch to begin stands beside its knob."""
    asked = {knob: state.asked for knob, state in knobs.items() if state.asked is not None}
    return {knob: value for knob, value in asked.items() if not snapshot.manifest.epochs_until(knob, value)}


def _is_breakdown_event(event: Event) -> bool:
    return not isinstance(event, Paused) or event.cause == STOPPED
