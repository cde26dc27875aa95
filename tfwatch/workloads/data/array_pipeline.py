"""The pipeline of a workload whose examples have numbers: the usual form and the fast one.

`pick` makes an example from a number, and a batch of examples from a batch of numbers, with the same code.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import work_ahead
from tfwatch.workloads.data import arrays, numbered_examples
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import tensorflow as tf

    Pick: TypeAlias = Callable[[tf.Tensor], Any]


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples by number: the training ones are below `count`, the held-out ones from there on."""

    pick: Pick
    count: int
    held_out: int


def prepared(settings: Settings, examples: Examples, model: Callable[[], keras.Model], metric: str) -> Prepared:
    """Prepare a workload over examples that have numbers."""
    from tfwatch.tfdata.shuffle import Shuffle

    shuffle = Shuffle(examples.count, numbered_examples.seed_of(settings))
    return Prepared(
        source=numbered_examples.source(shuffle, settings.batch_size),
        pipeline=functools.partial(pipeline, pick=examples.pick, batch_size=settings.batch_size),
        validation=_validation(examples, settings.batch_size),
        model=model,
        steps_per_epoch=numbered_examples.steps_per_epoch(examples.count, settings.batch_size),
        images=examples.count,
        metric=metric,
        shuffle=shuffle,
        movable_source=functools.partial(numbered_examples.movable_source, examples.count, settings.batch_size),
    )


def pipeline(numbers: tf.data.Dataset, knobs: Knobs, *, pick: Pick, batch_size: int) -> tf.data.Dataset:
    """Return batches of examples from batches of numbers."""
    batches = fast(numbers, pick, knobs) if knobs.fast_pipeline else slow(numbers, pick, knobs, batch_size)
    return numbered_examples.finished(batches, knobs)


def slow(numbers: tf.data.Dataset, pick: Pick, knobs: Knobs, batch_size: int) -> tf.data.Dataset:
    """Return the usual pipeline: one example after another, then batch."""
    return (
        numbers.unbatch().map(pick, num_parallel_calls=work_ahead.num_parallel_calls(knobs.workers)).batch(batch_size)
    )


def fast(numbers: tf.data.Dataset, pick: Pick, knobs: Knobs) -> tf.data.Dataset:
    """Return the fast pipeline: one call of the map for a whole batch."""
    return numbers.map(pick, num_parallel_calls=work_ahead.num_parallel_calls(knobs.workers))


def from_arrays(data: arrays.Arrays, shape: tuple[int, ...]) -> Examples:
    """Return images of `shape`, 0 to 1, and their classes."""
    import numpy as np
    import tensorflow as tf

    with tf.device("/CPU:0"):  # tf.data works in host memory
        images = tf.constant(np.concatenate([data.images, data.held_images]).reshape(-1, *shape))
        labels = tf.constant(np.concatenate([data.labels, data.held_labels]))

    def pick(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.cast(tf.gather(images, numbers), tf.float32) / 255.0, tf.gather(labels, numbers)

    return Examples(pick, len(data.labels), len(data.held_labels))


def _validation(examples: Examples, batch_size: int) -> tf.data.Dataset:
    numbers = numbered_examples.in_order(examples.held_out, batch_size).map(lambda batch: batch + examples.count)
    return fast(numbers, examples.pick, Knobs()).prefetch(2).with_options(work_ahead.without_autotune())
