"""Parts that the workloads' models share: seed, optimizer, small layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from tfwatch.workloads.workload import Settings


def seed(settings: Settings) -> None:
    """Set the seed, so that the weights built next depend on nothing else."""
    import keras

    if settings.seed is not None:
        keras.utils.set_random_seed(settings.seed)


def classifier(model: keras.Model, settings: Settings, learning_rate: float = 1e-3) -> keras.Model:
    """Compile a classifier of classes given by number."""
    import keras

    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    return compiled(model, settings, "sparse_categorical_crossentropy", accuracy, learning_rate)


def compiled(
    model: keras.Model,
    settings: Settings,
    loss: str,
    metric: str | keras.Metric,
    learning_rate: float = 1e-3,
) -> keras.Model:
    """Compile a model with these settings; `learning_rate` is the model's default for Adam.

    The metric and the optimizer have their variables: TensorFlow traces a step that makes some twice.

    Raises:
        BadInputError: Keras does not use XLA, e.g. where TensorFlow runs deterministically.
    """
    import keras

    model.compile(
        _optimizer(settings, learning_rate),
        loss,
        metrics=[keras.metrics.get(metric)],
        run_eagerly=settings.mode == "eager",
        jit_compile=settings.mode == "jit",
        steps_per_execution=settings.steps_per_execution,
    )
    model.optimizer.build(model.trainable_variables)
    if settings.mode == "jit" and not model.jit_compile:
        raise BadInputError("Keras does not compile this model with XLA here: leave out --jit")
    return model


def _optimizer(settings: Settings, learning_rate: float) -> keras.Optimizer:
    import keras

    name, rate = settings.optimizer or "adam", settings.learning_rate
    if rate is None and name == "adam":
        rate = learning_rate
    config = {} if rate is None else {"learning_rate": rate}
    return keras.optimizers.get({"class_name": name, "config": config})


def probabilities(classes: int) -> keras.layers.Layer:
    """Return the last layer of a classifier, in float32: float16 ends at 65504, and the loss takes exponentials."""
    import keras

    return keras.layers.Dense(classes, activation="softmax", dtype="float32")


def in_mode(function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the function as it is for eager mode, else traced as a graph or compiled by XLA."""
    import tensorflow as tf

    if settings.mode == "eager":
        return function
    return tf.function(function, reduce_retracing=True, jit_compile=settings.mode == "jit")  # type: ignore[no-any-return]


def small_dense(features: int, hidden: int, name: str) -> keras.Model:
    """Return an uncompiled model of ten classes with one hidden layer."""
    import keras

    layers = [
        keras.Input((features,)),
        keras.layers.Dense(hidden, activation="relu"),
        probabilities(10),
    ]
    return keras.Sequential(layers, name=name)


def small_convolution(shape: tuple[int, int, int], name: str) -> keras.Model:
    """Return an uncompiled model of ten classes: 32 filters of 3x3, a max pool and a dense layer."""
    import keras

    layers = [
        keras.Input(shape),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        probabilities(10),
    ]
    return keras.Sequential(layers, name=name)
