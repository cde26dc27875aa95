"""Loops of their own: eager steps, Python beside the step, numbers that retrace it."""

import keras
import numpy as np
import tensorflow as tf
from drawn import cause, dense, make_step, normal, numbers, remedied, rng

slices = tf.data.Dataset.from_tensor_slices


def train_eagerly():
    """run_eagerly is left on, or the loop has no tf.function."""
    units, layers, batch = rng.choice([32, 128, 256]), rng.randint(2, 8), rng.choice([32, 128])
    x, model = normal(batch * 60, 32), dense(32, units, layers)
    model.compile("adam", "mse", run_eagerly=not remedied)
    train_step = make_step(model, keras.optimizers.Adam())
    step = tf.function(train_step) if remedied else train_step
    data = slices((x, x[:, :1])).batch(batch).prefetch(2)
    if rng.choice([True, False]):
        model.fit(x, x[:, :1], batch_size=batch, epochs=4, verbose=2)
        return
    for _ in range(4):
        for rows, labels in data:
            step(rows, labels)


def compute_in_python():
    """Python after each step, or after each epoch."""
    units, in_steps = rng.choice([64, 256]), rng.choice([True, False])
    size = rng.choice([100, 150, 200] if in_steps else [400, 500, 600])
    matrix, x = numbers.normal(size=(size, size)), normal(64, 32)
    train_step = tf.function(make_step(dense(32, units), keras.optimizers.SGD()))
    data = tf.data.Dataset.from_tensors((x, x[:, :1])).repeat(150).prefetch(2)
    for _ in range(6 if in_steps else 20):
        for rows, labels in data:
            loss = train_step(rows, labels)
            if in_steps and not remedied:
                np.linalg.svd(matrix * float(loss))
        if not (in_steps or remedied):
            np.linalg.eigvals(matrix)


def retrace():
    """A Python number is a new signature of the step."""
    units, layers = rng.choice([64, 128, 256]), rng.randint(2, 6)
    steps = rng.choice([40, 60, 80])
    train_step = tf.function(make_step(dense(32, units, layers), keras.optimizers.Adam()))
    data = slices((normal(4096, 32), normal(4096, 1)))
    for at, (rows, labels) in enumerate(data.repeat().batch(64).take(steps)):
        scale = 1.0 - at / (2 * steps)
        train_step(rows, labels, tf.constant(scale) if remedied else scale)


match cause:
    case "eager":
        train_eagerly()
    case "loop_python":
        compute_in_python()
    case "retraced_numbers":
        retrace()
