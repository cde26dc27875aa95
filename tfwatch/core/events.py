"""The rare facts of a run, one frozen class each. `at_ns` counts from the run's clock origin.

When the loss was no finite number, one frozen class a fact. `at_ns` counts from the run's clock origin.

What the autopilot did, one frozen class a fact. `at_ns` counts from the run's clock origin.

What an experiment on a knob found, one frozen class a fact. `at_ns` counts from the run's clock origin.

The rare facts of a run, one frozen class each. `at_ns` counts from the run's clock origin.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tfwatch.core.knobs import KNOBS, ChangesKnob, KnobChange, as_value
from tfwatch.core.older_formats import translated
from tfwatch.core.validation import known_fields

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class LossDiverged:
    """The loss of `step` is `NaN` or `infinite`, which `loss` says; that of `finite_step` was the last finite one.

    finite_step: 0 where none was. Steps between the two are of the same call, or said no loss.
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


#: Who asked for the switches of a flight.
AUTOPILOT: Final = "autopilot"


@dataclass(frozen=True, slots=True)
class AutopilotBegan:
    """Somebody asked for the fastest setting. memory_bytes: what the buffers may take on top of what is used."""

    at_ns: int
    step: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class MoveMade(ChangesKnob):
    """The autopilot asked for a setting; undoes: it takes back the move before.

    forecast_ms: the step time expected of it, within low_ms to high_ms nine times of ten; None where none could be
    told. why: one sentence. beside: what is turned at the same time.
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
    """What a move gave: means of the steady steps before it and after it, `steps` of them after it.

    kept: the run goes on with it. reason: why not, or what else it was kept for; empty where what was measured says it
    beyond noise. beside: as in `MoveMade`.
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

    cause: `fed`, `floor`, `tried`, `user`, `over`, `budget` or `failed`; reason: the same in a sentence.
    before_ms, after_ms: mean step time as it began and ended; before_share, after_share: data wait in it, 0 to 1.
    None where too few steps were seen. knobs: what it leaves. peak_bytes: the most that the process took on top of
    what it had as the autopilot began.
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


#: Who asked for the switches of an experiment.
EXPERIMENT: Final = "experiment"
#: Why an experiment ends with its run: what it leaves was its last block's, and no answer.
WITH_THE_RUN: Final = ("stopped", "ended")


@dataclass(frozen=True, slots=True)
class ExperimentBegan:
    """Blocks of steps with one or another of `values` alternate from `step` on, in at most `budget` steps.

    knob, values: in words; the others are compared with the first value. seed: of the blocks' order.
    """

    at_ns: int
    knob: str
    values: list[str]
    step: int
    budget: int
    seed: int


@dataclass(frozen=True, slots=True)
class ExperimentBlock:
    """One block of an experiment is over.

    block, round: counted from 1; a round has one block of each value. first, last: its steps, from where it had
    settled. steps: of these, how many count; step_ms: their mean.
    best: what ratio, low and high are of, against the first value; the answer so far, as in `ExperimentEnded`.
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
    """An experiment is over, in the run's step `step`.

    cause: `clear`, `budget`, `cancelled`, `key` (somebody turned a knob), `stopped`, `ended` (the run) or `failed`.
    answer: `faster`, `slower`, `same` or `unclear`: what `value` is against `against`; ratio: step time of `against`
    over that of `value`, within low to high with 95 % confidence, None where it is not known.
    step_ms: mean step time by value. rounds, steps: that count, `steps` of all values together; spent: steps since its
    beginning. kept: what the knob was left at. reason: why it failed.
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
    """The data are there, `images` of them where their number is known; `skipped` could not be read."""

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
    """An epoch ended, its validation included. by_keras: it was one of Keras' `fit`."""

    at_ns: int
    epoch: int
    step: int
    metrics: dict[str, float]
    by_keras: bool = True


@dataclass(frozen=True, slots=True)
class ValidationEnded:
    """A validation ended that took `took_ms`."""

    at_ns: int
    epoch: int
    took_ms: float


@dataclass(frozen=True, slots=True)
class SwitchAsked(ChangesKnob):
    """Somebody asked for another setting of a knob; `by` is `key`, `command`, `code`, `experiment` or `autopilot`.

    `new` as `old`: what waited for an epoch to begin is taken back.
    """

    at_ns: int
    knob: str
    old: str
    new: str
    step: int
    by: str


@dataclass(frozen=True, slots=True)
class PipelineSwitched(ChangesKnob):
    """The first batch of the new pipeline arrived at `step`; building it took `took_ms`."""

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
    """A switch could not be made; the old pipeline goes on."""

    at_ns: int
    knob: str
    reason: str


