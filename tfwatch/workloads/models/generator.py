"""Dense layers on a slow Python generator, and on the same work in tf.data.

The generator makes one example after another and holds the GIL, so that more workers do not help. Prefetch hides as
much of its time as the step computes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import work_ahead
from tfwatch.workloads import model_parts
from tfwatch.workloads.data import numbered_examples
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import keras
    import tensorflow as tf
    from numpy.typing import NDArray

    from tfwatch.tfdata.cache import CachedExamples, ExampleStore

_COUNT = 16_000
_HELD_OUT = 1_000
_FEATURES = 256
_CLASSES = 10
#: Each feature is its class' value plus the mean of this many noises, a power of two, so that dividing is exact; one
#: example takes 0.3 ms of Python.
_NOISES = 4

Example = tuple["NDArray[np.float32]", int]


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Prepare numbers, from which the pipeline computes the examples."""
    import tensorflow as tf

    from tfwatch.tfdata.cache import ExampleStore
    from tfwatch.tfdata.shuffle import Shuffle

    report("nothing to prepare: the pipeline computes the examples")
    shuffle = Shuffle(_COUNT, numbered_examples.seed_of(settings))
    store = ExampleStore(
        _COUNT, [tf.TensorSpec((_FEATURES,), tf.float32), tf.TensorSpec((), tf.int32)]
    )
    held_out = numbered_examples.in_order(_HELD_OUT, settings.batch_size).map(
        lambda numbers: numbers + _COUNT
    )
    return Prepared(
        source=numbered_examples.source(shuffle, settings.batch_size),
        pipeline=functools.partial(pipeline, batch_size=settings.batch_size, store=store),
        validation=fast(held_out, Knobs()).prefetch(2).with_options(work_ahead.without_autotune()),
        model=functools.partial(_model, settings),
        steps_per_epoch=numbered_examples.steps_per_epoch(_COUNT, settings.batch_size),
        images=_COUNT,
        metric="accuracy",
        shuffle=shuffle,
        store=store,
    )


def pipeline(
    numbers: tf.data.Dataset, knobs: Knobs, *, batch_size: int, store: ExampleStore
) -> tf.data.Dataset:
    """Return features of shape [batch, 256] and classes, from batches of numbers."""
    cached = store.examples_of("fast" if knobs.fast_pipeline else "slow") if knobs.cache else None
    if cached is not None and cached.is_full:
        batches = numbers.map(
            cached.get, num_parallel_calls=work_ahead.num_parallel_calls_stateful(knobs.workers)
        )
    else:
        batches = (
            fast(numbers, knobs, cached)
            if knobs.fast_pipeline
            else slow(numbers, batch_size, cached)
        )
    return numbered_examples.finished(batches, knobs)


def slow(
    numbers: tf.data.Dataset, batch_size: int, cached: CachedExamples | None = None
) -> tf.data.Dataset:
    """Return the usual pipeline, a Python generator."""
    import tensorflow as tf

    make: Callable[[int], Example] = (
        functools.partial(cached.example, make=example) if cached else example
    )

    def examples() -> Iterator[Example]:
        for number in numbers.unbatch().with_options(
            work_ahead.without_autotune()
        ):  # no number ahead
            yield make(int(number))

    signature = (tf.TensorSpec((_FEATURES,), tf.float32), tf.TensorSpec((), tf.int32))
    return tf.data.Dataset.from_generator(examples, output_signature=signature).batch(batch_size)


def fast(
    numbers: tf.data.Dataset, knobs: Knobs, cached: CachedExamples | None = None
) -> tf.data.Dataset:
    """Return the same work in tf.data: whole batches without Python, parallel by the workers knob."""
    parallel = work_ahead.num_parallel_calls(knobs.workers)
    if cached is None:
        return numbers.map(_batch, num_parallel_calls=parallel)
    return numbers.map(lambda batch: (batch, *_batch(batch)), num_parallel_calls=parallel).map(
        cached.keep
    )


def example(number: int) -> Example:
    """Compute one example in plain Python."""
    label = number % _CLASSES
    features = np.empty(_FEATURES, np.float32)
    for feature in range(_FEATURES):
        features[feature] = (
            sum(numbered_examples.value(number, _NOISES * feature + n) for n in range(_NOISES))
            / _NOISES
        )
    return features + _patterns()[label], label


@functools.cache
def _patterns() -> NDArray[np.float32]:
    """Return the classes' values, shape [classes, features], for both forms: numpy's and TensorFlow's sines differ."""
    return np.sin(np.arange(_CLASSES * _FEATURES).reshape(_CLASSES, _FEATURES)).astype(
        np.float32
    ) / np.float32(2)


def _batch(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute the examples of a batch of numbers in TensorFlow."""
    import tensorflow as tf

    labels = numbers % _CLASSES
    grain = tf.add_n(
        [numbered_examples.rows(numbers, _FEATURES, _NOISES, n) for n in range(_NOISES)]
    )
    return grain / _NOISES + tf.gather(_patterns(), labels), tf.cast(labels, tf.int32)


def _model(settings: Settings) -> keras.Model:
    model_parts.seed(settings)
    return model_parts.classifier(model_parts.small_dense(_FEATURES, 512, "generator"), settings)
