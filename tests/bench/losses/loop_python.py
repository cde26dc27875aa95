"""host-bound epoch-end between-fits: Python after each step or epoch of a loop of its own."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, in_steps = rng.choice([64, 256]), rng.choice([True, False])
size = rng.choice([100, 150, 200] if in_steps else [400, 500, 600])
rows = np.random.default_rng(int(sys.argv[1]))
matrix = rows.normal(size=(size, size))
model = keras.Sequential(
    [keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
optimizer = keras.optimizers.SGD()
optimizer.build(model.trainable_variables)
x = rows.normal(size=(64, 32)).astype("float32")
data = tf.data.Dataset.from_tensors((x, x[:, :1])).repeat(150).prefetch(2)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    return loss


for _ in range(6 if in_steps else 20):
    for x, y in data:
        loss = train_step(x, y)
        if in_steps and not remedied:
            np.linalg.svd(matrix * float(loss))
    if not (in_steps or remedied):
        np.linalg.eigvals(matrix)
