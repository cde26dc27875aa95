"""The situation of a run at one moment, live or over: what its findings are made from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.bounds import LATEST_NS
from tfwatch.core.errors import printable
from tfwatch.core.events import (
    EpochStarted,
    LossDiverged,
    StallLocated,
    TrainingFailed,
    WatchFailed,
)
from tfwatch.core.knobs import MULTIPROCESSING
from tfwatch.core.rows import Phase
from tfwatch.judge.other_programs import OtherPrograms
from tfwatch.judge.profile.step_groups import step_rows
from tfwatch.judge.profile.step_parts import step_parts
from tfwatch.judge.regime import Regime
from tfwatch.judge.stages import FETCH_MS
from tfwatch.judge.steps.stalls import merge_locations
from tfwatch.judge.troubles import current_divergence
from tfwatch.runs.library import replay_argument

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tfwatch.core.events import RunEnded, StagesFound, StepProfiled
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.switching_state import AutopilotRun, RunningExperiment
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.forecasts.forecast import Forecast
    from tfwatch.judge.machine import MachineFigures
    from tfwatch.judge.profile.step_parts import StepPart
    from tfwatch.judge.stages import Bottleneck, Stage, StageTable
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.judge.steps.steady_steps import Breakdown, Stat
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.snapshot import Snapshot

#: Characters of a metric's name: its figure stands behind it.
_LONGEST_METRIC = 24


class SourceKind(Enum):
    """The data passed to `fit` or to a custom loop. ITERATOR: a Python iterator. UNKNOWN: no stage
    was read."""

    PY_DATASET = "PyDataset"
    GENERATOR = "generator"
    ARRAYS = "arrays"
    ITERATOR = "iterator"
    TF_DATA = "tf.data"
    UNKNOWN = ""

    @property
    def has_no_pipeline(self) -> bool:
        """True where there is no tf.data pipeline in the user's code to add a stage to."""
        return self not in (SourceKind.TF_DATA, SourceKind.UNKNOWN)


#: The sources by the word that marks a stage of theirs.
_MARKED = {kind.value: kind for kind in SourceKind if kind.has_no_pipeline}


def batch_source(manifest: Manifest, pipelines: Mapping[int, StagesFound]) -> SourceKind:
    """Return the source of the batches, by the names of all pipelines of a run.

    The first marked pipeline decides: one that is read at the start or end of an epoch may lack its
    source. Before stages are read, as in a `fit` of less than a second, it is that of run.json.
    """
    if MULTIPROCESSING in manifest.knobs:
        return SourceKind.PY_DATASET
    for pipeline in pipelines.values():
        words = (word for kind in pipeline.kinds for word in kind.split()[1:] if word in _MARKED)
        if marked := next(words, None):
            return _MARKED[marked]
    if any(len(pipeline.kinds) > 1 for pipeline in pipelines.values()):
        return SourceKind.TF_DATA
    known = [kind for kind in SourceKind if kind.value == manifest.data]
    return known[0] if known else SourceKind.UNKNOWN


#: A smaller share of the present regime is no loss to begin with: compute comes first.
LEADS_FROM = 0.10

#: A wait is a stall, and a step is long, from this many median steps on, and from this many seconds
#: on: the first batch of an epoch often takes a few tenths.
LONG_STEPS = 4.0
LONG_S = 1.0


def of_step(part: Stat, step: Stat) -> str:
    """Return `9.6 of 23.4 ms`, the means: their ratio is a share, the ratio of medians is not."""
    return " of ".join(units.in_one_unit(part.mean, step.mean))


#: A smaller share of a run is not worth a sentence.
_NOTABLE = 0.01


