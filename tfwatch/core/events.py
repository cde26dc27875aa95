"""The events of a run, one frozen class each, and their lines in events.jsonl.

`at_ns` counts from the run's clock origin.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tfwatch.core.knobs import KNOBS, ChangesKnob, KnobChange, as_value
from tfwatch.core.older_formats import translate_event
from tfwatch.core.validation import known_fields

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class LossDiverged:
    """The loss of `step` is not finite. loss: `NaN` or `infinite`.

    finite_step: the last step with a finite loss, 0 where there is none. The steps between the two belong to the same
    call, or reported no loss.
    """

    at_ns: int
    step: int
    loss: str
    finite_step: int


@dataclass(frozen=True, slots=True)
class LossRecovered:
    """The loss of `step` is finite again."""

    at_ns: int
    step: int


#: `by` of the switches that the autopilot asks for.
AUTOPILOT: Final = "autopilot"


@dataclass(frozen=True, slots=True)
class AutopilotBegan:
    """The autopilot began. memory_bytes: memory that its buffers may add to what is used now."""

    at_ns: int
    step: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class MoveMade(ChangesKnob):
    """The autopilot asked for a setting. undoes: this move takes back the previous one.

    forecast_ms: the forecast step time; low_ms, high_ms: its 90 % prediction interval; None without a forecast.
    why: one sentence. beside: other knobs that change at the same time.
    """

    at_ns: int
    step: int
    knob: str
    old: str
    new: str
    why: str
    forecast_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    undoes: bool = False
    beside: tuple[KnobChange, ...] = ()


@dataclass(frozen=True, slots=True)
class MoveJudged(ChangesKnob):
    """The measured effect of a move: mean step times before and after it, over `steps` steady steps after it.

    kept: the run continues with the new setting. reason: why it was kept or undone; empty where the measurement is a
    gain beyond noise. beside: as in `MoveMade`.
    """

    at_ns: int
    step: int
    knob: str
    old: str
    new: str
    before_ms: float
    after_ms: float | None
    steps: int
    kept: bool
    reason: str = ""
    forecast_ms: float | None = None
    beside: tuple[KnobChange, ...] = ()


@dataclass(frozen=True, slots=True)
class AutopilotEnded:
    """The autopilot ended after `steps` steps of the run.

    cause: `not_starving`, `compute_floor` (a step takes as long as the device needs), `nothing_left` (no candidate is
    left to try), `user`, `over` (the run), `budget` or `failed`; reason: the same in a sentence.
    before_ms, after_ms: mean step time at the beginning and at the end; before_share, after_share: data wait as a share
    of it, 0 to 1. None where too few steps were measured. knobs: the final settings. peak_bytes: the most memory that
    the process added since the autopilot began.
    """

    at_ns: int
    step: int
    cause: str
    reason: str
    steps: int
    before_ms: float | None = None
    after_ms: float | None = None
    before_share: float | None = None
    after_share: float | None = None
    peak_bytes: float | None = None
    knobs: dict[str, str] = field(default_factory=dict)


#: `by` of the switches that an experiment asks for.
EXPERIMENT: Final = "experiment"
#: Causes of an experiment that ended with its run: the final setting is that of its last block, and no answer.
WITH_THE_RUN: Final = ("stopped", "ended")


@dataclass(frozen=True, slots=True)
class ExperimentBegan:
    """An A/B test began: blocks of steps alternate between `values` from `step` on, in at most `budget` steps.

    knob, values: as text; the other values are compared with the first. seed: of the random order of the blocks.
    """

    at_ns: int
    knob: str
    values: list[str]
    step: int
    budget: int
    seed: int


@dataclass(frozen=True, slots=True)
class ExperimentBlock:
    """One block of an experiment ended.

    block, round: counted from 1; a round has one block of each value. first, last: its steps after settling. steps: the
    number of them that count; step_ms: their mean.
    best: the value that ratio, low and high compare with the first one: the answer so far, as in `ExperimentEnded`.
    """

    at_ns: int
    block: int
    round: int
    value: str
    first: int
    last: int
    steps: int
    step_ms: float
    best: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ExperimentEnded:
    """An experiment ended at the run's step `step`.

    cause: `clear`, `budget`, `cancelled`, `key` (the user switched a knob), `stopped`, `ended` (the run) or `failed`.
    answer: `faster`, `slower`, `same` or `unclear`: `value` compared with `against`. ratio: step time of `against` over
    that of `value`; low, high: its 95 % confidence interval; None where it is unknown.
    step_ms: mean step time by value. rounds, steps: the ones that count, `steps` of all values together; spent: steps
    since the experiment began. kept: the knob's final value. reason: why it failed.
    """

    at_ns: int
    knob: str
    values: list[str]
    began: int
    step: int
    cause: str
    answer: str
    value: str
    against: str
    rounds: int
    steps: int
    spent: int
    kept: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    step_ms: dict[str, float] = field(default_factory=dict)
    reason: str = ""


_E = TypeVar("_E", bound="Event")


@dataclass(frozen=True, slots=True)
class ImportEnded:
    """TensorFlow was imported."""

    at_ns: int
    took_ms: float
    tensorflow: str


@dataclass(frozen=True, slots=True)
class DatasetReady:
    """The data set is ready. images: None where their number is unknown. skipped: files that could not be read."""

    at_ns: int
    images: int | None
    skipped: int
    took_ms: float
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EpochStarted:
    """An epoch (counted from 0) began; `steps` is None where the number of batches is unknown."""

    at_ns: int
    epoch: int
    epochs: int
    steps: int | None


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch ended, its validation included. by_keras: it was an epoch of Keras' `fit`."""

    at_ns: int
    epoch: int
    step: int
    metrics: dict[str, float]
    by_keras: bool = True


