"""between-fits: chunks are made between two fits, while the model waits."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, chunks, count = rng.choice([64, 256]), rng.choice([20, 30]), rng.choice([3000, 6000])
rows = np.random.default_rng(int(sys.argv[1]))
model = keras.Sequential(
    [keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")


def load(n):
    sorted_rows = [np.sort(rows.normal(size=32)) for _ in range(count * 20)]
    return np.asarray(sorted_rows[:count], "float32")


x = load(0)
for n in range(chunks):
    if not remedied:
        x = load(n)
    model.fit(x, x[:, :1], verbose=0)
