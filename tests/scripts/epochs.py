"""A training that writes a line for each epoch: a digest of its weights, and the loss."""

import hashlib
import sys

import keras
import tensorflow as tf

EPOCHS, STEPS, BATCH = 30, 20, 32

keras.utils.set_random_seed(1)
numbers = tf.random.normal((STEPS * BATCH, 64), seed=1)
data = tf.data.Dataset.from_tensor_slices((numbers, tf.reduce_sum(numbers, 1)))
data = data.shuffle(200, seed=1).map(lambda x, y: (tf.sort(x), y)).batch(BATCH)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("adam", "mse")


def note(epoch: int, logs: dict) -> None:
    weights = b"".join(weight.tobytes() for weight in model.get_weights())
    with open(sys.argv[1], "a") as results:
        results.write(f"{epoch} {logs['loss']!r} {hashlib.sha256(weights).hexdigest()}\n")


noting = keras.callbacks.LambdaCallback(on_epoch_end=note)
model.fit(data, epochs=EPOCHS, verbose=0, callbacks=[noting])
