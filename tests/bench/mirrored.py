"""What does tfwatch record of a MirroredStrategy on two devices of one host?

    python -m tests.bench.mirrored OUT [--late 20]

Trains a network with large dense layers under the strategy, once as it is and once with batches
that come late by so many ms; a switch is asked for, and a profile. Prints a JSON object for each:
the medians of the parts of a step, ms, the answer to the switch, and the rows of the profile, with
their sum over the time in which the GPUs work. The recording of the profile is in OUT.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from tests.bench.profiles import Asks
from tests.bench.step_parts import Recordings
from tfwatch import Watch
from tfwatch.core.events import StepProfiled, SwitchFailed
from tfwatch.judge.profile.step_parts import step_parts
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.fit_runs import complete_runs

_STEPS, _SWITCHES, _PROFILES, _SETTLE, _ROWS = 200, 60, 100, 30, 12
_BATCH, _WIDTH = 256, 2048
#: The parts of a step in its row.
_PARTS = ("wait_ms", "copy_ms", "compute_ms", "host_ms")


class Switches(keras.callbacks.Callback):
    """Asks for a switch at one step."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Ask."""
        if batch == _SWITCHES:
            self._watch.set(prefetch=4)


def devices() -> list[str]:
    """Return two GPUs; without them two devices of the CPU."""
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU":
        (whole,) = tf.config.list_physical_devices(kind)
        halves = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(whole, halves)
    return [one.name for one in tf.config.list_logical_devices(kind)[:2]]


def make_data(late_ms: float) -> Any:
    """Return endless batches that come late."""
    x = np.random.default_rng(0).normal(size=(_BATCH, _WIDTH)).astype("float32")

    def batches() -> Any:
        while True:
            time.sleep(late_ms / 1e3)
            yield x, x[:, :1]

    kinds = tf.TensorSpec((_BATCH, _WIDTH)), tf.TensorSpec((_BATCH, 1))
    return tf.data.Dataset.from_generator(batches, output_signature=kinds)


def train(strategy: Any, late_ms: float, out: Path) -> dict[str, Any]:
    """Train, and return what was recorded."""
    with strategy.scope():
        body = [keras.layers.Dense(_WIDTH, activation="relu") for _ in range(4)]
        model = keras.Sequential([keras.Input((_WIDTH,)), *body, keras.layers.Dense(1)])
        model.compile("adam", "mse", jit_compile=False)
    recordings, watch = Recordings(out / f"late-{late_ms:.0f}.xplane.pb.gz"), Watch(out / "runs")
    calls = [watch, Switches(watch), Asks(watch, {_PROFILES})]
    model.fit(make_data(late_ms), steps_per_epoch=_STEPS, verbose=0, callbacks=calls)
    complete_runs()
    run = open_run(watch.run_path or "")
    profile = run.events.of(StepProfiled)[-1]
    parts = step_parts(profile)
    rows = run.steps[_SETTLE:]
    return {
        "late_ms": late_ms,
        "parts": {name: round(float(np.median(rows[name])), 3) for name in _PARTS},
        "switch": [one.reason for one in run.events.of(SwitchFailed)],
        "missing": profile.missing,
        "gaps_ms": profile.gaps_ms,
        "step_ms": profile.step_ms,
        "of_busy": recordings.of_busy,
        "rows": [(one.role, one.name, one.operation, one.took_ms) for one in parts[:_ROWS]],
    }


def main() -> int:
    """Train twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--late", type=float, default=20.0)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    strategy = tf.distribute.MirroredStrategy(devices())
    for late_ms in (0.0, asked.late):
        print(json.dumps(train(strategy, late_ms, asked.out)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