@dataclass(frozen=True, slots=True)
class ValidationEnded:
    """A validation ended."""

    at_ns: int
    epoch: int
    took_ms: float


@dataclass(frozen=True, slots=True)
class SwitchAsked(ChangesKnob):
    """A switch was requested; `by` is `key`, `command`, `code`, `experiment` or `autopilot`.

    Where `new` equals `old`, a switch that waited for an epoch to begin is cancelled.
    """

    at_ns: int
    knob: str
    old: str
    new: str
    step: int
    by: str


@dataclass(frozen=True, slots=True)
class PipelineSwitched(ChangesKnob):
    """The first batch of the new pipeline arrived at `step`. took_ms: time to build that pipeline."""

    at_ns: int
    knob: str
    old: str
    new: str
    asked_step: int
    step: int
    took_ms: float
    by: str


@dataclass(frozen=True, slots=True)
class SwitchFailed:
    """A switch failed; the old pipeline continues."""

    at_ns: int
    knob: str
    reason: str


@dataclass(frozen=True, slots=True)
class SwitchMissed(ChangesKnob):
    """The run ended before a switch was in effect. step: the step it was planned for, or requested at."""

    at_ns: int
    knob: str
    old: str
    new: str
    step: int


@dataclass(frozen=True, slots=True)
class SensorMissing:
    """A sensor has no figures. reason: why. fix: how to get them."""

    at_ns: int
    sensor: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class GpuFound:
    """The GPU whose figures the samples hold from now on.

    source: the sensor, e.g. `nvml`, `powermetrics` or `ioreg`. memory_bytes: the GPU's own memory, or with
    `unified` the machine's memory, which the GPU shares; None: unknown. gpus: GPUs of the machine; the first is shown.
    """

    at_ns: int
    source: str
    name: str
    memory_bytes: int | None
    unified: bool
    gpus: int = 1


@dataclass(frozen=True, slots=True)
class StagesFound:
    """The names of the input pipeline's stages. pipeline: its number in rows of `core.rows.STAGE`.

    names: in the order of the code, in the words of its author, e.g. `map(decode)`. kinds: tf.data's own names, e.g.
    `ParallelMapV2`.
    """

    at_ns: int
    pipeline: int
    names: list[str]
    kinds: list[str]


