"""The events of a run, one frozen class each, and their lines in events.jsonl.

`at_ns` counts from the run's clock origin. A field's type carries its bounds (`decoding/bounds.py`). `decode` skips an
event that is out of them: its readers need no check.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tfwatch.core.knobs import ChangesKnob, KnobChange, as_value
from tfwatch.core.older_formats import translate_event
from tfwatch.core.validation import (
    Answer,
    AutopilotCause,
    ByteCounts,
    Bytes,
    Change,
    Count,
    ExperimentCause,
    Knob,
    MeanBytes,
    Milliseconds,
    Moment,
    Names,
    NotFinite,
    Ratio,
    Seed,
    Sha256,
    Share,
    SleepMilliseconds,
    StepTimes,
    Whole,
    known_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class LossDiverged:
    """The loss of `step` is not finite. loss: `NaN` or `infinite`.

    finite_step: the last step with a finite loss, 0 where there is none. The steps between the two belong to the same
    call, or reported no loss.
    """

    at_ns: Moment
    step: Count
    loss: NotFinite
    finite_step: Count


@dataclass(frozen=True, slots=True)
class LossRecovered:
    """The loss of `step` is finite again."""

    at_ns: Moment
    step: Count


#: `by` of the switches that the autopilot asks for.
AUTOPILOT: Final = "autopilot"


@dataclass(frozen=True, slots=True)
class AutopilotBegan:
    """The autopilot began. memory_bytes: memory that its buffers may add to what is used now."""

    at_ns: Moment
    step: Count
    memory_bytes: MeanBytes


@dataclass(frozen=True, slots=True)
class MoveMade(ChangesKnob):
    """The autopilot asked for a setting. undoes: this move takes back the previous one.

    forecast_ms: the forecast step time; low_ms, high_ms: its 90 % prediction interval; None without a forecast.
    why: one sentence. beside: other knobs that change at the same time.
    """

    at_ns: Moment
    step: Count
    knob: Knob
    old: str
    new: str
    why: str
    forecast_ms: Milliseconds | None = None
    low_ms: Milliseconds | None = None
    high_ms: Milliseconds | None = None
    undoes: bool = False
    beside: tuple[KnobChange, ...] = ()


@dataclass(frozen=True, slots=True)
class MoveJudged(ChangesKnob):
    """The measured effect of a move: mean step times before and after it, over `steps` steady steps after it.

    kept: the run continues with the new setting. reason: why it was kept or undone; empty where the measurement is a
    gain beyond noise. beside: as in `MoveMade`.
    """

    at_ns: Moment
    step: Count
    knob: Knob
    old: str
    new: str
    before_ms: Milliseconds
    after_ms: Milliseconds | None
    steps: Count
    kept: bool
    reason: str = ""
    forecast_ms: Milliseconds | None = None
    beside: tuple[KnobChange, ...] = ()


@dataclass(frozen=True, slots=True)
class AutopilotEnded:
    """The autopilot ended after `steps` steps of the run, without those during a proof.

    cause: `not_starving`, `compute_floor` (a step takes as long as the device needs), `nothing_left` (no candidate is
    left to try), `user`, `over` (the run), `budget` or `failed`; reason: the same in a sentence.
    before_ms, after_ms: mean step time at the beginning and at the end; before_share, after_share: data wait as a share
    of it, 0 to 1. None where too few steps were measured. knobs: the final settings. peak_bytes: the most memory that
    the process added since the autopilot began. ratio: the typical step before over that after; low, high: its 95 %
    interval; None where no move was kept. compute_drift: as of a switch, see `before_after.Effect`.
    """

    at_ns: Moment
    step: Count
    cause: AutopilotCause
    reason: str
    steps: Count
    before_ms: Milliseconds | None = None
    after_ms: Milliseconds | None = None
    before_share: Share | None = None
    after_share: Share | None = None
    peak_bytes: MeanBytes | None = None
    knobs: dict[str, str] = field(default_factory=dict)
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None
    compute_drift: Change | None = None


#: `by` of the switches that an experiment asks for.
EXPERIMENT: Final = "experiment"
#: Causes of an experiment that ended with its run: the final setting is that of its last block, and no answer.
WITH_THE_RUN: Final = ("stopped", "ended")


@dataclass(frozen=True, slots=True)
class ExperimentBegan:
    """An A/B test began: blocks of steps alternate between `values` from `step` on, in at most `budget` steps.

    knob, values: as text; the other values are compared with the first. seed: of the random order of the blocks.
    """

    at_ns: Moment
    knob: Knob
    values: Names
    step: Count
    budget: Count
    seed: Seed


@dataclass(frozen=True, slots=True)
class ExperimentBlock:
    """One block of an experiment ended.

    block, round: counted from 1; a round has one block of each value. first, last: its steps after settling. steps: the
    number of them that count; step_ms: their mean.
    best: the value that ratio, low and high compare with the first one: the answer so far, as in `ExperimentEnded`.
    """

    at_ns: Moment
    block: Count
    round: Count
    value: str
    first: Count
    last: Count
    steps: Count
    step_ms: Milliseconds
    best: str
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None


@dataclass(frozen=True, slots=True)
class ExperimentEnded:
    """An experiment ended at the run's step `step`.

    cause: `clear`, `budget`, `cancelled`, `key` (the user switched a knob), `stopped`, `ended` (the run) or `failed`.
    answer: `faster`, `slower`, `same` or `unclear`: `value` compared with `against`. ratio: step time of `against` over
    that of `value`; low, high: its 95 % confidence interval; None where it is unknown.
    step_ms: mean step time by value. rounds, steps: the ones that count, `steps` of all values together; spent: steps
    since the experiment began. kept: the knob's final value. reason: why it failed.
    """

    at_ns: Moment
    knob: Knob
    values: Names
    began: Count
    step: Count
    cause: ExperimentCause
    answer: Answer
    value: str
    against: str
    rounds: Count
    steps: Count
    spent: Count
    kept: str
    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None
    step_ms: StepTimes = field(default_factory=dict)
    reason: str = ""


_E = TypeVar("_E", bound="Event")


@dataclass(frozen=True, slots=True)
class ImportEnded:
    """TensorFlow was imported."""

    at_ns: Moment
    took_ms: Milliseconds
    tensorflow: str


@dataclass(frozen=True, slots=True)
class DatasetReady:
    """The data set is ready. images: None where their number is unknown. skipped: files that could not be read."""

    at_ns: Moment
    images: Whole | None
    skipped: Count
    took_ms: Milliseconds
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EpochStarted:
    """An epoch (counted from 0) began; `steps` is None where the number of batches is unknown.

    fit: the number of its `fit` in a run that several share, counted from 1; epochs are counted on.
    """

    at_ns: Moment
    epoch: Count
    epochs: Count
    steps: Count | None
    fit: Count = 1


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch ended, its validation included. by_keras: it was an epoch of Keras' `fit`."""

    at_ns: Moment
    epoch: Count
    step: Count
    metrics: dict[str, float]
    by_keras: bool = True


