"""host-bound: Python after each step of a loop of its own."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, size, steps = rng.choice([64, 256]), rng.choice([100, 150, 200]), rng.choice([300, 500])
rows = np.random.default_rng(int(sys.argv[1]))
matrix = rows.normal(size=(size, size))
model = keras.Sequential(
    [keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
optimizer = keras.optimizers.SGD()
optimizer.build(model.trainable_variables)
x = rows.normal(size=(64, 32)).astype("float32")
data = tf.data.Dataset.from_tensors((x, x[:, :1])).repeat(steps).prefetch(2)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    return loss


for x, y in data:
    loss = train_step(x, y)
    if not remedied:
        np.linalg.svd(matrix * float(loss))
