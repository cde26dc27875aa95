"""Three fits: of a data set, of arrays, and with a Watch of the script's own. Then all loops of
`together`.

The last fit has a map that raises.
"""

import hashlib
import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfwatch import Watch

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential(
    [keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256, seed=1).batch(32)
first = model.fit(data, epochs=2, verbose=0)
model.fit(x, y, epochs=1, verbose=0, callbacks=keras.callbacks.LambdaCallback())
model.fit(x, y, epochs=1, verbose=0, callbacks=[Watch(sys.argv[1])])
if os.fork() == 0:  # a child that ends as processes do, and records nothing
    sys.exit(0)
os.wait()
import together  # noqa: E402, F401

print([loss.hex() for loss in first.history["loss"]])
print(hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest())


def read(n):
    raise ValueError("no such image")


broken = tf.data.Dataset.range(64).map(lambda n: tf.py_function(read, [n], tf.float32)).batch(8)
model.fit(broken, verbose=0)
