"""small-operations: a recurrent layer whose time steps are many small operations."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, steps, units = rng.choice([16, 32]), rng.choice([30, 60]), rng.choice([8, 16, 32])
x = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 100, steps, 8)).astype("float32")
kind = rng.choice([keras.layers.LSTM, keras.layers.GRU])
model = keras.Sequential([keras.Input((steps, 8)), kind(units), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=remedied)
model.fit(x, x[:, 0, 0], batch_size=batch, epochs=rng.choice([30, 50]), verbose=2)
