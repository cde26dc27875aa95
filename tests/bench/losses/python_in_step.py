"""python-in-step: a layer calls Python in each step."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, width, eager = rng.choice([64, 256]), rng.choice([64, 256]), rng.choice([True, False])


def normalize(x):
    return np.stack([(row - row.mean()) / (row.std() + 1e-3) for row in np.asarray(x)])


class Normalize(keras.layers.Layer):
    def call(self, x):
        if remedied:
            mean, variance = tf.nn.moments(x, [1], keepdims=True)
            return (x - mean) / (tf.sqrt(variance) + 1e-3)
        call = tf.py_function if eager else tf.numpy_function
        return tf.ensure_shape(call(normalize, [x], tf.float32), x.shape)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


x = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 200, width)).astype("float32")
model = keras.Sequential(
    [
        keras.Input((width,)),
        Normalize(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=batch, epochs=rng.choice([30, 45]), verbose=2)
