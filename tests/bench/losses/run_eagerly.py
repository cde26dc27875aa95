"""eager: run_eagerly is left on."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, layers, batch = rng.choice([32, 128, 256]), rng.randint(2, 8), rng.choice([32, 128])
rows = np.random.default_rng(int(sys.argv[1]))
x, y = rows.normal(size=(batch * 60, 32)), rows.normal(size=(batch * 60, 1))
model = keras.Sequential(
    [keras.Input((32,))]
    + [keras.layers.Dense(units, activation="relu") for _ in range(layers)]
    + [keras.layers.Dense(1)]
)
model.compile("adam", "mse", run_eagerly=not remedied)
model.fit(x, y, batch_size=batch, epochs=4, verbose=2)
