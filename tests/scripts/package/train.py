import hashlib

import numpy as np
import tensorflow as tf


def train(model, epochs):
    x = np.random.default_rng(12).normal(size=(256, 8)).astype("float32")
    data = (
        tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True)))
        .shuffle(256, seed=12)
        .batch(16)
    )
    history = model.fit(data, epochs=epochs, verbose=2)
    print([loss.hex() for loss in history.history["loss"]])
    print(hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest())
