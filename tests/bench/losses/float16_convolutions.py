"""float16-on-cpu: convolutions in float16 on a CPU without instructions for it."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
policy = rng.choice(["mixed_float16", "float16"])
keras.mixed_precision.set_global_policy("float32" if remedied else policy)
batch, size, width = rng.choice([16, 32]), rng.choice([24, 32]), rng.choice([16, 32])
images = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 40, size, size, 3))
x, y = images.astype("float32"), np.zeros(batch * 40, "float32")
kind = rng.choice([keras.layers.Conv2D, keras.layers.Conv2D, keras.layers.SeparableConv2D])
model = keras.Sequential(
    [
        keras.Input((size, size, 3)),
        keras.layers.Conv2D(width, 3, activation="relu"),
        *(kind(width, 3, activation="relu") for _ in range(rng.randint(1, 3))),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, dtype="float32"),
    ]
)
model.compile("sgd", "mse")
model.fit(x, y, batch_size=batch, epochs=rng.choice([4, 6]), verbose=2)
