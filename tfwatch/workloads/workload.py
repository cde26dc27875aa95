"""What a workload is: its entry in the list, its settings, and what it prepares for a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tfwatch.core.errors import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import keras
    import tensorflow as tf

    from tfwatch.core.knobs import Knobs
    from tfwatch.tfdata.cache import ExampleStore
    from tfwatch.tfdata.shuffle import Shuffle


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a workload before it is loaded.

    line: what it shows. defaults: of those `Settings` that are its own.
    takes: settings that only some workloads know. fast: what the fast pipeline of its pipeline is called, with the
    `fast_form` knob; empty where it has one form alone. reads_files: while it trains, so that storage can be slow.
    only: the settings that it takes, where it takes few. why_not: the reason, of some that cannot be other than they
    are by default.
    built_once: its pipeline stays as it is, and only prefetch is added to it while it trains. cached: what a cache
    keeps of each example, e.g. `decoded images`; empty where it would keep nothing that costs. shuffles: its source
    shuffles with the buffer of the `shuffle` knob.
    """

    line: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    takes: frozenset[str] = frozenset()
    fast: str = ""
    reads_files: bool = False
    only: frozenset[str] | None = None
    why_not: Mapping[str, str] = field(default_factory=dict)
    is_built_once: bool = False
    cached: str = ""
    shuffles: bool = True

    def has(self, knob: str) -> bool:
        """Whether its pipeline has this one of `core.knobs.KNOBS`."""
        having = {"fast_form": bool(self.fast), "cache": bool(self.cached), "shuffle": self.shuffles}
        return having.get(knob, True)


#: As Keras names them.
OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "lion")


@dataclass(frozen=True, slots=True)
class Settings:
    """What is fixed at a run's start. `data` is a folder of classes; None is the made image set. `weights` are those
    that a known network starts with; with `none` it starts at random. `size` is a matrix' number of rows and columns.

    `steps` ends the run after so many steps; where it is None `epochs` does. A call of several is not cut short.

    device: `auto` is TensorFlow's own choice. mode: how a step runs, op by op, as a graph, or compiled by XLA.
    mixed_precision: compute in float16 and keep the weights in float32. steps_per_execution: steps of one call.
    optimizer: one of `OPTIMIZERS`; None is Adam. learning_rate: None is the workload's own for Adam, else Keras'.
    """

    batch_size: int = 32
    image_size: int = 64
    epochs: int = 20
    steps: int | None = None
    seed: int | None = None
    data: Path | None = None
    weights: Literal["imagenet", "none"] = "imagenet"
    size: int = 2048
    device: Literal["auto", "cpu", "gpu"] = "auto"
    mode: Literal["graph", "eager", "jit"] = "graph"
    mixed_precision: bool = False
    steps_per_execution: int = 1
    optimizer: str | None = None
    learning_rate: float | None = None


class BadInputError(ValueError):
    """The user's input cannot be used; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class RaisedError:
    """An error that ended a training.

    in_fetch: it was raised while a batch was fetched. shape: of the input of the step that raised it; None where it was
    no step, or the input is no one tensor.
    """

    error: BaseException
    in_fetch: bool = False
    shape: tuple[int, ...] | None = None


def describe_error(raised: RaisedError) -> str:
    """The error alone."""
    return reason(raised.error)


@dataclass(frozen=True)
class Prepared:
    """A workload ready to train.

    source: batches of small things (paths, labels, element numbers) in training order; the feed takes each
        once and in order. It is iterated once an epoch and reshuffles by itself.
    pipeline: what turns the source's batches into the model's input under given knobs. It may be built several
        times in an epoch and sees each batch of the source once; ragged last batches keep their size.
    validation: None, or a dataset of the model's input.
    model: makes the compiled model. Called once, in the thread that trains.
    steps_per_epoch: None where nobody knows.
    images: how many images an epoch holds; None where nobody knows. metric: the name of the metric to show, e.g.
        `accuracy`; empty is the model's first. explain: says in a sentence what was raised while it trained.
    skipped: files that could not be read. examples: some of their names. note: a sentence on the data, e.g. that it
    is generated; empty where there is nothing to say.
    loop: makes the body of the loop that trains the model; None where `fit` does.
    shuffle: the source's; None where its buffer cannot be another. store: the cache that `pipeline` reads where the
    knobs say so; None where it has none.
    """

    source: tf.data.Dataset
    pipeline: Callable[[tf.data.Dataset, Knobs], tf.data.Dataset]
    validation: tf.data.Dataset | None
    model: Callable[[], keras.Model]
    steps_per_epoch: int | None
    images: int | None
    metric: str
    skipped: int = 0
    examples: Sequence[str] = ()
    note: str = ""
    loop: Callable[[keras.Model], LoopBody] | None = None
    shuffle: Shuffle | None = None
    store: ExampleStore | None = None
    explain: Callable[[RaisedError], str] = describe_error


class LoopBody(Protocol):
    """What a loop written by hand does with a batch of the pipeline."""

    def train(self, batch: Any) -> Mapping[str, Any]:
        """One step on it; returns the loss and the metrics, each the mean over the batch."""

    def validate(self, batch: Any) -> Mapping[str, Any]:
        """The same figures, and no step."""


class Workload(Protocol):
    """What a workload's module offers."""

    def check(self, settings: Settings) -> None:
        """Look at the settings without TensorFlow, before anything starts.

        Raises:
            BadInputError: they cannot be used.
        """

    def prepare(self, settings: Settings, report: Callable[[str], None]) -> Prepared:
        """Make or list the data; `say` tells progress in words, often.

        Raises:
            BadInputError: the data cannot be used.
        """
