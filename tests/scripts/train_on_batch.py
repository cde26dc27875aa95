"""A GAN by `train_on_batch` on numpy batches, then a classifier on a data set."""

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(8)
rng = np.random.default_rng(8)
generator = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(8)]
)
critic = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
)
critic.compile("adam", "mse")
frozen = keras.models.clone_model(critic)
frozen.trainable = False
both = keras.Sequential([generator, frozen])
both.compile("adam", "mse")
losses = []
for _ in range(30):
    real, noise = rng.normal(3, 1, (16, 8)), rng.normal(size=(16, 4))
    losses.append(critic.train_on_batch(real, np.ones((16, 1))))
    losses.append(critic.train_on_batch(generator.predict_on_batch(noise), np.zeros((16, 1))))
    frozen.set_weights(critic.get_weights())
    losses.append(both.train_on_batch(noise, np.ones((16, 1))))
print(len(losses))
digest(both, {"losses": losses})

x = rng.normal(size=(256, 8)).astype("float32")
data = (
    tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True)))
    .shuffle(256, seed=8)
    .batch(16)
)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae"])
logs = []
for epoch in range(2):
    for inputs, targets in data:
        logs.append(model.train_on_batch(inputs, targets, return_dict=True)["loss"])
    print(epoch, model.evaluate(data, verbose=0))
digest(model, {"logs": logs})
