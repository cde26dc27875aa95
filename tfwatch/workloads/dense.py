"""Dense layers on MNIST: the step is so short that the way in which a batch is put together decides."""

from __future__ import annotations

import functools
import secrets
from typing import TYPE_CHECKING, Any

from tfwatch.core.knobs import Knobs
from tfwatch.training import hands
from tfwatch.workloads import Prepared, Settings, arrays, indexed

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import tensorflow as tf


def check(settings: Settings) -> None:
    """Nothing here can be asked wrongly."""


def prepare(settings: Settings, say: Callable[[str], None]) -> Prepared:
    """Load MNIST, or generate its like."""
    import tensorflow as tf

    data = arrays.mnist(say)
    with tf.device("/CPU:0"):  # tf.data works in host memory
        images, labels = tf.constant(data.images), tf.constant(data.labels)
    count = len(data.labels)
    return Prepared(
        source=indexed.source(count, settings.batch_size, _seed(settings)),
        pipeline=functools.partial(pipeline, images=images, labels=labels, batch_size=settings.batch_size),
        validation=_validation(data, settings),
        model=functools.partial(_model, settings),
        steps_per_epoch=indexed.steps_per_epoch(count, settings.batch_size),
        images=count,
        metric="accuracy",
        note=data.note,
    )


def pipeline(
    numbers: tf.data.Dataset, knobs: Knobs, *, images: tf.Tensor, labels: tf.Tensor, batch_size: int
) -> tf.data.Dataset:
    """Images of shape [batch, 784], 0 to 1, and classes, from batches of numbers."""
    pick = functools.partial(_pick, images, labels)
    batches = fast(numbers, pick, knobs) if knobs.fast_form else slow(numbers, pick, knobs, batch_size)
    return indexed.finished(batches, knobs)


def slow(numbers: tf.data.Dataset, pick: Callable[..., Any], knobs: Knobs, batch_size: int) -> tf.data.Dataset:
    """As people write it: one example after another, then batch."""
    return numbers.unbatch().map(pick, num_parallel_calls=hands.num_parallel_calls(knobs.workers)).batch(batch_size)


def fast(numbers: tf.data.Dataset, pick: Callable[..., Any], knobs: Knobs) -> tf.data.Dataset:
    """A whole batch at once: 1 call of the map in place of 32."""
    return numbers.map(pick, num_parallel_calls=hands.num_parallel_calls(knobs.workers))


def _pick(images: tf.Tensor, labels: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """For one number, or for a batch of them."""
    import tensorflow as tf

    chosen = tf.cast(tf.gather(images, numbers), tf.float32) / 255.0
    return tf.reshape(chosen, (784,) if numbers.shape.rank == 0 else (-1, 784)), tf.gather(labels, numbers)


def _validation(data: arrays.Arrays, settings: Settings) -> tf.data.Dataset:
    import tensorflow as tf

    pick = functools.partial(_pick, tf.constant(data.held_images), tf.constant(data.held_labels))
    ready = fast(indexed.in_order(len(data.held_labels), settings.batch_size), pick, Knobs())
    return ready.prefetch(2).with_options(hands.untuned())


def _seed(settings: Settings) -> int:
    return secrets.randbits(31) if settings.seed is None else settings.seed


def _model(settings: Settings) -> keras.Model:
    import keras

    if settings.seed is not None:
        keras.utils.set_random_seed(settings.seed)
    model = keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ],
        name="dense",
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    return model
