"""A search in the manner of Keras Tuner: models built by a function, callbacks copied, many short
fits."""

import copy
import itertools

import keras
import numpy as np
from digest import digest

rng = np.random.default_rng(10)
x = rng.normal(size=(200, 6)).astype("float32")
y = (x[:, :1] > 0).astype("float32")
callbacks = [
    keras.callbacks.EarlyStopping("val_loss", patience=1),
    keras.callbacks.TerminateOnNaN(),
]
results = {}
for units, rate in itertools.product((4, 8), (1e-1, 1e-2, 1e-3)):
    keras.backend.clear_session()
    keras.utils.set_random_seed(10)
    hidden = keras.layers.Dense(units, activation="relu")
    model = keras.Sequential([hidden, keras.layers.Dense(1, activation="sigmoid")])
    model.compile(keras.optimizers.Adam(rate), "binary_crossentropy")
    history = model.fit(
        x,
        y,
        validation_split=0.2,
        epochs=3,
        verbose=0,
        callbacks=[copy.deepcopy(one) for one in callbacks],
    )
    results[units, rate] = min(history.history["val_loss"])
    digest(model, history.history)
print(min(results, key=results.get))
