"""The small convolution on MNIST, trained in a custom loop: op by op, or as a traced function.

Op by op, Python launches every kernel of the step, at a cost that does not grow with the batch: on two CPU cores a
batch of one takes 12 ms op by op and 1 ms traced, a batch of a hundred 31 ms and 5 ms.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.workloads import model_parts
from tfwatch.workloads.data import arrays, numbered_examples

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras
    import tensorflow as tf

    from tfwatch.workloads.workload import Prepared, Settings

_SHAPE = (28, 28, 1)


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Load MNIST, or generate arrays of its shapes."""
    data = arrays.mnist(report)
    model = functools.partial(_model, settings)
    prepared = numbered_examples.prepared(
        settings, numbered_examples.from_arrays(data, _SHAPE), model, "accuracy"
    )
    return replace(prepared, note=data.note, loop=functools.partial(LoopBody, settings))


def _model(settings: Settings) -> keras.Model:
    model_parts.seed(settings)
    return model_parts.classifier(model_parts.small_convolution(_SHAPE, "cnn-loop"), settings)


class LoopBody:
    """The body of the custom loop."""

    def __init__(self, settings: Settings, model: keras.Model) -> None:
        import keras

        self._model = model
        self._optimizer = model.optimizer
        self._optimizer.build(model.trainable_variables)
        self._loss = keras.losses.SparseCategoricalCrossentropy()
        self._accuracy = keras.metrics.sparse_categorical_accuracy
        self.train = model_parts.in_mode(self._train, settings)
        self.validate = model_parts.in_mode(self._validate, settings)

    def _train(self, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        import tensorflow as tf

        images, labels = batch
        with tf.GradientTape() as tape:
            predicted = self._model(images, training=True)
            loss = self._loss(labels, predicted)
            scaled = self._optimizer.scale_loss(loss)  # so that float16 gradients do not vanish
        gradients = tape.gradient(scaled, self._model.trainable_variables)
        self._optimizer.apply_gradients(
            zip(gradients, self._model.trainable_variables, strict=True)
        )
        return {"loss": loss, "accuracy": tf.reduce_mean(self._accuracy(labels, predicted))}

    def _validate(self, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        import tensorflow as tf

        images, labels = batch
        predicted = self._model(images, training=False)
        return {
            "loss": self._loss(labels, predicted),
            "accuracy": tf.reduce_mean(self._accuracy(labels, predicted)),
        }
