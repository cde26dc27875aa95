"""The events of a run, one class each, and their lines in events.jsonl.

A field's type carries its bounds (`core/bounds.py`). `decode` skips an event that is out of them:
its readers need no check.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar, Union

import msgspec
from msgspec import Meta

from tfwatch.core.bounds import (
    Bytes,
    Count,
    Knob,
    Milliseconds,
    Moment,
    Ratio,
    encode_json,
    one_of,
)
from tfwatch.core.knobs import ChangesKnob, KnobChange, check_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    #: Figures of Keras by name; in a line null, here NaN, where one is not finite.
    Metrics: TypeAlias = dict[str, float]
else:
    Metrics = dict[str, float | None]

#: `by` of the switches that the autopilot asks for, and of those of an A/B test.
AUTOPILOT: Final = "autopilot"
EXPERIMENT: Final = "experiment"
#: `by` of a profile for which nobody asked.
AUTOMATIC: Final = "automatic"
#: The most layers of a list.
MOST_NAMES: Final = 64
#: The parts of a step that operations belong to, and the most rows of one profile.
ROLES: Final = (
    "forward",
    "backward",
    "loss",
    "metric",
    "optimizer",
    "clipping",
    "collective",
    "copy",
    "other",
)
MOST_OPERATIONS: Final = 1500
#: The operation of a loop of the graph. On a GPU its time is that for which the GPU waits for the
#: next kernel of the loop.
LOOP: Final = "While"
_Role: TypeAlias = Annotated[str, one_of(*ROLES)]
#: Causes of an experiment that ended with its run: the final setting is that of its last block, and
#: no answer.
WITH_THE_RUN: Final = ("stopped", "ended")


class Event(msgspec.Struct, frozen=True, tag_field="event", tag=True):
    """An event of a run."""

    at_ns: Moment


class LossDiverged(Event, frozen=True):
    """The loss of `step` is not finite."""

    step: Count
    loss: Annotated[str, one_of("NaN", "infinite")]
    #: The last step with a finite loss, 0 where there is none; those between belong to the same
    #: call, or reported no loss.
    finite_step: Count


class AutopilotBegan(Event, frozen=True):
    """The autopilot began."""

    step: Count


class MoveMade(Event, frozen=True):
    """The autopilot asked for settings, which change at the same time."""

    step: Count
    changes: tuple[KnobChange, ...]
    #: The forecast step time; None without a forecast.
    forecast_ms: Milliseconds | None = None


class MoveJudged(Event, frozen=True):
    """The measured effect of a move."""

    step: Count
    changes: tuple[KnobChange, ...]
    #: Mean step times before the move and after it, over `steps` steady steps.
    before_ms: Milliseconds
    after_ms: Milliseconds | None
    steps: Count
    #: The run continues with the new setting.
    kept: bool
    #: Why it was kept or undone; empty where the measurement is a gain beyond noise.
    reason: str = ""


class AutopilotEnded(Event, frozen=True):
    """The autopilot ended; figures are None where too few steps were measured."""

    step: Count
    #: `nothing_left`: no candidate is left to try; `over`: the run is.
    cause: Annotated[
        str,
        one_of("not_starving", "nothing_left", "user", "over", "budget", "failed"),
    ]
    #: The cause in a sentence.
    reason: str
    #: Steps of the run.
    steps: Count
    #: Mean step time at the beginning and at the end.
    before_ms: Milliseconds | None = None
    after_ms: Milliseconds | None = None
    #: The final settings; where the run is over, those in effect.
    knobs: dict[str, str] = {}
    #: The typical step before over that after, and its 95 % interval; None where no move was kept.
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None


class ExperimentBegan(Event, frozen=True):
    """An A/B test began: blocks of steps alternate between `values` from `step` on, in at most
    `budget` steps."""

    knob: Knob
    #: The second is compared with the first.
    values: tuple[str, str]
    step: Count
    budget: Count


class ExperimentBlock(Event, frozen=True):
    """One block of an experiment ended."""

    #: Counted from 1.
    block: Count
    value: str
    #: Those of its steps that count, and their mean.
    steps: Count
    step_ms: Milliseconds
    #: The answer so far, as in `ExperimentEnded`.
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None


class ExperimentEnded(Event, frozen=True):
    """An experiment ended at the run's step `step`."""

    knob: Knob
    values: tuple[str, str]
    #: The step of its beginning.
    began: Count
    step: Count
    #: `key`: the user switched a knob; `ended`: the run did.
    cause: Annotated[
        str, one_of("clear", "budget", "cancelled", "key", "stopped", "ended", "failed")
    ]
    #: The second value compared with the first.
    answer: Annotated[str, one_of("faster", "slower", "same", "unclear")]
    #: Those that count, `steps` of both values together.
    rounds: Count
    steps: Count
    #: The knob's final value.
    kept: str
    #: Step time of the first value over that of the second, and its 95 % confidence interval; None
    #: where it is unknown.
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None
    #: Mean step time by value.
    step_ms: dict[str, Milliseconds] = {}
    #: Why it failed.
    reason: str = ""


