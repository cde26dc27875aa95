"""Images that are decoded one by one: a pipeline without a word of tuning. Prints the median step
of the last half."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

STEPS, FILTERS = int(sys.argv[1]), int(sys.argv[2])
random = np.random.default_rng(0)
images = [
    tf.io.encode_jpeg(random.integers(0, 255, (320, 320, 3), dtype=np.uint8)).numpy()
    for _ in range(256)
]
labels = random.integers(0, 10, 256)


def decode(image, label):
    image = tf.image.resize(tf.io.decode_jpeg(image, channels=3), (96, 96))
    return image / 255.0, label


dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat()
dataset = dataset.map(decode)
dataset = dataset.batch(32)
options = tf.data.Options()
options.experimental_optimization.map_parallelization = (
    False  # TensorFlow makes such a map parallel by itself
)
dataset = dataset.with_options(options)


class Times(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ends_s = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends_s.append(time.perf_counter())


keras.utils.set_random_seed(1)
convolutions = [keras.layers.Conv2D(FILTERS, 3, strides=2, activation="relu") for _ in range(3)]
model = keras.Sequential(
    [keras.Input((96, 96, 3)), *convolutions, keras.layers.Flatten(), keras.layers.Dense(10)]
)
model.compile(
    "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False
)
times = Times()
model.fit(dataset, steps_per_epoch=STEPS, verbose=0, callbacks=[times])
print("median step", np.median(np.diff(times.ends_s[STEPS // 2 :])) * 1e3, "ms")
