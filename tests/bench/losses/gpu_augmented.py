"""augmentation: layers that augment images within the step."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, size = rng.choice([32, 64]), rng.choice([128, 224])
images = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 20, size, size, 3))
x, y = images.astype("float32"), np.zeros(batch * 20)
augment = [keras.layers.RandomRotation(0.1), keras.layers.RandomZoom(0.2)][: rng.choice([1, 2])]
model = keras.Sequential(
    [
        keras.Input((size, size, 3)),
        *([] if remedied else augment),
        keras.layers.Conv2D(8, 3, strides=4, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
if remedied:
    layers = keras.Sequential(augment)
    data = data.map(lambda x, y: (layers(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)
model.fit(data.prefetch(2), epochs=rng.choice([60, 100]), verbose=2)
