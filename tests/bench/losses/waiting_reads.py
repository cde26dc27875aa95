"""input-bound: reads that wait for a remote store, one after another."""

import random
import sys
import time

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, units = rng.choice([32, 64]), rng.choice([256, 512, 1024])
wait_s, steps = rng.choice([0.01, 0.02, 0.04]), 200
epochs = round(rng.choice([0.08, 0.12]) / wait_s)
rows = np.random.default_rng(int(sys.argv[1])).normal(size=(batch, 128)).astype("float32")


def read(_):
    time.sleep(wait_s)
    return rows


def batch_of(n):
    x = tf.numpy_function(read, [n], tf.float32)
    x.set_shape((batch, 128))
    return x, x[:, :1]


data = tf.data.Dataset.range(steps).map(batch_of, num_parallel_calls=8 if remedied else None)
model = keras.Sequential(
    [
        keras.Input((128,)),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse")
model.fit(data.prefetch(8) if remedied else data, epochs=epochs, verbose=2)
