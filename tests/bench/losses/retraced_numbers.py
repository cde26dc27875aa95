"""retracing: a Python number is a new signature of the step."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, layers, steps = rng.choice([64, 128, 256]), rng.randint(2, 6), rng.choice([40, 60, 80])
model = keras.Sequential(
    [keras.Input((32,))]
    + [keras.layers.Dense(units, activation="relu") for _ in range(layers)]
    + [keras.layers.Dense(1)]
)
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
rows = np.random.default_rng(int(sys.argv[1]))
data = tf.data.Dataset.from_tensor_slices(
    (rows.normal(size=(4096, 32)).astype("float32"), rows.normal(size=(4096, 1)).astype("float32"))
)


@tf.function
def train_step(x, y, scale):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) * scale
    optimizer.apply_gradients(
        zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
    )
    return loss


for at, (x, y) in enumerate(data.repeat().batch(64).take(steps)):
    scale = 1.0 - at / (2 * steps)
    train_step(x, y, tf.constant(scale) if remedied else scale)
