"""A `CallbackList` of the script's own, used for two fits."""

import keras
import numpy as np
from digest import digest

keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)
x = rng.normal(size=(256, 6)).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
seen = []
note = keras.callbacks.LambdaCallback(
    on_train_batch_end=lambda batch, logs: seen.append(logs["loss"])
)
own = keras.callbacks.CallbackList(
    [note], add_history=True, model=model, epochs=2, steps=8, verbose=2
)
for _ in range(2):
    history = model.fit(x, y, epochs=2, callbacks=own, verbose=0, validation_data=(x, y))
print([type(one).__name__ for one in own.callbacks], own.params)
digest(model, {**history.history, "seen": seen})