@dataclass(frozen=True, slots=True)
class SwitchMissed(ChangesKnob):
    """The run ended before a switch was in effect that was ordered of `step`, or asked for there and had to wait."""

    at_ns: int
    knob: str
    old: str
    new: str
    step: int


@dataclass(frozen=True, slots=True)
class SensorMissing:
    """A sensor gives no figures: why, and how to get them."""

    at_ns: int
    sensor: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class GpuFound:
    """Whose GPU figures the samples hold from now on.

    source: the sensor, e.g. `nvml`, `powermetrics` or `ioreg`. memory_bytes: the GPU's own; with `unified` the
    machine's one pool, which the GPU shares. None is unknown. gpus: how many the machine has; the first is shown.
    """

    at_ns: int
    source: str
    name: str
    memory_bytes: int | None
    unified: bool
    gpus: int = 1


@dataclass(frozen=True, slots=True)
class StagesFound:
    """What the stages of the input pipeline are called in rows of `core.rows.STAGE` that hold this number.

    names: in the order of the code, as its author would name them, e.g. `map(decode)`. kinds: tf.data's own names of
    them, e.g. `ParallelMapV2`.
    """

    at_ns: int
    pipeline: int
    names: list[str]
    kinds: list[str]


@dataclass(frozen=True, slots=True)
class StallLocated:
    """Where a stall of several seconds stands; told once a stall.

    step: which waits. stage: the last in the order of the code that delivers nothing, since `since_ns`, while what
    stands before it could; empty: not known. place: the line of Python that runs there, e.g. `feed.py:41 in rows`;
    empty: none, or not known. thread: whose line it is, `training` or `generator`; empty without a line.
    """

    at_ns: int
    step: int
    stage: str
    since_ns: int
    place: str = ""
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Slept:
    """The machine was asleep for `slept_ms`, which no clock of the run counts."""

    at_ns: int
    slept_ms: float


@dataclass(frozen=True, slots=True)
class Paused:
    """Something held the training up for the `took_ms` before `at_ns`.

    cause: `checkpoint`, `callback` (`detail` is its class), `garbage collection`, `CPU contention`, `swap`,
    `thermal limit`, or `process stopped` (`detail` is what it did then: `in data wait`, `in compute`, `in host`).
    """

    at_ns: int
    cause: str
    took_ms: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordingLost:
    """Rows are kept in memory only from `step` on."""

    at_ns: int
    reason: str
    step: int


@dataclass(frozen=True, slots=True)
class RecordingResumed:
    """What was kept in memory is on disk again."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """tfwatch itself failed and measures no more; training goes on."""

    at_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A sentence worth telling. of_order: it says why an order to the pilot came to nothing."""

    at_ns: int
    text: str
    of_order: bool = False


@dataclass(frozen=True, slots=True)
class TrainingFailed:
    """Training raised; `traceback` is Python's own text."""

    at_ns: int
    step: int
    error: str
    traceback: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over; `cause` is `finished`, `stopped` or `failed`, after so many steps.

    final_loss: as Keras reports it for the last epoch, the mean over its steps; None where none was trained.
    weights_sha256: of the model's weights as they ended; empty where there is no model.
    doing: what the training thread did then since `since_ns`, the name of a `core.rows.Phase`; empty: nobody knows.
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

#: The longest cause, class or name that is worth sharing.
_WORD = 40
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in Event.__args__}


def encode(event: Event) -> str:
    """One line of events.jsonl, without its newline."""
    # Keras hands out metrics as numpy scalars.
    return json.dumps({"event": type(event).__name__, **asdict(event)}, default=float)


def decode(line: str | bytes) -> Event | None:
    """The event of a line; None where the line is torn, of an unknown kind, or a field is missing or wrong."""
    try:
        values = json.loads(line)
        name = values.pop("event")
        kind, values = _KINDS[name], translated(name, values)
        event: Event = kind(**{name: _shared(value) for name, value in known_fields(kind, values).items()})
        if isinstance(event, SwitchAsked | PipelineSwitched | SwitchMissed) and event.knob in KNOBS:
            for words in (event.old, event.new):
                as_value(event.knob, words)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return event


def _shared(value: Any) -> Any:
    """A word that many events hold is kept once."""
    return sys.intern(value) if type(value) is str and len(value) <= _WORD else value


def by_hand(events: Iterable[_E]) -> list[_E]:
    """The events without the switches that experiments made."""
    return [event for event in events if not of_experiment(event)]


def of_experiment(event: Event) -> bool:
    """Whether this is a switch that an experiment asked for."""
    return isinstance(event, SwitchAsked | PipelineSwitched) and event.by == EXPERIMENT