class EpochStarted(Event, frozen=True):
    """An epoch began."""

    #: Counted from 0, on over the fits of a run.
    epoch: Count
    epochs: Count
    #: None where the number of batches is unknown.
    steps: Count | None
    #: The number of its `fit` in a run that several share, from 1.
    fit: Count = 1
    #: The number of its model among those that the run has trained, in their order, from 1.
    model: Count = 1


class EpochEnded(Event, frozen=True):
    """An epoch ended, its validation included."""

    epoch: Count
    step: Count
    metrics: Metrics

    def __post_init__(self) -> None:
        self.metrics.update(
            {name: math.nan for name, value in self.metrics.items() if value is None}
        )


class ValidationEnded(Event, frozen=True):
    """A validation ended."""

    epoch: Count
    took_ms: Milliseconds


class Traced(Event, frozen=True):
    """A step called a function that was traced or compiled in it: the first, or one more time.

    Limited in rate: the counts hold also what has no event.
    """

    step: Count
    #: The compute of that step: the trace, the compilation and the call itself.
    took_ms: Milliseconds
    #: What changed in the arguments since the trace before, e.g. `input 0: shape (8, 31, 6) -> (8,
    #: 47, 6)`; empty for the first trace, and where it is not known.
    change: str = ""
    #: The steps that traced so far, this one included, and the sum of their `took_ms`.
    traces: Count = 1
    total_ms: Milliseconds = 0.0


class OperationTime(msgspec.Struct, frozen=True):
    """The time of the operations of one layer in one direction, or of another part of a step."""

    role: _Role
    #: The layer as a path, e.g. `encoder/dense_1`; the name of a metric or an optimizer; empty
    #: where it is not known.
    name: str
    #: Its class, e.g. `Conv2D`; empty where it is not known.
    kind: str
    #: TensorFlow's name of the operation or of the kernel that takes most of it, e.g.
    #: `_MklNativeFusedConv2D`.
    op: str
    #: A step, the mean.
    took_ms: Milliseconds
    #: The line of the user's that made the operation, e.g. `train.py:41 in call`; empty: none, or
    #: unknown.
    place: str = ""
    #: It runs in a loop of the graph, as that of a recurrent layer over its time steps.
    in_loop: bool = False
    #: The path of the variable that the optimizer updates, e.g. `dense/kernel`; empty where it is
    #: none, or unknown.
    variable: str = ""
    #: The dtype that its longest operation computes, e.g. `float32`; empty where it is not known.
    dtype: str = ""
    #: The host computes most of it while the GPU waits.
    on_host: bool = False


class StepProfiled(Event, frozen=True, cache_hash=True):
    """A few steps ran under TensorFlow's profiler: the time of their operations by part."""

    #: The last one.
    step: Count
    steps: Count
    #: The mean of these steps, from the begin of the first to the end of the last.
    step_ms: Milliseconds
    #: What starting the profiler took of the training. It stops beside the next steps, which are
    #: marked.
    cost_ms: Milliseconds
    #: The operations ran on a GPU.
    on_gpu: bool = False
    #: The longest first.
    operations: Annotated[tuple[OperationTime, ...], Meta(max_length=MOST_OPERATIONS)] = ()
    #: Parts beyond these, a step.
    others_ms: Milliseconds = 0.0
    #: Starting operations that are too small to be recorded one by one, and these, a step.
    small_ms: Milliseconds = 0.0
    #: Why there is no profile; empty where there is one.
    missing: str = ""
    #: `key`, `command`, or `automatic`: nobody asked.
    by: str = "command"
    #: A step, the time in which the GPU runs nothing between the kernels of a call; None on a CPU,
    #: and where the begin of the calls is not known.
    gaps_ms: Milliseconds | None = None
    #: A step, products in float32 that leave the tensor cores of the GPU idle; None where it has
    #: none, or that is not known.
    float32_ms: Milliseconds | None = None


