"""What a process of its own shows: devices before TensorFlow starts, two logical devices, and the
process' end.

python -m tests.watch.own_process FOLDER
"""

import json
import math
import sys
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.runs.folders import make_manifest
from tests.watch import spread
from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched
from tfwatch.runs.run import open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.tfdata import work_ahead
from tfwatch.watch.fit import fit_runs
from tfwatch.watch.fit.stepping import device_copy
from tfwatch.watch.fit.stepping.batch_step import BatchStep
from tfwatch.watch.fit.stepping.device_copy import DeviceCopy
from tfwatch.watch.fit.switching import requested_switches
from tfwatch.watch.loops.async_loop import can_probe_gpu, make_completion_probe

#: The CPU that stands in for a GPU.
SECOND = "/job:localhost/replica:0/task:0/device:CPU:1"


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


def copy_ahead(folder: str, *, pinned: bool) -> list[Any]:
    """Train on the first CPU as it is, and with batches copied to the second one ahead and not;
    return whether both are equal, the switches, and the devices that the step was built for."""
    built: list[Any] = []
    real = BatchStep.build

    def build(step: BatchStep, batch: Any) -> None:
        real(step, batch)
        built.append([part.device for part in batch])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_ahead, "DEVICE", "/CPU:1")
        patch.setattr(device_copy, "find_device", lambda *_, **__: SECOND)
        patch.setattr(device_copy, "_PINNED", 0.0 if pinned else math.inf)
        patch.setattr(DeviceCopy, "is_there", lambda _, batch: batch[0].device == SECOND)
        patch.setattr(requested_switches, "why_no_device_prefetch", lambda: None)
        patch.setattr(BatchStep, "build", build)
        stock, _ = _fit_copied(None)
        watched, run = _fit_copied(folder)
    switches = [(one.new, one.step) for one in run.events.of(PipelineSwitched)]
    return [stock == watched, switches, built]


def _fit_copied(folder: str | None) -> tuple[list[Any], Any]:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((64, 64, 3)), keras.layers.AveragePooling2D(8)])
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dropout(0.3))
    model.add(keras.layers.Dense(4))
    model.compile("adam", "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=(24 * 40, 64, 64, 3)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, 0, 0, :1])).batch(24)
    watch = Watch(folder) if folder else None
    losses: list[float] = []

    def end(_: int, logs: Any) -> None:
        losses.append(logs["loss"])
        if watch and len(losses) in (4, 24):
            watch.set(device_prefetch=2 if len(losses) == 4 else "off")
        if len(losses) == 8:
            _join("tfwatch-warm-up")

    after = keras.callbacks.LambdaCallback(on_train_batch_end=end)
    model.fit(data, verbose=0, callbacks=[after, *([watch] if watch else [])])
    weights = [one.tobytes().hex() for one in model.get_weights()]
    run = open_run(watch.run_path) if watch and watch.run_path else None
    return [losses, weights, int(model.optimizer.iterations)], run


def _join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


def main(folder: str) -> None:
    can_probe = [can_probe_gpu()]
    set_devices()
    can_probe.append(can_probe_gpu())
    seen: dict[str, Any] = {"can_probe": can_probe, "completions": list(completions())}
    seen["copied"] = [copy_ahead(f"{folder}/copied", pinned=pinned) for pinned in (False, True)]
    seen.update(spread.train_all(f"{folder}/spread"))
    fit_shortly(f"{folder}/short")
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
