"""callback: a callback works after each batch, each few, or predicts at the end of each epoch."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, units, every = rng.choice([32, 128]), rng.choice([64, 256]), rng.choice([1, 5, 10, 150])
size = {1: 80, 5: 160, 10: 200, 150: 400}[every]
rows = np.random.default_rng(int(sys.argv[1]))
x, matrix = rows.normal(size=(batch * 150, 32)), rows.normal(size=(size, size))


class Checks(keras.callbacks.Callback):
    def on_train_batch_end(self, step, logs=None):
        if step % every == 0 and every < 150:
            np.linalg.eigvals(matrix)

    def on_epoch_end(self, epoch, logs=None):
        if every == 150:
            self.model.predict(x[:6000], batch_size=8, verbose=0)


model = keras.Sequential(
    [keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
callbacks = [] if remedied else [Checks()]
model.fit(x, x[:, :1], batch_size=batch, epochs=20, verbose=2, callbacks=callbacks)
