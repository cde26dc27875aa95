"""Each epoch waits until a shuffle buffer of slowly read elements is full."""

import time

import keras
import tensorflow as tf
from drawn import normal, pooled, remedied, rng, tensor

batch, filters, epochs = rng.choice([8, 16]), rng.choice([16, 32]), rng.choice([32, 48])
count, wait_s = batch * 40, rng.choice([0.01, 0.02])
image = normal(64, 64, 3)


def read(_):
    time.sleep(wait_s)
    return image


def slow(n):
    return tensor(read, n, image.shape), tf.cast(n % 10, tf.int32)


data, steps = tf.data.Dataset.range(count), None
if remedied:
    data, steps = data.shuffle(count).map(slow, num_parallel_calls=8).repeat(), 40
else:
    data = data.map(slow, num_parallel_calls=8).shuffle(count)
options = tf.data.Options()
options.threading.private_threadpool_size = 8
first = keras.layers.Conv2D(filters, 3, activation="relu")
model = pooled(64, first, keras.layers.Conv2D(filters, 3, strides=2, activation="relu"))
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = data.batch(batch).prefetch(2).with_options(options)
model.fit(data, epochs=epochs, steps_per_epoch=steps, verbose=2)
