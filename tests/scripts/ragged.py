"""Ragged tokens and sparse features in one data set of unknown length."""

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
tokens = tf.ragged.constant(
    [rng.integers(1, 50, size=rng.integers(1, 9)).tolist() for _ in range(300)], dtype=tf.int32
)
bags = tf.sparse.from_dense((rng.random((300, 20)) > 0.8).astype("float32"))
labels = rng.random((300, 1)).astype("float32")


def split(token, bag, label):
    return {"tokens": token.to_tensor(shape=(None, 8)), "bag": tf.sparse.to_dense(bag)}, label


data = tf.data.Dataset.from_tensor_slices((tokens, bags, labels)).filter(
    lambda token, bag, label: label[0] > 0.05
)
data = data.batch(16).map(split)
token_input, bag_input = (
    keras.Input((8,), name="tokens", dtype="int32"),
    keras.Input((20,), name="bag"),
)
embedded = keras.layers.GlobalAveragePooling1D()(
    keras.layers.Embedding(50, 8, mask_zero=True)(token_input)
)
output = keras.layers.Dense(1)(
    keras.layers.concatenate([embedded, keras.layers.Dense(4)(bag_input)])
)
model = keras.Model({"tokens": token_input, "bag": bag_input}, output)
model.compile("adam", "mse")
history = model.fit(data, epochs=3, verbose=2)
print(int(model.optimizer.iterations))
digest(model, history.history)
