"""none: a well-fed training, of each kind of data in turn."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

seed = int(sys.argv[1])
rng = random.Random(seed)
batch, units = rng.choice([64, 128, 256]), rng.choice([1024, 1536, 2048])
kind = ["arrays", "dataset", "cached", "generator", "py_dataset", "mapped", "loop"][seed % 7]
steps, epochs = rng.choice([60, 100]), rng.choice([2, 3])
rows = np.random.default_rng(seed).normal(size=(batch * steps, 64)).astype("float32")
arrays = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1]))


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return steps

    def __getitem__(self, n):
        x = rows[n * batch : (n + 1) * batch]
        return x, x[:, :1]


def batches():
    for n in range(0, steps * batch, batch):
        yield rows[n : n + batch], rows[n : n + batch, :1]


def doubled(x, y):
    return 2.0 * x, y


spec = tf.TensorSpec((batch, 64)), tf.TensorSpec((batch, 1))
data = {
    "dataset": arrays.batch(batch).prefetch(2),
    "cached": arrays.batch(batch).cache().prefetch(2),
    "generator": tf.data.Dataset.from_generator(batches, output_signature=spec).prefetch(2),
    "py_dataset": Rows(workers=2),
    "mapped": arrays.shuffle(500).batch(batch).map(doubled, tf.data.AUTOTUNE).prefetch(2),
    "loop": arrays.batch(batch).prefetch(2),
}
model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(units, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse")
optimizer = keras.optimizers.SGD()
optimizer.build(model.trainable_variables)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    return loss


if kind == "arrays":
    model.fit(rows, rows[:, :1], batch_size=batch, epochs=epochs, verbose=2)
elif kind == "loop":
    for _ in range(epochs):
        for x, y in data[kind]:
            train_step(x, y)
else:
    model.fit(data[kind], epochs=epochs, verbose=2)
