"""Transfer: a frozen base and a new head, then all layers with a smaller rate."""

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(6)
base = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.BatchNormalization(),
    ]
)
base.trainable = False
inputs = keras.Input((16, 16, 3))
features = keras.layers.GlobalAveragePooling2D()(base(inputs, training=False))
model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Dropout(0.2)(features)))
rng = np.random.default_rng(6)
images, labels = rng.random((320, 16, 16, 3)).astype("float32"), rng.integers(3, size=320)
augment = keras.Sequential([keras.layers.RandomFlip("horizontal", seed=6)])
data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32)
data = data.map(lambda x, y: (augment(x, training=True), y), num_parallel_calls=1).prefetch(
    tf.data.AUTOTUNE
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(), loss, metrics=["accuracy"])
first = model.fit(data, epochs=2, verbose=2)
base.trainable = True
model.compile(keras.optimizers.Adam(1e-5), loss, metrics=["accuracy"])
second = model.fit(data, epochs=3, initial_epoch=2, verbose=2)
digest(model, {"first": first.history["loss"], "second": second.history["loss"]})
