"""no-cudnn: an argument rules cuDNN out for a recurrent layer."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, steps, units = rng.choice([32, 128]), rng.choice([60, 120]), rng.choice([64, 128, 256])
x = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 60, steps, 32)).astype("float32")
kind = rng.choice([keras.layers.LSTM, keras.layers.GRU])
against = rng.choice([{"recurrent_dropout": 0.2}, {"activation": "relu"}, {"use_cudnn": False}])
layer = kind(units, **({} if remedied else against))
# Keras compiles a model without cuDNN with XLA by itself, and one with cuDNN not.
compiled = False if remedied else rng.choice(["auto", False])
model = keras.Sequential([keras.Input((steps, 32)), layer, keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=compiled)
model.fit(x, x[:, 0, 0], batch_size=batch, epochs=rng.choice([10, 20]), verbose=2)
