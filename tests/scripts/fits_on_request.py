"""A script that knows nothing of tfwatch: for each line `DATA STEPS` on standard input, one `fit`; prints its ms.

DATA: arrays, or tf.data. The first line of the output says that the script is ready.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

WIDTH, BATCH, MOST_STEPS = 64, 32, 4_000


def main() -> None:
    """Fit on request until standard input ends."""
    random = np.random.default_rng(1)
    x = random.standard_normal((BATCH * MOST_STEPS, WIDTH), np.float32)
    y = random.integers(0, 10, len(x))
    model = keras.Sequential(
        [keras.layers.Dense(WIDTH, "relu") for _ in range(3)] + [keras.layers.Dense(10)]
    )
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).repeat().prefetch(2)
    print("ready", flush=True)
    for line in sys.stdin:
        data, steps = line.split()
        count = BATCH * int(steps)
        begun_s = time.perf_counter()
        if data == "arrays":
            model.fit(x[:count], y[:count], batch_size=BATCH, verbose=0)
        else:
            model.fit(dataset, steps_per_epoch=int(steps), verbose=0)
        print((time.perf_counter() - begun_s) * 1e3, flush=True)


if __name__ == "__main__":
    main()
