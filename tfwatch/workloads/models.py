"""How the workloads' models begin and end: the seed before, the optimizer after."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras

    from tfwatch.workloads import Settings


def seed(settings: Settings) -> None:
    """Make the weights of what is built next the same for the same seed, whatever was drawn before."""
    import keras

    if settings.seed is not None:
        keras.utils.set_random_seed(settings.seed)


def classifier(model: keras.Model, learning_rate: float = 1e-3) -> keras.Model:
    """Compiled with Adam and the loss of classes given by number."""
    import keras

    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    return model


def small_convolution(shape: tuple[int, int, int], name: str) -> keras.Model:
    """Ten classes from 32 filters of 3x3, a max pool and a dense layer; not compiled."""
    import keras

    layers = [
        keras.Input(shape),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
    return keras.Sequential(layers, name=name)