@dataclass(frozen=True, slots=True)
class ValidationEnded:
    """A validation ended."""

    at_ns: Moment
    epoch: Count
    took_ms: Milliseconds


@dataclass(frozen=True, slots=True)
class OthersTrained:
    """Other loops and fits trained for `took_ms` between two epochs, in the thread that trains this run."""

    at_ns: Moment
    took_ms: Milliseconds


@dataclass(frozen=True, slots=True)
class SwitchAsked(ChangesKnob):
    """A switch was requested; `by` is `key`, `command`, `code`, `experiment` or `autopilot`.

    Where `new` equals `old`, a switch that waited for an epoch to begin is cancelled. epochs: the number that begin
    before it is in effect.
    """

    at_ns: Moment
    knob: Knob
    old: str
    new: str
    step: Count
    by: str
    epochs: Count = 0


@dataclass(frozen=True, slots=True)
class PipelineSwitched(ChangesKnob):
    """The first batch of the new pipeline arrived at `step`. took_ms: time to build that pipeline."""

    at_ns: Moment
    knob: Knob
    old: str
    new: str
    asked_step: Count
    step: Count
    took_ms: Milliseconds
    by: str


@dataclass(frozen=True, slots=True)
class SwitchFailed(ChangesKnob):
    """A switch was refused or failed, requested after `step` steps. now: the setting in effect since.

    old, new, now: empty in runs of earlier versions.
    """

    at_ns: Moment
    knob: str
    reason: str
    old: str = ""
    new: str = ""
    step: Count = 0
    now: str = ""


@dataclass(frozen=True, slots=True)
class SwitchMissed(ChangesKnob):
    """The run ended before a switch was in effect. step: the step it was planned for, or requested at."""

    at_ns: Moment
    knob: Knob
    old: str
    new: str
    step: Count


@dataclass(frozen=True, slots=True)
class SensorMissing:
    """A sensor has no figures. reason: why. fix: how to get them."""

    at_ns: Moment
    sensor: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class GpusFound:
    """The GPUs of a distribution strategy, whose figures gpus.bin holds.

    names: by device, e.g. `GPU:0`, in the order of the file's `gpu`; empty where the sensor does not find one.
    memory_bytes: of each; unknown ones are missing.
    """

    at_ns: Moment
    names: dict[str, str]
    memory_bytes: ByteCounts