@dataclass(frozen=True, slots=True)
class StallLocated:
    """The place in the input pipeline that a stall of several seconds waits for; one event per stall.

    step: the waiting step. stage: the last stage, in the order of the code, that delivers nothing since `since_ns`
    although the stages before it could; empty: unknown. place: the line of Python that runs there, e.g.
    `feed.py:41 in rows`; empty: none, or unknown. thread: the thread of that line, `training` or `generator`; empty
    without a line.
    """

    at_ns: int
    step: int
    stage: str
    since_ns: int
    place: str = ""
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Slept:
    """The machine was asleep for `slept_ms`; no clock of the run counts that time."""

    at_ns: int
    slept_ms: float


@dataclass(frozen=True, slots=True)
class Paused:
    """The training was held up for the `took_ms` before `at_ns`.

    cause: `checkpoint`, `callback` (`detail` is its class), `garbage collection`, `CPU contention`, `swap`,
    `thermal limit`, or `process stopped` (`detail` is the part of the step: `in data wait`, `in compute`, `in host`).
    """

    at_ns: int
    cause: str
    took_ms: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordingLost:
    """The disk takes no more rows: from `step` on they are kept in memory only."""

    at_ns: int
    reason: str
    step: int


@dataclass(frozen=True, slots=True)
class RecordingResumed:
    """The rows kept in memory are on disk again."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """tfwatch itself failed and stopped measuring; training continues."""

    at_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A note for the user. is_refusal: it gives the reason why the tuner did not carry out a request."""

    at_ns: int
    text: str
    is_refusal: bool = False


@dataclass(frozen=True, slots=True)
class TrainingFailed:
    """Training raised an exception; `traceback` is Python's own text."""

    at_ns: int
    step: int
    error: str
    traceback: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run ended after `steps` steps; `cause` is `finished`, `stopped` or `failed`.

    final_loss: as Keras reports it for the last epoch, the mean over its steps; None where no epoch was trained.
    weights_sha256: of the model's final weights; empty where there is no model.
    doing: the training thread's phase since `since_ns`, the name of a `core.rows.Phase`; empty: unknown.
    """

    at_ns: int
    cause: str
    steps: int
    detail: str = ""
    final_loss: float | None = None
    weights_sha256: str = ""
    doing: str = ""
    since_ns: int = 0


Event: TypeAlias = (
    ImportEnded
    | DatasetReady
    | EpochStarted
    | EpochEnded
    | ValidationEnded
    | SwitchAsked
    | PipelineSwitched
    | SwitchFailed
    | SwitchMissed
    | SensorMissing
    | GpuFound
    | StagesFound
    | StallLocated
    | Slept
    | Paused
    | RecordingLost
    | RecordingResumed
    | WatchFailed
    | Noted
    | LossDiverged
    | LossRecovered
    | ExperimentBegan
    | ExperimentBlock
    | ExperimentEnded
    | AutopilotBegan
    | MoveMade
    | MoveJudged
    | AutopilotEnded
    | TrainingFailed
    | RunEnded
)

#: Strings up to this length (causes, classes, names) are interned.
_INTERNED_CHARACTERS = 40
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in Event.__args__}


def encode(event: Event) -> str:
    """Return the event as a line of events.jsonl, without the newline."""
    # Keras returns metrics as numpy scalars.
    return json.dumps({"event": type(event).__name__, **asdict(event)}, default=float)


def decode(line: str | bytes) -> Event | None:
    """Return the event of a line; None where the line is torn, its kind unknown, or a field missing or wrong."""
    try:
        values = json.loads(line)
        name = values.pop("event")
        kind, values = _KINDS[name], translate_event(name, values)
        event: Event = kind(**{name: _interned(value) for name, value in known_fields(kind, values).items()})
        if isinstance(event, SwitchAsked | PipelineSwitched | SwitchMissed) and event.knob in KNOBS:
            for words in (event.old, event.new):
                as_value(event.knob, words)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return event


def _interned(value: Any) -> Any:
    return sys.intern(value) if type(value) is str and len(value) <= _INTERNED_CHARACTERS else value


def without_experiments(events: Iterable[_E]) -> list[_E]:
    """Return the events without the switches of experiments."""
    return [event for event in events if not is_of_experiment(event)]


def is_of_experiment(event: Event) -> bool:
    """Return whether an experiment asked for this switch."""
    return isinstance(event, SwitchAsked | PipelineSwitched) and event.by == EXPERIMENT
