"""eager: run_eagerly is left on, or a loop of its own has no tf.function."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
units, layers, batch = rng.choice([32, 128, 256]), rng.randint(2, 8), rng.choice([32, 128])
x = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 60, 32)).astype("float32")
model = keras.Sequential(
    [keras.Input((32,))]
    + [keras.layers.Dense(units, activation="relu") for _ in range(layers)]
    + [keras.layers.Dense(1)]
)
model.compile("adam", "mse", run_eagerly=not remedied)
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))


step = tf.function(train_step) if remedied else train_step
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(batch).prefetch(2)
if rng.choice([True, False]):
    model.fit(x, x[:, :1], batch_size=batch, epochs=4, verbose=2)
else:
    for _ in range(4):
        for rows, labels in data:
            step(rows, labels)
