"""stall: now and then the storage does not answer for seconds."""

import random
import sys
import time

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, batch = rng.choice([256, 512]), rng.choice([64, 128])
every, seconds, steps = rng.choice([80, 120, 160]), rng.choice([0.7, 1.0, 1.5, 2.0]), 1800
rows = np.random.default_rng(int(sys.argv[1])).normal(size=(batch, 64)).astype("float32")


def read(n):
    if n % every == every - 1 and not remedied:
        time.sleep(seconds)
    return rows


def batch_of(n):
    x = tf.numpy_function(read, [n], tf.float32)
    x.set_shape((batch, 64))
    return x, x[:, :1]


data = tf.data.Dataset.range(steps).map(batch_of).prefetch(2)
model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse")
model.fit(data, epochs=1, verbose=2)
