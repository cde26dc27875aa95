"""shuffle-fill: each epoch waits until a shuffle buffer of slowly read elements is full."""

import random
import sys
import time

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, filters, epochs = rng.choice([8, 16]), rng.choice([16, 32]), rng.choice([32, 48])
count, wait_s = batch * 40, rng.choice([0.01, 0.02])
image = np.random.default_rng(int(sys.argv[1])).normal(size=(64, 64, 3)).astype("float32")


def read(_):
    time.sleep(wait_s)
    return image


def slow(n):
    x = tf.numpy_function(read, [n], tf.float32)
    x.set_shape((64, 64, 3))
    return x, tf.cast(n % 10, tf.int32)


data = tf.data.Dataset.range(count)
if remedied:
    data = data.shuffle(count).map(slow, num_parallel_calls=8)
else:
    data = data.map(slow, num_parallel_calls=8).shuffle(count)
options = tf.data.Options()
options.threading.private_threadpool_size = 8
model = keras.Sequential(
    [
        keras.Input((64, 64, 3)),
        keras.layers.Conv2D(filters, 3, activation="relu"),
        keras.layers.Conv2D(filters, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data.batch(batch).prefetch(2).with_options(options), epochs=epochs, verbose=2)
