"""The words of a script, CAUSE SEED [remedied], and what the scripts have in common."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

cause, seed, remedied = sys.argv[1], int(sys.argv[2]), "remedied" in sys.argv
#: Draws the sizes, and the numbers.
rng, numbers = random.Random(sys.argv[2]), np.random.default_rng(seed)


def normal(*shape):
    """Return random numbers."""
    return numbers.normal(size=shape).astype("float32")


def dense(columns, units, layers=1, outputs=1):
    """Return a model of dense layers."""
    hidden = [keras.layers.Dense(units, activation="relu") for _ in range(layers)]
    return keras.Sequential([keras.Input((columns,)), *hidden, keras.layers.Dense(outputs)])


def pooled(side, *convolutions, outputs=10):
    """Return a model of convolutions over images."""
    ends = keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(outputs)
    return keras.Sequential([keras.Input((side, side, 3)), *convolutions, *ends])


def tensor(function, number, shape):
    """Return the array that a Python function makes of a number, within a map."""
    return tf.ensure_shape(tf.numpy_function(function, [number], tf.float32), shape)


def make_step(model, optimizer):
    """Return the training step of a loop of its own, not traced yet."""
    optimizer.build(model.trainable_variables)

    def train_step(x, y, scale=1.0):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) * scale
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    return train_step
