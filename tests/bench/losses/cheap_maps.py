"""cheap-maps: cheap maps before the batch; the calls cost more than the work."""

import random
import sys

import keras
import numpy as np
import tensorflow as tf

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, columns, units = rng.choice([256, 512, 1024]), rng.choice([8, 24, 64]), rng.choice([16, 64])
maps, epochs = rng.randint(1, 3), rng.choice([5, 8])
rows = np.random.default_rng(int(sys.argv[1])).integers(0, 255, (40_000, columns), dtype=np.uint8)
data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1].astype("float32")))
if remedied:
    data = data.batch(batch)
data = data.map(lambda x, y: (tf.cast(x, tf.float32), y))
for _ in range(maps):
    data = data.map(lambda x, y: (x / 255.0, y))
if not remedied:
    data = data.batch(batch)
model = keras.Sequential(
    [keras.Input((columns,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
model.fit(data, epochs=epochs, verbose=2)