class TrainableIgnored(Event, frozen=True):
    """A `fit` began with a step that was traced before layers were frozen or unfrozen, without a
    `compile` since."""

    #: Layers that are frozen, and train.
    frozen: Annotated[list[str], Meta(max_length=MOST_NAMES)] = []
    #: Layers that are trainable, and do not train.
    unfrozen: Annotated[list[str], Meta(max_length=MOST_NAMES)] = []


class SwitchAsked(Event, ChangesKnob, frozen=True):
    """A switch was requested; where `new` equals `old`, one that waited for an epoch to begin is
    cancelled."""

    knob: Knob
    old: str
    new: str
    step: Count
    #: `key`, `command`, `code`, `experiment` or `autopilot`.
    by: str
    #: The number of epochs that begin before it is in effect.
    epochs: Count = 0


class PipelineSwitched(Event, ChangesKnob, frozen=True):
    """The first batch of the new pipeline arrived at `step`."""

    knob: Knob
    old: str
    new: str
    asked_step: Count
    step: Count
    #: The time to build that pipeline.
    took_ms: Milliseconds
    by: str


class SwitchFailed(Event, ChangesKnob, frozen=True):
    """A switch was refused or failed, or the run ended before it was in effect."""

    knob: Knob
    reason: str
    old: str
    new: str
    #: The steps done when it was requested.
    step: Count
    #: The setting in effect since.
    now: str


class RandomDrawsAllowed(Event, frozen=True):
    """The user accepts that maps or a `PyDataset` draw other random numbers from here on: they may
    run in parallel, as with the line in the script."""

    #: The steps done.
    step: Count
    #: `key`, `command` or `code`.
    by: str
    #: What draws them.
    reason: str


class SensorMissing(Event, frozen=True):
    """A sensor has no figures, or has them again."""

    sensor: str
    #: Why; empty where it has them again.
    reason: str = ""
    #: How to get them.
    fix: str = ""


class GpusFound(Event, frozen=True):
    """The GPUs of a distribution strategy, whose figures gpus.bin holds."""

    #: By device, e.g. `GPU:0`, in the order of the file's `gpu`; empty where the sensor does not
    #: find one.
    names: dict[str, str]
    #: Of each; unknown ones are missing.
    memory_bytes: dict[str, Bytes]


class GpuFound(Event, frozen=True):
    """The GPU whose figures the samples hold from now on."""

    #: The sensor: `nvml`, `powermetrics` or `ioreg`.
    source: str
    name: str
    #: The GPU's own memory, or with `unified` the machine's, which the GPU shares; None: unknown.
    memory_bytes: Bytes | None
    unified: bool
    #: GPUs of the machine; the first is shown.
    gpus: Count = 1


class StagesFound(Event, frozen=True):
    """The names of the input pipeline's stages."""

    #: Its number in rows of `core.rows.STAGE`.
    pipeline: Count
    #: In the order of the code, in the words of its author, e.g. `map(decode)`.
    names: list[str]
    #: tf.data's own names, e.g. `ParallelMapV2`.
    kinds: list[str]


class StallLocated(Event, frozen=True):
    """The place that a stall waits for: the line of Python after half a second, the stage of the
    input pipeline after three, in an event each."""

    #: The waiting step.
    step: Count
    #: The last stage, in the order of the code, that delivers nothing since `since_ns` although the
    #: stages before it could; empty: unknown.
    stage: str
    since_ns: Moment
    #: The line of Python that runs there, e.g. `feed.py:41 in rows`; empty: none, or unknown.
    place: str = ""
    #: Of that line, `training` or `generator`; empty without one.
    thread: str = ""