@dataclass(frozen=True, slots=True)
class FeedFound:
    """The tf.data service that feeds the run, whose figures feed.bin holds.

    dispatcher: its HOST:PORT. workers: theirs, in the order of the file's `worker`. missing: by column, why all or some
    of its figures are unknown.
    """

    at_ns: Moment
    dispatcher: str
    workers: list[str]
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuFound:
    """The GPU whose figures the samples hold from now on.

    source: the sensor, e.g. `nvml`, `powermetrics` or `ioreg`. memory_bytes: the GPU's own memory, or with
    `unified` the machine's memory, which the GPU shares; None: unknown. gpus: GPUs of the machine; the first is shown.
    """

    at_ns: Moment
    source: str
    name: str
    memory_bytes: Bytes | None
    unified: bool
    gpus: Count = 1


@dataclass(frozen=True, slots=True)
class StagesFound:
    """The names of the input pipeline's stages. pipeline: its number in rows of `core.rows.STAGE`.

    names: in the order of the code, in the words of its author, e.g. `map(decode)`. kinds: tf.data's own names, e.g.
    `ParallelMapV2`.
    """

    at_ns: Moment
    pipeline: Count
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

    at_ns: Moment
    step: Count
    stage: str
    since_ns: Moment
    place: str = ""
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Slept:
    """The machine was asleep for `slept_ms`; no clock of the run counts that time."""

    at_ns: Moment
    slept_ms: SleepMilliseconds


@dataclass(frozen=True, slots=True)
class Paused:
    """The training was held up for the `took_ms` before `at_ns`.

    cause: `checkpoint`, `callback` (`detail` is its class), `garbage collection`, `CPU contention`, `swap`,
    `thermal limit`, or `process stopped` (`detail` is the part of the step: `in data wait`, `in compute`, `in host`).
    """

    at_ns: Moment
    cause: str
    took_ms: Milliseconds
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordingLost:
    """The disk takes no more rows: from `step` on they are kept in memory only."""

    at_ns: Moment
    reason: str
    step: Count


@dataclass(frozen=True, slots=True)
class RecordingResumed:
    """The rows kept in memory are on disk again."""

    at_ns: Moment


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """tfwatch itself failed and stopped measuring; training continues."""

    at_ns: Moment
    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A note for the user. is_refusal: it gives the reason why the tuner did not carry out a request."""

    at_ns: Moment
    text: str
    is_refusal: bool = False


@dataclass(frozen=True, slots=True)
class TrainingFailed:
    """Training raised an exception; `traceback` is Python's own text."""

    at_ns: Moment
    step: Count
    error: str
    traceback: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run ended after `steps` steps; `cause` is `finished`, `stopped` or `failed`.

    final_loss: as Keras reports it for the last epoch, the mean over its steps; None where no epoch was trained.
    weights_sha256: of the model's final weights; empty where there is no model.
    doing: the training thread's phase since `since_ns`, the name of a `core.rows.Phase`; empty: unknown.
    """

    at_ns: Moment
    cause: str
    steps: Count
    detail: str = ""
    final_loss: float | None = None
    weights_sha256: Sha256 = ""
    doing: str = ""
    since_ns: Moment = 0


Event: TypeAlias = (
    ImportEnded
    | DatasetReady
    | EpochStarted
    | EpochEnded
    | ValidationEnded
    | OthersTrained
    | SwitchAsked
    | PipelineSwitched
    | SwitchFailed
    | SwitchMissed
    | SensorMissing
    | GpuFound
    | GpusFound
    | FeedFound
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

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in Event.__args__}


def encode(event: Event) -> str:
    """Return the event as a line of events.jsonl, without the newline."""
    # Keras returns metrics as numpy scalars.
    return json.dumps({"event": type(event).__name__, **asdict(event)}, default=float)


def decode(line: str | bytes) -> Event | None:
    """Return the event of a line; None where it is torn, its kind unknown, or a field missing or out of bounds."""
    try:
        values = json.loads(line)
        name = values.pop("event")
        kind, values = _KINDS[name], translate_event(name, values)
        event: Event = kind(**known_fields(kind, values))
        if isinstance(event, ChangesKnob):
            for text in _settings_of(event):
                as_value(event.knob, text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return event


def _settings_of(event: ChangesKnob) -> tuple[str, ...]:
    if isinstance(event, SwitchFailed):
        return (event.old, event.new, event.now) if event.new else ()
    return event.old, event.new


def without_experiments(events: Iterable[_E]) -> list[_E]:
    """Return the events without the switches of experiments."""
    return [event for event in events if not is_of_experiment(event)]


def is_of_experiment(event: Event) -> bool:
    """Return whether an experiment asked for this switch."""
    return isinstance(event, SwitchAsked | PipelineSwitched) and event.by == EXPERIMENT
