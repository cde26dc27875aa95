"""A `fit` on two devices of a `MirroredStrategy`, with validation on the same devices."""

import keras
import numpy as np
import tensorflow as tf
from digest import digest

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
print("devices:", strategy.num_replicas_in_sync)

keras.utils.set_random_seed(13)
rng = np.random.default_rng(13)
x = rng.normal(size=(512, 12)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y))
train = (
    data.shuffle(512, seed=13)
    .map(lambda x, y: (x * 2.0, y), num_parallel_calls=2)
    .batch(32)
    .prefetch(2)
)
with strategy.scope():
    model = keras.Sequential(
        [keras.Input((12,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
    )
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
history = model.fit(train, epochs=3, validation_data=data.batch(64), verbose=2)
digest(model, history.history)
