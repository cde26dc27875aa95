"""validation: after each epoch, longer than the epoch."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, batch, epochs = rng.choice([128, 256, 512]), rng.choice([32, 64]), rng.choice([15, 20])
rows = np.random.default_rng(int(sys.argv[1]))
x = rows.normal(size=(batch * 60, 64))
held_out = rows.normal(size=(batch * 60 * rng.choice([3, 5, 8]), 64))
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
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
