"""callback: a callback predicts at the end of each epoch."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, steps, rows_seen = rng.choice([64, 256]), rng.choice([40, 80]), rng.choice([6000, 9000])
rows = np.random.default_rng(int(sys.argv[1]))
x = rows.normal(size=(steps * 32, 32))
held_out = rows.normal(size=(rows_seen, 32))


class Samples(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.predict(held_out, batch_size=8, verbose=0)


model = keras.Sequential(
    [keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
callbacks = [] if remedied else [Samples()]
model.fit(x, x[:, :1], epochs=12, verbose=2, callbacks=callbacks)
