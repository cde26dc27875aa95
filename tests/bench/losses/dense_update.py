"""dense-update: Adam updates all rows of a large embedding."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
vocabulary, width = rng.choice([100_000, 200_000, 300_000]), rng.choice([32, 64])
batch = rng.choice([32, 64])
steps = rng.choice([5_000_000_000, 7_000_000_000]) // (vocabulary * width)
rows = np.random.default_rng(int(sys.argv[1]))
x = rows.integers(0, vocabulary, (batch * steps, 12))
y = rows.integers(0, 2, batch * steps)
model = keras.Sequential(
    [
        keras.Input((12,), dtype="int32"),
        keras.layers.Embedding(vocabulary, width),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("sgd" if remedied else "adam", "binary_crossentropy")
model.fit(x, y, batch_size=batch, epochs=1, verbose=2)
