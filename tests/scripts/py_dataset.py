"""A `PyDataset` whose batches are made by two processes."""

import keras
import numpy as np
from digest import digest


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        x = rng.normal(size=(16, 8)).astype("float32")
        return x, x.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(
        Batches(workers=2, use_multiprocessing=True, max_queue_size=4),
        epochs=2,
        shuffle=False,
        verbose=2,
    )
    digest(model, history.history)
