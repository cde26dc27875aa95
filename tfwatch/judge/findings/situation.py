"""The situation of a run at one moment in plain values, and the types of the finding that is made from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tfwatch.core.rows import Phase
from tfwatch.judge.steps.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.core.code_edits import CodeEdit
    from tfwatch.core.events import (
        LossDiverged,
        Paused,
        RunEnded,
        StagesFound,
        StallLocated,
        TrainingFailed,
    )
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.tuner_text import AutopilotRun, RunningExperiment
    from tfwatch.judge.findings.bottleneck import StageTable
    from tfwatch.judge.findings.hardware.machine import MachineFigures
    from tfwatch.judge.findings.starving_cost import DataWaitCost
    from tfwatch.judge.forecasts.forecast import Forecast, Record
    from tfwatch.judge.steps.time_breakdown import TimeSpent


class SourceKind(Enum):
    """The data passed to `fit` or to a custom loop. ITERATOR: a Python iterator. UNKNOWN: no stage was read."""

    PY_DATASET = "PyDataset"
    GENERATOR = "generator"
    ARRAYS = "arrays"
    ITERATOR = "iterator"
    TF_DATA = "tf.data"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class BatchSource:
    """The source of the batches. has_workers: a `PyDataset` with workers, which Keras does not prefetch."""

    kind: SourceKind = SourceKind.UNKNOWN
    has_workers: bool = False

    @property
    def has_no_pipeline(self) -> bool:
        """True where there is no tf.data pipeline in the user's code to add a stage to."""
        return self.kind in _MARKED


def find_batch_source(pipelines: Iterable[StagesFound]) -> BatchSource:
    """Find the source of the batches by the names of all pipelines of a run.

    The first marked pipeline decides: one that is read at the start or end of an epoch may lack its source.
    """
    whole = False
    for pipeline in pipelines:
        for kind in pipeline.kinds:
            source = next((one for one in _MARKED if one.value in kind.split()[1:]), None)
            if source is not None:
                return BatchSource(
                    source, source is SourceKind.PY_DATASET and "Prefetch" not in pipeline.kinds[-1]
                )
        whole = whole or len(pipeline.kinds) > 1
    return BatchSource(SourceKind.TF_DATA) if whole else BatchSource()


_MARKED = (SourceKind.PY_DATASET, SourceKind.GENERATOR, SourceKind.ARRAYS, SourceKind.ITERATOR)


