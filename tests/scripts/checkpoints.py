"""Checkpoints, an early stop, a learning rate that falls, and an exit code of its own."""

import pathlib
import sys
import tempfile

import keras
import numpy as np
from digest import digest

keras.utils.set_random_seed(7)
rng = np.random.default_rng(7)
x = rng.normal(size=(400, 10)).astype("float32")
y = x[:, :1] + rng.normal(size=(400, 1)).astype("float32")
model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.05), "mse")
with tempfile.TemporaryDirectory() as folder:
    history = model.fit(
        x,
        y,
        validation_split=0.25,
        epochs=30,
        verbose=2,
        callbacks=[
            keras.callbacks.ModelCheckpoint(
                f"{folder}/best-{{epoch:02d}}.keras", save_best_only=True
            ),
            keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True),
            keras.callbacks.ReduceLROnPlateau(patience=1),
            keras.callbacks.CSVLogger(f"{folder}/log.csv"),
        ],
    )
    print(sorted(path.name for path in pathlib.Path(folder).iterdir()))
    print(len(pathlib.Path(folder, "log.csv").read_text().splitlines()))
    again = keras.models.load_model(sorted(pathlib.Path(folder).glob("best-*.keras"))[-1])
    print(float(again.evaluate(x, y, verbose=0)).hex())
digest(model, history.history)
sys.exit(3)
