"""What do profiles of a few steps cost a training, and does it stay the same?

    python -m tests.bench.profiles [--profiles 50] [--model cnn]

Trains a model twice under Watch with deterministic operations: once with profiles asked for at
random steps. Prints whether weights and losses are equal, the cost of a profile (starting it,
and the slower steps), and the memory at the first and the last profile. Exits with 1
where a bit differs.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import psutil
import tensorflow as tf

from tfwatch import Watch
from tfwatch.core.events import StepProfiled
from tfwatch.core.rows import Flag, step_ms
from tfwatch.runs.requests import ProfileRequest, append
from tfwatch.runs.run import open_run

#: Steps between two profiles on average, and steps of an epoch.
_BETWEEN, _EPOCH = 60, 300


class Asks(keras.callbacks.Callback):
    """Asks for a profile at random steps; notes losses, and memory at each request."""

    def __init__(self, watch: Watch, count: int) -> None:
        super().__init__()
        chooser = random.Random(7)
        self.losses: list[float] = []
        self.memory: list[int] = []
        self._watch = watch
        self._at = {n * _BETWEEN + chooser.randrange(_BETWEEN // 2) for n in range(1, count + 1)}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the loss; ask."""
        self.losses.append(logs["loss"])
        if len(self.losses) in self._at and self._watch.run_path is not None:
            append(self._watch.run_path, ProfileRequest("command"))
            self.memory.append(psutil.Process().memory_info().rss)


def make_model(kind: str) -> tuple[Any, tuple[int, ...]]:
    """Return a model and the shape of an example."""
    keras.utils.set_random_seed(3)
    layers = keras.layers
    if kind == "dense":
        model = keras.Sequential([keras.Input((64,)), layers.Dense(128), layers.Dense(1)])
    elif kind == "lstm":
        model = keras.Sequential([keras.Input((40, 16)), layers.LSTM(32), layers.Dense(1)])
    else:
        body = [layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(32, 3, activation="relu")]
        pool = layers.GlobalAveragePooling2D()
        model = keras.Sequential([keras.Input((64, 64, 3)), *body, pool, layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    return model, model.input_shape[1:]


def train(kind: str, folder: Path, count: int, steps: int) -> tuple[Any, Asks, Any]:
    """Train; return the weights, the callback and the run."""
    model, shape = make_model(kind)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32 * 20, *shape)).astype("float32"), rng.normal(size=(32 * 20, 1))
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32)
    watch = Watch(folder)
    asks = Asks(watch, count)
    epochs = -(-steps // _EPOCH)
    model.fit(data, epochs=epochs, steps_per_epoch=_EPOCH, verbose=0, callbacks=[watch, asks])
    return [one.tobytes() for one in model.get_weights()], asks, open_run(watch.run_path or "")


def report(kind: str, is_equal: bool, asks: Asks, run: Any) -> None:
    """Print the figures of a training."""
    done = [event for event in run.events.of(StepProfiled) if not event.missing]
    whole = step_ms(run.steps, np.float64)
    is_profiled = run.steps["flags"] & int(Flag.PROFILED) > 0
    plain_ms = float(whole[run.steps["flags"] == 0].mean())
    slower = float((whole[is_profiled] - plain_ms).sum()) / max(len(done), 1)
    costs = [event.cost_ms for event in done]
    print(
        f"{kind}: {len(done)} profiles, weights and losses"
        f" {'equal' if is_equal else 'DIFFER'}; starting takes {median(costs):.1f} ms, most"
        f" {max(costs):.1f}; with the slower steps {slower:.1f} ms each; step"
        f" {np.median(whole[~is_profiled]):.2f} ms; memory {asks.memory[0] >> 20} to"
        f" {asks.memory[-1] >> 20} MB; first {costs[0]:.1f} ms"
    )


def main() -> int:
    """Train twice and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profiles", type=int, default=50)
    parser.add_argument("--model", choices=["cnn", "dense", "lstm"], default="cnn")
    asked = parser.parse_args()
    tf.config.experimental.enable_op_determinism()
    steps = _BETWEEN * (asked.profiles + 2)
    with tempfile.TemporaryDirectory() as folder:
        plain, without, _ = train(asked.model, Path(folder, "a"), 0, steps)
        weights, asks, run = train(asked.model, Path(folder, "b"), asked.profiles, steps)
        is_equal = weights == plain and asks.losses == without.losses
        report(asked.model, is_equal, asks, run)
    return int(not is_equal)


if __name__ == "__main__":
    sys.exit(main())
