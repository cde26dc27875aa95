"""eager: a loop of its own without a tf.function."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, layers, batch = rng.choice([32, 128, 256]), rng.randint(2, 8), rng.choice([32, 128])
rows = np.random.default_rng(int(sys.argv[1]))
model = keras.Sequential(
    [keras.Input((32,))]
    + [keras.layers.Dense(units, activation="relu") for _ in range(layers)]
    + [keras.layers.Dense(1)]
)
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
arrays = rows.normal(size=(batch * 60, 32)).astype("float32"), np.ones((batch * 60, 1), "float32")
data = tf.data.Dataset.from_tensor_slices(arrays).batch(batch).prefetch(2)


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    return loss


step = tf.function(train_step) if remedied else train_step
for _ in range(4):
    for x, y in data:
        step(x, y)
