"""first-batch epoch-end: epochs of a few steps, each with its own begin and end."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
steps, units, epochs = rng.randint(1, 3), rng.choice([16, 64]), rng.choice([1500, 2500])
rows = np.random.default_rng(int(sys.argv[1])).normal(size=(steps * 32, 16)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).shuffle(64).batch(32)
model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
if remedied:
    model.fit(data.repeat(epochs), epochs=1, verbose=2)
else:
    model.fit(data, epochs=epochs, verbose=2)
