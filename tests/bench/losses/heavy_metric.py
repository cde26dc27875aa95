"""metric: a metric that takes longer than the model."""

import random
import sys

import keras
import numpy as np

rng, remedied = random.Random(sys.argv[1]), "remedied" in sys.argv
batch, thresholds = rng.choice([1024, 2048]), rng.choice([400, 800, 1600])
x = np.random.default_rng(int(sys.argv[1])).normal(size=(batch * 200, 32)).astype("float32")
y = (x[:, :1] > 0).astype("float32")
# Thresholds that are not evenly spaced are compared with each prediction.
marks = sorted(rng.random() for _ in range(thresholds))
auc = keras.metrics.AUC(thresholds=marks, name="auc")
model = keras.Sequential(
    [
        keras.Input((32,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=[] if remedied else [auc])
epochs = rng.choice([60, 80]) * 1024 * 400 // (batch * thresholds)
model.fit(x, y, batch_size=batch, epochs=epochs, verbose=2)
