"""copy-bound: batches in ordinary memory are copied to the GPU at a fifth of its bus."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, size, filters = rng.choice([32, 64, 96]), rng.choice([160, 224]), rng.choice([8, 16, 32])
images = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 8, size, size, 3))
images = images.astype("float32")
data = tf.data.Dataset.from_tensor_slices((images, np.arange(batch * 8) % 10)).repeat(200)
if remedied:
    data = data.map(lambda *parts: parts, num_parallel_calls=tf.data.AUTOTUNE)
data = data.batch(batch)
if remedied:  # options between the map and the batch would keep them two stages
    options = tf.data.Options()
    options.experimental_optimization.noop_elimination = False
    data = data.with_options(options)
model = keras.Sequential(
    [
        keras.Input((size, size, 3)),
        keras.layers.Conv2D(filters, 5, strides=4, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss, jit_compile=False)
model.fit(data.prefetch(4), epochs=1, verbose=2)
