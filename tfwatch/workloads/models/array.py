"""Arrays in memory, trained by `train_on_batch`: the loop indexes them, or tf.data makes the batches."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.workloads import model_parts
from tfwatch.workloads.data import arrays, numbered_examples

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import tensorflow as tf
    from numpy.typing import NDArray

    from tfwatch.core.knobs import Knobs
    from tfwatch.workloads.workload import Prepared, Settings

_FEATURES = 784


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Load MNIST, or generate arrays of its shapes."""
    data = arrays.mnist(report)
    examples = numbered_examples.from_arrays(data, (_FEATURES,))
    prepared = numbered_examples.prepared(
        settings, examples, functools.partial(_model, settings), "accuracy"
    )
    build = functools.partial(pipeline, data=data, pick=examples.pick)
    return replace(prepared, note=data.note, pipeline=build, loop=LoopBody)


def pipeline(
    numbers: tf.data.Dataset, knobs: Knobs, *, data: arrays.Arrays, pick: numbered_examples.Pick
) -> tf.data.Dataset:
    """Return images of shape [batch, 784], 0 to 1, and their classes, from batches of numbers."""
    batches = (
        numbered_examples.fast(numbers, pick, knobs) if knobs.fast_pipeline else slow(numbers, data)
    )
    return numbered_examples.finished(batches, knobs)


def slow(numbers: tf.data.Dataset, data: arrays.Arrays) -> tf.data.Dataset:
    """Return the usual pipeline: `images[numbers]` in Python, one batch after another, whatever the workers knob."""
    import tensorflow as tf

    images, labels = data.images.reshape(-1, _FEATURES), data.labels

    def index(batch: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        return images[batch].astype(np.float32) / np.float32(255), labels[batch]

    def pick(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        picked_images, picked_labels = tf.numpy_function(index, [batch], (tf.float32, tf.int32))
        return tf.ensure_shape(picked_images, (None, _FEATURES)), tf.ensure_shape(
            picked_labels, (None,)
        )

    return numbers.map(pick)


def _model(settings: Settings) -> keras.Model:
    model_parts.seed(settings)
    return model_parts.classifier(model_parts.small_dense(_FEATURES, 128, "array"), settings)


class LoopBody:
    """The body of the custom loop."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        # Older Keras versions, e.g. 3.8, return means over all batches since the last reset.
        self._resets = "reset_metrics" in type(model).train_on_batch.__code__.co_names

    def train(self, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, Any]:
        """Train one step."""
        self._begin()
        return self._model.train_on_batch(*batch, return_dict=True)  # type: ignore[no-any-return]

    def validate(self, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, Any]:
        """Return the same figures of a held-out batch."""
        self._begin()
        return self._model.test_on_batch(*batch, return_dict=True)  # type: ignore[no-any-return]

    def _begin(self) -> None:
        if not self._resets:
            self._model.reset_metrics()