def data_wait_parts(waited_s: float, run_s: float) -> list[str]:
    """Return `data wait 4:12 (2 % of the run)` and `without it: 3 h 8 min at best`.

    A run is that short where batches are prepared during steps, on cores that the steps leave
    free.
    """
    share = waited_s / run_s if run_s > 0 else None
    parts = [f"data wait {units.seconds(waited_s)} ({units.percent(share)} of the run)"]
    if share is not None and share >= _NOTABLE:
        parts.append(f"without it: {units.seconds(max(run_s - waited_s, 0.0))} at best")
    return parts


@dataclass(frozen=True, slots=True)
class Situation:
    """One moment of a run."""

    manifest: Manifest
    #: Of the newest steady steps of the present setting; None without any.
    split: Breakdown | None = None
    #: The settings in effect, in words.
    knobs: Mapping[str, str] = field(default_factory=dict)
    regime: Regime = field(default_factory=Regime)
    #: By knob and value, for the settings that the keys request now.
    forecasts: Mapping[tuple[str, str], Forecast] = field(default_factory=dict)
    #: The newest profile of its steps; None without one.
    profile: StepProfiled | None = None
    #: Of the pipeline, None where they cannot be read.
    stages: StageTable | None = None
    #: Cores that no program uses, and those that the training uses; NaN where unknown.
    cores_free: float = math.nan
    cores_used: float = math.nan
    #: The names of the known lines in TensorFlow's log.
    log: frozenset[str] = frozenset()
    stalls: tuple[Stall, ...] = ()
    median_step_ms: float | None = None
    #: Seconds of data wait over the whole run.
    waited_s: float = 0.0
    #: The stage that calls Python, of a pipeline with one such stage; else empty.
    python_stage: str = ""
    #: The longest of its newest steps, without compiles, seconds.
    longest_step_s: float = 0.0
    #: Over the last seconds; None before the first sample.
    machine: MachineFigures | None = None
    #: The programs beside it.
    others: OtherPrograms = field(default_factory=OtherPrograms)
    #: Until the run's end, None where unknown.
    left_s: float | None = None
    #: The source of the pipeline's batches.
    origin: SourceKind = SourceKind.UNKNOWN
    #: Keys take effect.
    live: bool = True
    #: `running`, `not responding`, `ended`, `killed`, `unknown` or `folder gone`.
    life: str = "running"
    #: The present phase, its seconds so far, and what it does in words.
    phase: Phase = Phase.STARTING
    phase_s: float = 0.0
    detail: str = ""
    #: The step in progress, counted from 1, or the last one of a finished run.
    step: int = 0
    steps_total: int = 0
    epoch: int = 0
    epoch_begins: bool = False
    #: Seconds since the last sign of life.
    silent_s: float = 0.0
    now_s: float = 0.0
    #: Why steps are not recorded, and since which; empty while they are.
    unrecorded: str = ""
    watch_failed: str = ""
    ended: RunEnded | None = None
    failed: TrainingFailed | None = None
    #: The argument of `tfwatch replay`.
    run: str = ""
    #: The place of the current data wait; None where it is short, or the place unknown.
    located: StallLocated | None = None
    #: The start of a loss that is NaN or infinite; None where it is finite, or unknown.
    diverged: LossDiverged | None = None
    #: Elements in the shuffle buffer and its size, while it fills.
    shuffle: tuple[int, int] | None = None
    #: Seconds since stop was requested.
    stopping_s: float | None = None
    #: Settings that were requested for the next batch and are not yet in effect.
    asked: Mapping[str, str] = field(default_factory=dict)
    #: Those that take effect with an epoch: the value, and `requested, from epoch 3`.
    deferred: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: The faster value of each setting that the run measured as slower, by knob and value.
    better: Mapping[tuple[str, str], str] = field(default_factory=dict)
    experiment: RunningExperiment | None = None
    autopilot_run: AutopilotRun | None = None
    #: All of a run that is over is judged: there are no more steps to wait for.
    is_whole: bool = False
    #: Those of the whole run once it is over; None before they are known.
    last_losses: tuple[Finding, ...] | None = None

    def label(self, word: str, seconds: float, of_s: float = math.nan) -> str:
        """Return `HOST-BOUND 41 %`, of `of_s`, e.g. of the steps, as the fraction in the sentence;
        else of `Regime.judged_s`. Nothing is starving below `LEADS_FROM` of that."""
        share = self.regime.share(seconds)
        mild = "DATA WAIT" if word == "STARVING" and share < LEADS_FROM else word
        return f"{mild} {units.percent(min(seconds / of_s, 1.0) if of_s > 0 else share)}"

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """The parts of a step by the newest profile, the longest first; none without a profile."""
        return step_parts(self.profile) if self.profile else ()

    @property
    def parts_without_cudnn(self) -> tuple[StepPart, ...]:
        """The parts of a step that are recurrent layers which loop on an NVIDIA GPU for want of
        cuDNN; none where that is unknown."""
        model = self.manifest.model if self.manifest.has_cudnn else None
        looping = model.without_cudnn if model else ()
        return tuple(part for part in self.parts if any(one.has(part.name) for one in looping))

    @property
    def computes_batches(self) -> bool:
        """True if preparing batches uses the CPU, False also where that is unknown."""
        return self.stages is not None and self.stages.is_computing

    @property
    def memory_free(self) -> float | None:
        """The bytes of memory that no program uses; None where unknown."""
        return self.machine.figures.get("memory_available_bytes") if self.machine else None

    @property
    def bytes_of_epoch(self) -> int | None:
        """The bytes of all batches of an epoch; None where unknown."""
        size, steps = self.manifest.batch_bytes, self.manifest.steps_per_epoch
        return size * steps if size and steps else None

    def gains_nothing(self, knob: str, value: str) -> bool:
        """Return whether a switch is forecast to gain nothing, or has measured slower."""
        then = self.forecasts.get((knob, value))
        no_gain = then is not None and then.is_known and not then.has_gain
        return no_gain or (knob, value) in self.better

    @property
    def compute_beside_s(self) -> float:
        """The seconds of compute on the CPU that batches have in the prefetch work: where steps
        find no batch, it never pauses. 0.0 where it pauses, or where that is not known."""
        part, table = self.split, self.stages
        waits = part is not None and part.wait.median > FETCH_MS
        works = waits and table is not None and table.is_prefetched
        return self.regime.spent.compute_s if works and not self.manifest.accelerated else 0.0

    @property
    def iterator_ends_s(self) -> float:
        """The time at the ends of a fit's epochs in which no callback runs: Keras ends the iterator
        of a validation then, after its callbacks, which took 0.4 times as long as the validation
        over arrays on two busy cores, and one that was not read to its end."""
        share = self.regime.share_without_callbacks("EPOCH_END")
        return 0.0 if self.has_own_loop else share * self.regime.spent.epoch_end_s

    @property
    def step_rows(self) -> tuple[StepPart, ...]:
        """The parts with the layers of a deep model in groups."""
        return step_rows(self.profile) if self.profile else ()

    @property
    def switches(self) -> tuple[Forecast, ...]:
        """The forecasts of the switches that can be made."""
        asks, can_switch = self.manifest.needs_consent, self.manifest.switchable
        known = self.forecasts.values()
        return tuple(one for one in known if one.knob in can_switch or asks(one.knob))

    def profiled(self, share: float) -> str:
        """Return `41 % of compute by a profile of 3 steps`, what a forecast rests on."""
        steps = units.counted(self.profile.steps, "step") if self.profile else "no step"
        return f"{units.percent(share)} of compute by a profile of {steps}"

    @property
    def bottleneck(self) -> Bottleneck | None:
        """The limit of the input pipeline; None where it is unknown, or there is none."""
        return self.stages.bottleneck if self.stages else None

    @property
    def limiting_stage(self) -> Stage | None:
        """The stage of the bottleneck."""
        return self.stages.limiting_stage if self.stages else None

    @property
    def has_own_loop(self) -> bool:
        """True where the training is a loop of the script's own, and no `fit`."""
        return bool(self.manifest.loop)

    @property
    def is_starting(self) -> bool:
        """True while the training thread waits for the run's first batch."""
        return self.phase is Phase.WAIT and not self.steps_total and self.step <= 1

    @property
    def is_waiting_long(self) -> bool:
        """True while a data wait is longer than usual, the first one of the run included."""
        return (
            self.life == "running" and self.phase is Phase.WAIT and self.phase_s >= self._long_s()
        )

    @property
    def is_stalled(self) -> bool:
        """True while a data wait is longer than usual, except for the first batch of the run."""
        return self.is_waiting_long and not self.is_starting

    @property
    def is_running_long(self) -> bool:
        """True while compute or host time is longer than usual."""
        busy = self.phase in (Phase.COMPUTE, Phase.HOST)
        return self.life == "running" and busy and self.phase_s >= self._long_s()

    def _long_s(self) -> float:
        return max(LONG_S, LONG_STEPS * (self.median_step_ms or 0.0) / 1e3)


