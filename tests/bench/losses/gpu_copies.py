"""Batches in ordinary memory are copied to the GPU at a fifth of its bus."""

import keras
import numpy as np
import tensorflow as tf
from drawn import normal, pooled, remedied, rng

batch, size, filters = rng.choice([32, 64, 96]), rng.choice([160, 224]), rng.choice([8, 16, 32])
images = normal(batch * 8, size, size, 3)
data = tf.data.Dataset.from_tensor_slices((images, np.arange(batch * 8) % 10)).repeat(200)
if remedied:
    data = data.map(lambda *parts: parts, num_parallel_calls=tf.data.AUTOTUNE)
data = data.batch(batch)
if remedied:  # options between the map and the batch would keep them two stages
    options = tf.data.Options()
    options.experimental_optimization.noop_elimination = False
    data = data.with_options(options)
model = pooled(size, keras.layers.Conv2D(filters, 5, strides=4, activation="relu"))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss, jit_compile=False)
model.fit(data.prefetch(4), epochs=1, verbose=2)
