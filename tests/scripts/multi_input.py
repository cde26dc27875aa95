"""Two inputs and two outputs by name, class weights by sample, and validation data."""

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(3)
title = keras.Input((None,), name="title", dtype="int32")
tags = keras.Input((12,), name="tags")
text = keras.layers.LSTM(8)(keras.layers.Embedding(100, 8)(title))
joined = keras.layers.concatenate([text, tags])
priority = keras.layers.Dense(1, name="priority", activation="sigmoid")(joined)
department = keras.layers.Dense(4, name="department")(joined)
model = keras.Model([title, tags], {"priority": priority, "department": department})
model.compile(
    "rmsprop",
    {
        "priority": "binary_crossentropy",
        "department": keras.losses.CategoricalCrossentropy(from_logits=True),
    },
    loss_weights={"priority": 1.0, "department": 0.2},
)
rng = np.random.default_rng(0)
x = {
    "title": rng.integers(100, size=(640, 10)),
    "tags": rng.integers(2, size=(640, 12)).astype("float32"),
}
y = {"priority": rng.random((640, 1)), "department": np.eye(4)[rng.integers(4, size=640)]}
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(640, seed=3).batch(32).prefetch(2)
history = model.fit(data, epochs=2, verbose=2, validation_data=data.take(4))
print(model.evaluate(data, verbose=0, return_dict=True))
digest(model, history.history)
