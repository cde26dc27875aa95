"""A well-fed training, of each kind of data in turn."""

import keras
import tensorflow as tf
from drawn import dense, make_step, normal, rng, seed

batch, units = rng.choice([64, 128, 256]), rng.choice([1024, 1536, 2048])
kind = ["arrays", "dataset", "cached", "generator", "py_dataset", "mapped", "loop"][seed % 7]
steps, epochs = rng.choice([60, 100]), rng.choice([2, 3])
rows = normal(batch * steps, 64)
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
model = dense(64, units, layers=3)
model.compile("sgd", "mse")
train_step = tf.function(make_step(model, keras.optimizers.SGD()))
if kind == "arrays":
    model.fit(rows, rows[:, :1], batch_size=batch, epochs=epochs, verbose=2)
elif kind == "loop":
    for _ in range(epochs):
        for x, y in data[kind]:
            train_step(x, y)
else:
    model.fit(data[kind], epochs=epochs, verbose=2)
