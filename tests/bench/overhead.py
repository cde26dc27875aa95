"""What Watch adds to a step: `fit` with it against `fit` without, interleaved in one process.

    python -m tests.bench.overhead [--pairs 10] [--steps 300] [--width 256]

Prints a row a round and the median ratio, beside the ratio of two bare runs: the noise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from tfwatch import Watch


def make_model(width: int) -> Any:
    """A dense net whose step takes about 2 ms on two cores."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((width,)),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def make_data(width: int, batch: int) -> tf.data.Dataset:
    """Random examples without an end."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4096, width)).astype("float32")
    y = rng.integers(0, 10, size=4096)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch).cache().repeat()


def time_ms(model: Any, data: tf.data.Dataset, steps: int, callbacks: list[Any]) -> float:
    """Milliseconds a step of one `fit` of one epoch, from its first batch's end to its last's."""
    clock = _Clock()
    model.fit(data, epochs=1, steps_per_epoch=steps, verbose=0, callbacks=[*callbacks, clock])
    return (clock.last_s - clock.first_s) / (steps - clock.skip) * 1e3


class _Clock(keras.callbacks.Callback):
    skip = 20

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.last_s = time.perf_counter()
        if batch == self.skip - 1:
            self.first_s = self.last_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    data = make_data(options.width, options.batch)
    with tempfile.TemporaryDirectory() as runs_dir:
        arms: dict[str, tuple[Any, list[Any]]] = {
            "bare": (make_model(options.width), []),
            "watch": (make_model(options.width), [Watch(runs_dir)]),
            "bare again": (make_model(options.width), []),
        }
        for model, callbacks in arms.values():
            time_ms(model, data, 50, callbacks)
        rows = []
        for n in range(options.pairs):
            names = list(arms) if n % 2 else list(reversed(arms))
            row = {name: time_ms(arms[name][0], data, options.steps, arms[name][1]) for name in names}
            rows.append(row)
            print(f"{n + 1:3d}  " + "  ".join(f"{name} {row[name]:.3f} ms" for name in arms), flush=True)
    _print_ratios(rows)


def _print_ratios(rows: list[dict[str, float]]) -> None:
    for name in ("watch", "bare again"):
        ratios = [row[name] / row["bare"] for row in rows]
        added = [(row[name] - row["bare"]) * 1e3 for row in rows]
        print(
            f"{name} / bare: median {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), "
            f"added {statistics.median(added):+.0f} us a step"
        )


if __name__ == "__main__":
    main()