def at_this_moment(setting: Situation, snapshot: Snapshot) -> Situation:
    """Return the situation of a setting at the moment of a snapshot."""
    pulse, events = snapshot.pulse, snapshot.events
    failed = events.newest(WatchFailed)
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
        watch_failed=failed.reason if failed else "",
        ended=snapshot.ended,
        failed=events.newest(TrainingFailed),
        run=_run_argument(snapshot.folder, bool(snapshot.manifest.group))
        if snapshot.folder
        else "",
        located=_located(snapshot),
        diverged=current_divergence(snapshot),
    )


@lru_cache(maxsize=64)
def _run_argument(folder: Path, is_rank: bool) -> str:
    """Return the argument of `tfwatch replay`, found once. The manifest knows of the group: the
    disk may hang."""
    return replay_argument(folder, is_rank)


def _located(snapshot: Snapshot) -> StallLocated | None:
    """The place of the wait that lasts now."""
    pulse = snapshot.pulse
    if pulse is None or pulse.phase is not Phase.WAIT:
        return None
    return merge_locations(snapshot.events.between(StallLocated, pulse.since_ns, LATEST_NS))


def metric_name(name: str) -> str:
    """`acc` for accuracy: where it stands there is little room."""
    short = printable(name.replace("accuracy", "acc"))
    return short if len(short) <= _LONGEST_METRIC else f"{short[: _LONGEST_METRIC - 3]}..."


