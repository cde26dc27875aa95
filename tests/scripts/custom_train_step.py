"""A `train_step` of its own, in the manner of the Keras guide: metrics, sample weights, a second
loss."""

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(1)


class CustomModel(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae = keras.metrics.MeanAbsoluteError(name="mae")

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = keras.ops.mean(keras.losses.mean_squared_error(y, y_pred)) + 1e-3 * sum(
                keras.ops.sum(keras.ops.square(w)) for w in self.trainable_weights
            )
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        )
        self.loss_tracker.update_state(loss)
        self.mae.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input((32,))
outputs = keras.layers.Dense(1)(
    keras.layers.Dropout(0.3)(keras.layers.Dense(16, activation="relu")(inputs))
)
model = CustomModel(inputs, outputs)
model.compile(optimizer="adam")
x, y = np.random.random((1000, 32)), np.random.random((1000, 1))
history = model.fit(x, y, epochs=3, verbose=2)
digest(model, history.history)
