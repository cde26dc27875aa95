"""What a process of its own shows: devices before TensorFlow starts, two logical devices, and the
process' end.

python -m tests.watch.own_process FOLDER
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.runs.folders import make_manifest
from tests.watch import spread
from tfwatch import Watch
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.fit import fit_runs
from tfwatch.watch.loops.async_loop import can_probe_gpu, make_completion_probe


def set_devices() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    tf.constant(1)


def completions() -> Iterator[bool]:
    """Yield whether each of some completions is between two readings of the run's clock."""
    writer = RunWriter(None, make_manifest())
    probe = make_completion_probe(writer, "/CPU:0")
    for _ in range(100):
        before_ns = writer.now_ns()
        completed_ns = probe()
        yield before_ns - 1e6 < completed_ns < writer.now_ns() + 1e6


def fit_shortly(folder: str) -> None:
    """Fit three times in a row; the process ends before the last run does."""
    fit_runs.SHORT_S = 1e3  # however busy the machine
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for _ in range(3):
        model.fit(
            np.ones((24, 3)), np.ones((24, 1)), batch_size=8, verbose=0, callbacks=[Watch(folder)]
        )


def main(folder: str) -> None:
    can_probe = [can_probe_gpu()]
    set_devices()
    can_probe.append(can_probe_gpu())
    seen: dict[str, Any] = {"can_probe": can_probe, "completions": list(completions())}
    seen.update(spread.train_all(f"{folder}/spread"))
    fit_shortly(f"{folder}/short")
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
