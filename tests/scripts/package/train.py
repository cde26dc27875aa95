import numpy as np
import tensorflow as tf
from digest import digest


def train(model, epochs):
    x = np.random.default_rng(12).normal(size=(256, 8)).astype("float32")
    data = (
        tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True)))
        .shuffle(256, seed=12)
        .batch(16)
    )
    history = model.fit(data, epochs=epochs, verbose=2)
    digest(model, history.history)
