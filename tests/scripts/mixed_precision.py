"""Mixed precision, a schedule of the learning rate, a class in its own right as a callback, and
TensorBoard's logs."""

import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.mixed_precision.set_global_policy("mixed_float16")
keras.utils.set_random_seed(14)
rng = np.random.default_rng(14)
images, labels = rng.random((256, 12, 12, 1)).astype("float32"), rng.integers(4, size=256)
data = tf.data.Dataset.from_tensor_slices((images, labels)).cache().shuffle(256, seed=14).batch(16)


class Rates(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.rates = []

    def on_epoch_end(self, epoch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


model = keras.Sequential(
    [
        keras.Input((12, 12, 1)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(4, dtype="float32"),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
rates = Rates()
with tempfile.TemporaryDirectory() as folder:
    schedule = keras.callbacks.LearningRateScheduler(
        lambda epoch, rate: rate * 0.5 if epoch else rate, verbose=1
    )
    board = keras.callbacks.TensorBoard(folder, histogram_freq=1, update_freq=4, write_graph=False)
    history = model.fit(
        data, epochs=3, validation_data=data.take(4), verbose=2, callbacks=[schedule, rates, board]
    )
    steps = {}
    for file in sorted(pathlib.Path(folder).rglob("events.out.*")):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                steps.setdefault(f"{file.parent.name}/{value.tag}", []).append(event.step)
    print(steps)
print(type(model.optimizer).__name__, [variable.dtype for variable in model.layers[0].weights])
digest(model, {**history.history, "rates": rates.rates})
