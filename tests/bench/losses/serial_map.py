"""A map that works on one core at a time."""

import keras
import numpy as np
import tensorflow as tf
from drawn import numbers, pooled, remedied, rng

batch, size = rng.choice([16, 32]), rng.choice([64, 96, 128])
repeats = rng.choice([25, 35]) * 16 * 64 * 64 // (batch * size * size)
pixels = numbers.integers(0, 255, (size, size, 3), dtype=np.uint8)
files = [tf.io.encode_jpeg(np.roll(pixels, n, 0)).numpy() for n in range(batch * 60)]
options = tf.data.Options()
options.experimental_optimization.map_parallelization = False


def decode(file):
    image = tf.image.decode_jpeg(file, channels=3)
    image = tf.image.resize(tf.cast(image, tf.float32) / 255.0, (4 * size, 4 * size))
    return tf.image.resize(image, (48, 48)), 0.0


data = tf.data.Dataset.from_tensor_slices(files).repeat(repeats)
data = data.map(decode, num_parallel_calls=tf.data.AUTOTUNE if remedied else None).batch(batch)
model = pooled(48, keras.layers.Conv2D(8, 3, strides=2, activation="relu"), outputs=1)
model.compile("sgd", "mse")
data, steps = data.prefetch(2).with_options(options), None
if remedied:
    data, steps = data.repeat(), 60 * repeats
model.fit(data, epochs=4, steps_per_epoch=steps, verbose=2)
