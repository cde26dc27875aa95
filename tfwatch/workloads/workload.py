"""A workload: its entry in the list, its settings, and the data and model that it prepares for a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tfwatch.core.knobs import PY_DATASET_ONLY

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
    """A workload in the list, described before it is loaded.

    line: its description. defaults: its own values of some `Settings`. takes: its settings that other workloads lack.
    fast: the name of its fast pipeline, which the knob of that name selects; empty without one. reads_files: it reads
    files while it trains, so that slow storage matters. why_not: for settings that must keep their defaults, the
    reason. cached: the content of its cache, e.g. `decoded images`; empty without a cache.
    """

    line: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    takes: frozenset[str] = frozenset()
    fast: str = ""
    reads_files: bool = False
    why_not: Mapping[str, str] = field(default_factory=dict)
    cached: str = ""

    def has(self, knob: str) -> bool:
        """Return True where its pipeline has this knob of `core.knobs.KNOBS`; the device decides on one to it."""
        optional = {
            "fast_pipeline": bool(self.fast),
            "cache": bool(self.cached),
            **dict.fromkeys(("device_prefetch", *PY_DATASET_ONLY), False),
        }
        return optional.get(knob, True)


#: Keras' names.
OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "lion")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that are fixed at the start of a run.

    steps: the run ends after these steps, or after `epochs` where it is None; an execution of several steps is
    completed. data: a folder of classes; None is the synthetic image set. weights: those that a pretrained network
    starts with; `none` is random ones. size: a matrix' number of rows and columns. device: `auto` is TensorFlow's
    choice. mode: op by op, as a graph, or compiled by XLA. mixed_precision: compute in float16, weights in float32.
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


@dataclass(frozen=True)
class Prepared:
    """A workload ready to train.

    source: batches of small values (paths, labels, numbers) in training order. It is iterated once an epoch and
        reshuffles itself.
    pipeline: turns the source's batches into the model's input under given knobs. It may be built several times in
        an epoch and sees each batch of the source once; ragged last batches keep their size.
    validation: None, or a data set of the model's input.
    model: makes the compiled model. It is called once, in the training thread.
    steps_per_epoch, images: numbers of an epoch. metric: the name of the metric to show, e.g. `accuracy`.
    shuffle: the source's.
    skipped: files that cannot be read. examples: some of their names. note: a sentence on the data, e.g. that it is
        generated; empty without one.
    loop: makes the body of the custom loop that trains the model; None where `fit` trains it.
    store: the cache that `pipeline` uses with the `cache` knob; None without one.
    """

    source: tf.data.Dataset
    pipeline: Callable[[tf.data.Dataset, Knobs], tf.data.Dataset]
    validation: tf.data.Dataset | None
    model: Callable[[], keras.Model]
    steps_per_epoch: int
    images: int
    metric: str
    shuffle: Shuffle
    skipped: int = 0
    examples: Sequence[str] = ()
    note: str = ""
    loop: Callable[[keras.Model], LoopBody] | None = None
    store: ExampleStore | None = None


class LoopBody(Protocol):
    """The body of a custom loop over the batches of the pipeline."""

    def train(self, batch: Any) -> Mapping[str, Any]:
        """Train one step; return the loss and the metrics, each the mean over the batch."""

    def validate(self, batch: Any) -> Mapping[str, Any]:
        """Return the same figures without a training step."""


class Workload(Protocol):
    """The functions of a workload's module."""

    def check(self, settings: Settings) -> None:
        """Check the settings without TensorFlow, before anything starts.

        Raises:
            BadInputError: they cannot be used.
        """

    def prepare(self, settings: Settings, report: Callable[[str], None]) -> Prepared:
        """Make or list the data; `report` gets progress texts.

        Raises:
            BadInputError: the data cannot be used.
        """
