"""What a run is like at one moment, in plain values, and the finding that is made from it.

Where a training's batches come from, as the names of its pipeline's stages show.

A finding: one word, one sentence and one piece of advice.

What a run is like at one moment, in plain values: all that its finding is made from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tfwatch.analysis.steps.verdict import Judgement, Verdict
from tfwatch.core.rows import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.analysis.findings.bottleneck import StageTable
    from tfwatch.analysis.findings.machine import Machine
    from tfwatch.analysis.findings.starving_cost import DataWaitCost
    from tfwatch.analysis.steps.time_breakdown import TimeSpent
    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.analysis.tuning.forecast import Forecast, Record
    from tfwatch.analysis.tuning.search_text import AutopilotRun, RunningExperiment
    from tfwatch.core.events import LossDiverged, Paused, RunEnded, StagesFound, StallLocated, TrainingFailed


class SourceKind(Enum):
    """What `fit` was given, or a loop goes over. ITERATOR: one of Python's. UNKNOWN: the stages were never read."""

    PY_DATASET = "PyDataset"
    GENERATOR = "generator"
    ARRAYS = "arrays"
    ITERATOR = "iterator"
    TF_DATA = "tf.data"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Where batches come from. workers: a `PyDataset` has some, and is not prefetched by Keras then."""

    given: SourceKind = SourceKind.UNKNOWN
    workers: bool = False

    @property
    def has_no_pipeline(self) -> bool:
        """Whether its author wrote no pipeline, to which a stage could be added."""
        return self.given in _MARKED


def find_batch_source(found: Iterable[StagesFound]) -> BatchSource:
    """By the names of all pipelines of a run.

    The first that is marked tells of all, for what is read while an epoch begins or ends may lack its source.
    """
    whole = False
    for pipeline in found:
        for kind in pipeline.kinds:
            given = next((one for one in _MARKED if one.value in kind.split()[1:]), None)
            if given is not None:
                return BatchSource(given, given is SourceKind.PY_DATASET and "Prefetch" not in pipeline.kinds[-1])
        whole = whole or len(pipeline.kinds) > 1
    return BatchSource(SourceKind.TF_DATA) if whole else BatchSource()


_MARKED = (SourceKind.PY_DATASET, SourceKind.GENERATOR, SourceKind.ARRAYS, SourceKind.ITERATOR)


class Tone(Enum):
    """How a finding looks."""

    CALM = "calm"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try next: a sentence with the number, and lines of Python that do it; empty where there is none."""

    sentence: str
    edit: str = ""


@dataclass(frozen=True, slots=True)
class Banner:
    """The finding. `advice` and `remark`, what to know of the machine beside it, may be empty.

    edit: lines of Python for the user's own pipeline or training; empty where there is nothing to change.
    brief: the sentence where there is no room for it, its figures kept; empty where it says no more than that.
    """

    word: str
    sentence: str
    advice: str
    tone: Tone
    remark: str = ""
    edit: str = ""
    brief: str = ""


NOT_JUDGED = Judgement(Verdict.UNKNOWN, 0, 20, None)

#: A wait is called a stall, and a step long, when it lasts this many median steps, and at least so long.
LONG_STEPS = 4.0
STALL_S = 0.15
LONG_S = 1.0


@dataclass(frozen=True, slots=True)
class Memory:
    """The machine's memory at the last sample, bytes; NaN where it could not be had.

    total: what the run could have; not everywhere do what is used and what is available make up the whole.
    """

    used: float
    available: float
    swap: float
    total: float

    @property
    def is_full(self) -> bool:
        """Whether under a twentieth of it is available."""
        return self.available < 0.05 * self.total


@dataclass(frozen=True, slots=True)
class Situation:
    """One moment of a run.

    life: `running`, `not responding`, `ended`, `killed`, `unknown` or `folder gone`.
    silent_s: age of a pulse without an answer.
    step: the step in progress, counted from 1, or the last one of a run that is over.
    phase_s: how long the training thread has done what it does. asked: settings asked for and not yet obeyed.
    device: who waits, in words, e.g. `the GPU`; accelerated: it is beside the CPU. op_by_op: steps run as
    Python, not as a graph.
    knobs: what is in effect, in words. live: keys are obeyed. fast_form: what the pipeline's fast pipeline is called.
    located: where the wait for this step's batch stands; None where it is short, or nobody knows.
    shuffle: elements in the shuffle buffer and its size, while it fills. stopping_s: since when stop is asked.
    epoch_spent: what the newest whole epoch went to. waited_s, between_s: seconds of the whole run that went to
    waiting for data and to what lies between epochs. longest_stall_s and stalls: of its stalls.
    machine: over the last seconds; None before there is a sample. left_s: until the run's end, None where unknown.
    cpu_asked: the user chose to train on the CPU. callback: the class that takes most of what follows a step, where
    it is known. fills: a shuffle buffer was filled before an epoch's first batch. held_end: see `advice.slow_epoch_end`.
    forecasts: by knob and value, of what the keys would ask for now; record: how near those of this run came.
    started: what the knobs stood at as the run began. stages: of the pipeline, None where they cannot be read. origin:
    where its batches come from.
    batch_bytes: of one batch of `batch_size` examples; None where nobody knows. lost: to data wait so far.
    diverged: since when the loss is no finite number; None where it is one, or nobody knows.
    at_last: what the last setting of a run that is over was bound by; None before that, and where too few steps tell.
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
    knobs: Mapping[str, str] = field(default_factory=dict)
    switchable: tuple[str, ...] = ()
    fast_form: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    switch: Comparison | None = None
    experiment: RunningExperiment | None = None
    autopilot_run: AutopilotRun | None = None
    epoch_spent: TimeSpent | None = None
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
    metric: str = ""
    memory: Memory | None = None
    machine: Machine | None = None
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
    origin: BatchSource = field(default_factory=BatchSource)
    batch_size: int | None = None
    batch_bytes: int | None = None
    lost: DataWaitCost | None = None
    diverged: LossDiverged | None = None
    last_finding: Banner | None = None

    @property
    def starts(self) -> bool:
        """Whether the training thread waits for the run's first batch."""
        return self.phase is Phase.WAIT and not self.steps_total and self.step <= 1

    @property
    def is_waiting_long(self) -> bool:
        """Whether the training thread waits for a batch for longer than is usual, for the first one too."""
        return self.life == "running" and self.phase is Phase.WAIT and self.phase_s >= self._long_s(STALL_S)

    @property
    def stalled(self) -> bool:
        """Whether a run that was under way waits so: how long its first batch takes is told as its start."""
        return self.is_waiting_long and not self.starts

    @property
    def is_running_long(self) -> bool:
        """Whether a step, or what follows it, lasts for longer than is usual."""
        busy = self.phase in (Phase.COMPUTE, Phase.HOST)
        return self.life == "running" and busy and self.phase_s >= self._long_s(LONG_S)

    def _long_s(self, least_s: float) -> float:
        return max(least_s, LONG_STEPS * (self.median_step_ms or 0.0) / 1e3)
