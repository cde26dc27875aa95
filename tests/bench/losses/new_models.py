"""new-models: each fit makes and compiles another model."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, layers, folds = rng.choice([64, 256]), rng.randint(2, 8), rng.randint(8, 14)
rows = np.random.default_rng(int(sys.argv[1]))
x, y = rows.normal(size=(rng.choice([1000, 2000]), 16)), rows.normal(size=(2000, 1))


def build():
    model = keras.Sequential(
        [keras.Input((16,))]
        + [keras.layers.Dense(units, activation="relu") for _ in range(layers)]
        + [keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    return model


model = build()
first = model.get_weights()
for _ in range(folds):
    if remedied:
        model.set_weights(first)
    else:
        model = build()
    model.fit(x, y[: len(x)], batch_size=128, epochs=2, verbose=0)
