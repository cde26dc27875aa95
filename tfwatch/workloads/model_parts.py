"""How the workloads' models begin and end: the seed before, the optimizer after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from tfwatch.workloads.workload import Settings


def seed(settings: Settings) -> None:
    """Make the weights of what is built next the same for the same seed, whatever was drawn before."""
    import keras

    if settings.seed is not None:
        keras.utils.set_random_seed(settings.seed)


def classifier(model: keras.Model, settings: Settings, learning_rate: float = 1e-3) -> keras.Model:
    """Compiled with the loss of classes given by number."""
    return compiled(model, settings, "sparse_categorical_crossentropy", "accuracy", learning_rate)


def compiled(
    model: keras.Model, settings: Settings, loss: str, metric: str, learning_rate: float = 1e-3
) -> keras.Model:
    """Compiled as the settings say; `learning_rate` is the model's own for Adam.

    Raises:
        BadInputError: Keras would leave XLA out, as it does where TensorFlow is to be deterministic.
    """
    model.compile(
        _optimizer(settings, learning_rate),
        loss,
        metrics=[metric],
        run_eagerly=settings.mode == "eager",
        jit_compile=settings.mode == "jit",
        steps_per_execution=settings.steps_per_execution,
    )
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
    """The last layer of a classifier; in float32, for float16 ends at 65504 and the loss takes exponentials."""
    import keras

    return keras.layers.Dense(classes, activation="softmax", dtype="float32")


def in_mode(function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """The function itself where it is to run op by op, else as a graph or compiled by XLA."""
    import tensorflow as tf

    if settings.mode == "eager":
        return function
    return tf.function(function, reduce_retracing=True, jit_compile=settings.mode == "jit")  # type: ignore[no-any-return]


def small_dense(features: int, hidden: int, name: str) -> keras.Model:
    """Ten classes from one hidden layer; not compiled."""
    import keras

    layers = [keras.Input((features,)), keras.layers.Dense(hidden, activation="relu"), probabilities(10)]
    return keras.Sequential(layers, name=name)


def small_convolution(shape: tuple[int, int, int], name: str) -> keras.Model:
    """Ten classes from 32 filters of 3x3, a max pool and a dense layer; not compiled."""
    import keras

    layers = [
        keras.Input(shape),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        probabilities(10),
    ]
    return keras.Sequential(layers, name=name)
