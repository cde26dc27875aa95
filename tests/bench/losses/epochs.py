"""Epochs whose begins, ends, callbacks or validation take longer than their steps."""

import keras
import numpy as np
import tensorflow as tf
from drawn import cause, dense, normal, numbers, remedied, rng


def train_short_epochs():
    """Epochs of a few steps."""
    steps, units, epochs = rng.randint(1, 3), rng.choice([16, 64]), rng.choice([1500, 2500])
    rows = normal(steps * 32, 16)
    data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).shuffle(64).batch(32)
    model = dense(16, units)
    model.compile("sgd", "mse")
    if remedied:
        model.fit(data.repeat(epochs), epochs=1, verbose=2)
    else:
        model.fit(data, epochs=epochs, verbose=2)


def validate():
    """Validation after each epoch, longer than the epoch."""
    units, batch, epochs = rng.choice([128, 256, 512]), rng.choice([32, 64]), rng.choice([15, 20])
    x = numbers.normal(size=(batch * 60, 64))
    held_out = numbers.normal(size=(batch * 60 * rng.choice([3, 5, 8]), 64))
    model = dense(64, units)
    model.compile("sgd", "mse")
    model.fit(
        x,
        x[:, :1],
        batch_size=batch,
        epochs=epochs,
        validation_data=(held_out, held_out[:, :1]),
        validation_batch_size=16,
        validation_freq=5 if remedied else 1,
        verbose=2,
    )


def call_back():
    """A callback works after each batch or each few, or predicts at the end of each epoch."""
    batch, units, every = rng.choice([32, 128]), rng.choice([64, 256]), rng.choice([1, 5, 10, 150])
    size = {1: 80, 5: 160, 10: 200, 150: 400}[every]
    x, matrix = numbers.normal(size=(batch * 150, 32)), numbers.normal(size=(size, size))

    class Checks(keras.callbacks.Callback):
        def on_train_batch_end(self, step, logs=None):
            if step % every == 0 and every < 150:
                np.linalg.eigvals(matrix)

        def on_epoch_end(self, epoch, logs=None):
            if every == 150:
                self.model.predict(x[:6000], batch_size=8, verbose=0)

    model = dense(32, units)
    model.compile("sgd", "mse")
    callbacks = [] if remedied else [Checks()]
    model.fit(x, x[:, :1], batch_size=batch, epochs=20, verbose=2, callbacks=callbacks)


match cause:
    case "tiny_epochs":
        train_short_epochs()
    case "long_validation":
        validate()
    case "slow_callback":
        call_back()
