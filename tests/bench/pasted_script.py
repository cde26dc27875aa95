"""A training on JPEGs, as a user writes it, with one line pasted: `pasted_script.py BATCH DTYPE
LINE`.

LINE is `none`, or the setting that `tests.bench.pasted` compares with the same switch made live.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

batch, dtype, line = int(sys.argv[1]), sys.argv[2], sys.argv[3]
noise = np.random.default_rng(0).integers(0, 255, (64, 224, 224, 3), dtype=np.uint8)
files = [tf.io.encode_jpeg(image).numpy() for image in noise]


def decode(file, label):
    image = tf.io.decode_jpeg(file, channels=3)
    image = tf.ensure_shape(image, (224, 224, 3))
    return tf.cast(image, dtype), label


data = tf.data.Dataset.from_tensor_slices((files, np.arange(64) % 10)).repeat(batch * 600 // 64)
calls = {"workers=8": 8, "workers=auto": tf.data.AUTOTUNE}.get(line)
data = data.map(decode, num_parallel_calls=calls)
if line == "cache=on":
    data = data.cache()
data = data.batch(batch, drop_remainder=True)
if line.startswith("prefetch="):
    data = data.prefetch(int(line.removeprefix("prefetch=")))
if line.startswith("device-prefetch="):
    size = int(line.removeprefix("device-prefetch="))
    data = data.apply(tf.data.experimental.prefetch_to_device("/GPU:0", size))

model = keras.Sequential(
    [
        keras.Input((224, 224, 3), dtype=dtype),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(32, 5, strides=2, activation="relu"),
        keras.layers.Conv2D(64, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(128, 3, activation="relu"),
        keras.layers.Conv2D(128, 3, activation="relu"),
        keras.layers.Conv2D(128, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss, jit_compile=False)  # XLA compiles for a minute
model.fit(data, epochs=1, steps_per_epoch=560, verbose=2)