def _epoch_begins(snapshot: Snapshot) -> bool:
    started = snapshot.events.newest(EpochStarted)
    if started is None:
        return False
    return not len(snapshot.recent) or started.at_ns > int(snapshot.recent[-1]["start_ns"])


def steps_in_all(snapshot: Snapshot) -> int | None:
    """Return the planned number of steps of the run; None where unknown."""
    manifest = snapshot.manifest
    limit, per_epoch = manifest.steps_limit, manifest.steps_per_epoch
    planned = manifest.epochs * per_epoch if manifest.epochs and per_epoch else limit
    return min(planned, limit) if planned and limit else planned


#: The pace of a run is that of its last seconds.
_PACE_S = 60.0


def left_s(progress: Rows, steps: int | None) -> float | None:
    """Estimate the seconds until step `steps` at the pace of the last minute, pauses included; None
    where unknown. progress: rows of `core.rows.PROGRESS`."""
    if steps is None or len(progress) < 2:
        return None
    recent = progress[-256:]
    recent = recent[recent["at_ns"] >= recent["at_ns"][-1] - _PACE_S * 1e9]
    took_s = (float(recent["at_ns"][-1]) - float(recent["at_ns"][0])) / 1e9
    done = int(recent["step"][-1]) - int(recent["step"][0])
    if done <= 0 or took_s < 1.0:
        return None
    return max(0, steps - int(recent["step"][-1])) * took_s / done