class CodeSample(msgspec.Struct, frozen=True):
    """A place in Python, and how many samples of the training thread fell on it."""

    #: The name of a `core.rows.Phase`, `BETWEEN_FITS` between two fits of one run, or `FIRST_BATCH`
    #: while an epoch begins.
    phase: str
    #: The class of the Keras callback that runs; empty without one.
    callback: str
    #: The function that the user's line calls, e.g. `predict` or `gc.collect`; empty: its own code,
    #: or unknown.
    call: str
    #: The innermost line of the user's code, e.g. `train.py:41 in load_chunk`; empty: none. In a
    #: data wait that of the data's generator, where one runs.
    place: str
    samples: Count


class CodeSampled(Event, frozen=True):
    """The most frequent places of the training thread's Python since the event before.

    A sample stands for `every_ms` of wall clock. Compute has none, but in a loop of the script's
    own, where it is the time in TensorFlow and Keras.
    """

    every_ms: Milliseconds
    samples: list[CodeSample]


class Slept(Event, frozen=True):
    """The machine was asleep for `slept_ms`; no clock of the run counts that time."""

    slept_ms: Milliseconds


class Paused(Event, frozen=True):
    """The training was held up for the `took_ms` before `at_ns`."""

    #: `checkpoint`, `callback`, `CPU contention`, `swap`, `thermal limit` or `process stopped`.
    cause: str
    took_ms: Milliseconds
    #: The class of a callback; where the process stopped, the part of the step: `in data wait`, `in
    #: compute`, `in host`.
    detail: str = ""
    #: The line of the user's code that a callback ran last, e.g. `train.py:41 in on_epoch_end`;
    #: empty: none was seen.
    place: str = ""


class RecordingLost(Event, frozen=True):
    """The disk takes no more rows: from `step` on they are kept in memory only."""

    reason: str
    step: Count


class RecordingResumed(Event, frozen=True):
    """The rows kept in memory are on disk again."""


class WatchFailed(Event, frozen=True):
    """tfwatch itself failed and stopped measuring; training continues."""

    reason: str


class Noted(Event, frozen=True):
    """A note for the user."""

    text: str
    #: It gives the reason why the tuner did not carry out a request.
    is_refusal: bool = False


class StopRefused(Event, frozen=True):
    """A request to stop was refused; the training goes on."""

    reason: str


class TunerLost(Event, frozen=True):
    """The process that ran the A/B test or the autopilot is gone; the settings in force stay."""

    step: Count


class TrainingFailed(Event, frozen=True):
    """Training raised an exception."""

    step: Count
    error: str
    #: Python's own text.
    traceback: str


class RunEnded(Event, frozen=True):
    """The run ended after `steps` steps."""

    #: `finished`, `stopped` or `failed`.
    cause: str
    steps: Count
    detail: str = ""
    #: The training thread's phase since `since_ns`, the name of a `core.rows.Phase`; empty:
    #: unknown.
    doing: str = ""
    since_ns: Moment = 0

    @property
    def is_by_user(self) -> bool:
        """True where ctrl+c, or a stop from the screen, ended it."""
        return self.detail == "KeyboardInterrupt"


_EventT = TypeVar("_EventT", bound=Event)

#: The classes of events.
KINDS: Final = tuple(Event.__subclasses__())
if TYPE_CHECKING:
    AnyEvent: TypeAlias = Event
else:
    AnyEvent = Union[KINDS]  # noqa: UP007
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """Return the event as a line of events.jsonl, without the newline."""
    return encode_json(event)


def decode(line: str | bytes) -> Event | None:
    """Return the event of a line; None where it is torn, its kind unknown, or a field missing or
    out of bounds."""
    try:
        event = _DECODER.decode(line)
        if isinstance(event, ChangesKnob):
            check_value(event.knob, event.old)
            check_value(event.knob, event.new)
            check_value(event.knob, getattr(event, "now", event.new))
    except (ValueError, RecursionError):
        return None
    return event


def without_experiments(events: Iterable[_EventT]) -> list[_EventT]:
    """Return the events without the switches of experiments."""
    return [event for event in events if not is_of_experiment(event)]


def is_of_experiment(event: Event) -> bool:
    """Return whether an experiment asked for this switch."""
    return isinstance(event, SwitchAsked | PipelineSwitched) and event.by == EXPERIMENT
