"""Many short fits, and what the model waits for between two of them."""

import numpy as np
from drawn import cause, dense, normal, numbers, remedied, rng


def train_on_chunks():
    units, chunks, count = rng.choice([64, 256]), rng.choice([20, 30]), rng.choice([3000, 6000])
    model = dense(32, units)
    model.compile("sgd", "mse")

    def load():
        sorted_rows = [np.sort(numbers.normal(size=32)) for _ in range(count * 20)]
        return np.asarray(sorted_rows[:count], "float32")

    x = load()
    for _ in range(chunks):
        if not remedied:
            x = load()
        model.fit(x, x[:, :1], verbose=0)


def train_on_predictions():
    units, rounds, plays = rng.choice([32, 128]), rng.choice([15, 25]), rng.choice([8, 16])
    model = dense(8, units, outputs=2)
    model.compile("adam", "mse")
    for _ in range(rounds):
        states = normal(plays, 8)
        if remedied:
            values = np.asarray(model(states))
        else:
            values = np.concatenate([model.predict(one[None], verbose=0) for one in states])
        model.fit(states, 0.9 * values, batch_size=8, verbose=0)


def train_new_models():
    units, layers, folds = rng.choice([64, 256]), rng.randint(2, 8), rng.randint(8, 14)
    x, y = normal(rng.choice([1000, 2000]), 16), normal(2000, 1)

    def build():
        model = dense(16, units, layers)
        model.compile("adam", "mse")
        return model

    model = build()
    first = model.get_weights()
    for _ in range(folds):
        if remedied:
            model.set_weights(first)
        else:
            model = build()
        model.fit(x, y[: len(x)], batch_size=128, epochs=2, verbose=0)


match cause:
    case "chunks_between_fits":
        train_on_chunks()
    case "predict_between_fits":
        train_on_predictions()
    case "new_models":
        train_new_models()
