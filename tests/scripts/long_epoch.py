"""One epoch without an end, which stops at a step, or once a file exists: `long_epoch.py STEPS|FILE`."""

import os
import sys

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(16)
rng = np.random.default_rng(16)
x = rng.normal(size=(4096, 16)).astype("float32")
data = (
    tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True)))
    .shuffle(4096, seed=16)
    .repeat()
)
data = data.map(lambda x, y: (tf.sqrt(tf.abs(x)) * 2.0, y)).batch(32)


class Stops(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        steps = batch + 1
        if (
            steps == int(sys.argv[1])
            if sys.argv[1].isdigit()
            else steps % 50 == 0 and os.path.exists(sys.argv[1])
        ):
            self.model.stop_training = True
            print("steps", steps)


model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
history = model.fit(data, steps_per_epoch=10**6, verbose=0, callbacks=[Stops()])
digest(model, history.history)
