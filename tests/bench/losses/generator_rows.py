"""A generator yields single rows, and batch puts them together."""

import tensorflow as tf
from drawn import dense, normal, remedied, rng

batch, columns, units = rng.choice([64, 128, 256]), rng.choice([16, 64]), rng.choice([32, 128])
count = batch * rng.choice([40, 60])
rows = normal(count, columns)


def single():
    for n in range(count):
        yield rows[n], rows[n, :1]


def batches():
    for n in range(0, count, batch):
        yield rows[n : n + batch], rows[n : n + batch, :1]


def specs(*lead):
    return tf.TensorSpec((*lead, columns)), tf.TensorSpec((*lead, 1))


if remedied:
    data = tf.data.Dataset.from_generator(batches, output_signature=specs(batch))
else:
    data = tf.data.Dataset.from_generator(single, output_signature=specs()).batch(batch)
model = dense(columns, units)
model.compile("sgd", "mse")
model.fit(data.prefetch(2), epochs=rng.choice([100_000, 140_000]) // count, verbose=2)