class Tone(Enum):
    """The tone of a finding, which sets its colour."""

    CALM = "calm"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice: a sentence with its number, and lines of Python that follow it; empty where there are none."""

    sentence: str
    edit: str = ""


@dataclass(frozen=True, slots=True)
class Banner:
    """The finding; `advice`, and `remark` on the machine, may be empty.

    edit: lines of Python for the user's own pipeline or training; empty where there is nothing to change.
    brief: a shorter sentence with the same figures for a narrow row; empty where `sentence` is short.
    """

    word: str
    sentence: str
    advice: str
    tone: Tone
    remark: str = ""
    edit: str = ""
    brief: str = ""


NOT_JUDGED = Judgement(Verdict.UNKNOWN, 0, 20, None)

#: A wait is a stall, and a step is long, from this many median steps on, and from this many seconds on: the first batch
#: of an epoch often takes a few tenths.
LONG_STEPS = 4.0
LONG_S = 1.0


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """The machine's memory at the last sample, bytes; NaN where unknown.

    total: the memory that the run can use; `used` and `available` do not add up to it on every system.
    """

    used: float
    available: float
    swap: float
    total: float

    @property
    def is_full(self) -> bool:
        """True where less than a twentieth is available."""
        return self.available < 0.05 * self.total


def reading_text(searched: float) -> str:
    """Return `still reading, 41 %`, of a share of the steps: counts are not final."""
    return f"still reading, {int(searched * 100)} %"


@dataclass(frozen=True, slots=True)
class Situation:
    """One moment of a run.

    life: `running`, `not responding`, `ended`, `killed`, `unknown` or `folder gone`.
    silent_s: seconds since the last sign of life.
    step: the step in progress, counted from 1, or the last one of a finished run.
    phase_s: seconds in the current phase. asked: settings that were requested and are not yet in effect.
    device: the device in words, e.g. `the GPU`; accelerated: it is not the CPU. op_by_op: steps run as Python, not as
    a graph. fetches_in_calls: see `Manifest`.
    has_own_loop: the training is a loop of the script's own, and no `fit`. fits_end_epochs: see `fits.fits_end_epochs`.
    knobs: the settings in effect, in words. live: keys take effect.
    located: the place of the current data wait; None where it is short, or the place unknown.
    shuffle: elements in the shuffle buffer and its size, while it fills. stopping_s: seconds since stop was requested.
    epoch_spent: the time of the newest complete epoch. steps_per_epoch: of the data; None where its length is unknown.
    waited_s, between_s: seconds of data wait, and between epochs, over the whole run. longest_stall_s, stalls: the
    longest stall, and the number of stalls. searched: the share of the steps among which these are, while a long run
    is read; None once all are searched.
    machine: over the last seconds; None before the first sample. left_s: until the run's end, None where unknown.
    cpu_asked: the user chose to train on the CPU. callback: the class that takes most of the host time of a step, where
    known. has_shuffle_fill: a shuffle buffer was filled before the newest epoch's first batch. slow_epoch_end: see
    `between_epochs.find_slow_epoch_end`.
    forecasts: by knob and value, for the settings that the keys request now; record: the errors of earlier forecasts.
    started: the settings at the start of the run. stages: of the pipeline, None where they cannot be read. origin: the
    source of its batches. cores_free: that no program uses; NaN where unknown.
    replicas: the devices of the distribution strategy that trains; 0 without one.
    batch_bytes: of one batch of `batch_size` examples; None where unknown. copied_bytes, copy_ahead_ms: see
    `Manifest`.
    lost: the cost of data wait so far.
    code: the changes of the script's lines that set its knobs.
    cache_after: the stage whose results a cache keeps, empty where it is not known; cache_bytes: its size, None where
    unknown; why_no_cache: why there can be none, or empty.
    filled_shuffle, map_below_shuffle: see `Manifest`.
    diverged: the start of a loss that is NaN or infinite; None where it is finite, or unknown.
    better: the faster value of each setting that the run measured as slower, by knob and value.
    last_finding: the finding on the last setting of a finished run; None before its end, and with too few steps.
    """

    life: str = "running"
    phase: Phase = Phase.STARTING
    phase_s: float = 0.0
    detail: str = ""
    step: int = 0
    steps_total: int = 0
    epoch: int = 0
    silent_s: float = 0.0
    now_s: float = 0.0
    pid: int = 0
    host: str = ""
    live: bool = True
    judgement: Judgement = NOT_JUDGED
    median_step_ms: float | None = None
    device: str = "the device"
    accelerated: bool = False
    op_by_op: bool = False
    fetches_in_calls: bool = False
    has_own_loop: bool = False
    fits_end_epochs: bool = False
    knobs: Mapping[str, str] = field(default_factory=dict)
    switchable: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)
    switch: Comparison | None = None
    experiment: RunningExperiment | None = None
    autopilot_run: AutopilotRun | None = None
    epoch_spent: TimeSpent | None = None
    steps_per_epoch: int | None = None
    epoch_begins: bool = False
    shuffle: tuple[int, int] | None = None
    located: StallLocated | None = None
    unrecorded: str = ""
    unrecorded_step: int = 0
    watch_failed: str = ""
    stopping_s: float | None = None
    ended: RunEnded | None = None
    failed: TrainingFailed | None = None
    waited_s: float = 0.0
    between_s: float = 0.0
    stalls: int = 0
    longest_stall_s: float = 0.0
    searched: float | None = None
    metric: str = ""
    memory: MachineMemory | None = None
    machine: MachineFigures | None = None
    left_s: float | None = None
    cpu_asked: bool = False
    callback: str = ""
    has_shuffle_fill: bool = False
    slow_epoch_end: Paused | None = None
    run: str = ""
    forecasts: Mapping[tuple[str, str], Forecast] = field(default_factory=dict)
    record: Record | None = None
    started: Mapping[str, str] = field(default_factory=dict)
    stages: StageTable | None = None
    cores_free: float = math.nan
    code: tuple[CodeEdit, ...] = ()
    cache_after: str = ""
    cache_bytes: float | None = None
    why_no_cache: str = ""
    origin: BatchSource = field(default_factory=BatchSource)
    replicas: int = 0
    batch_size: int | None = None
    batch_bytes: int | None = None
    copied_bytes: Mapping[str, int] = field(default_factory=dict)
    copy_ahead_ms: float | None = None
    lost: DataWaitCost | None = None
    filled_shuffle: str = ""
    map_below_shuffle: str = ""
    diverged: LossDiverged | None = None
    last_finding: Banner | None = None
    better: Mapping[tuple[str, str], str] = field(default_factory=dict)

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
