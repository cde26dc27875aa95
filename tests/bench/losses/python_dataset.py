"""input-bound: a PyDataset whose Python is slower than the model."""

import random
import sys
import time

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
wait_s, units, steps = rng.choice([0.02, 0.03, 0.05]), rng.choice([128, 256]), 150
rows = np.random.default_rng(int(sys.argv[1])).normal(size=(32, 64)).astype("float32")


class Files(keras.utils.PyDataset):
    def __len__(self):
        return steps

    def __getitem__(self, n):
        time.sleep(wait_s)
        return rows, rows[:, :1]


model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
)
model.compile("sgd", "mse")
data = Files(workers=16, max_queue_size=32) if remedied else Files()
model.fit(data, epochs=3, verbose=2)
