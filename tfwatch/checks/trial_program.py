"""A program that tries TensorFlow: `tfwatch doctor` runs it, for the import alone may abort or hang.

It writes a JSON object a line on stdout: `begin` names the stage that is tried, `end` what came of it. All that
TensorFlow says goes to stderr, where `STEP_BEGINS` and `STEP_ENDS` stand around the training step's placements.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import resource
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from tfwatch.core.clock import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEP_BEGINS = "tfwatch: the training step begins"
STEP_ENDS = "tfwatch: the training step ends"
#: Whole numbers below 8 in a product of this size stay below 2^24, so float32 and TensorFloat-32 are exact.
_SIDE = 1024
_TIMES = 3


def main(limit_s: float) -> None:
    """Try everything; what raises ends the stage it is in. After `limit_s` seconds it says where it hangs."""
    results = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # TensorFlow prints on both
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit_s)
    signal.alarm(math.ceil(1.5 * limit_s))  # whoever started it may be gone
    warnings.simplefilter("ignore")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    tell(results, begin="import")
    tell(results, end="import", **_import())
    for stage, attempt in (("devices", _devices), ("products", _products), ("step", _step)):
        tell(results, begin=stage)
        tell(results, end=stage, **attempt())
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tell(results, end="all", most_bytes=used if sys.platform == "darwin" else used * 1024)


def tell(results: TextIO, **values: Any) -> None:
    """Write one line."""
    results.write(json.dumps(values) + "\n")
    results.flush()


def _import() -> dict[str, Any]:
    begin_ns = SYSTEM.now_ns()
    import tensorflow as tf

    took_s = (SYSTEM.now_ns() - begin_ns) / 1e9
    build = {name: str(value) for name, value in tf.sysconfig.get_build_info().items()}
    return {"took_s": took_s, "tensorflow": tf.__version__, "keras": tf.keras.__version__, "build": build}


def _devices() -> dict[str, Any]:
    import tensorflow as tf

    tf.debugging.set_log_device_placement(True)
    devices = [_describe(tf, device) for device in tf.config.list_physical_devices()]
    return {"devices": devices}


def _describe(tf: Any, device: Any) -> dict[str, str]:
    told: dict[str, str] = {"name": device.name.removeprefix("/physical_device:"), "kind": device.device_type}
    if device.device_type == "GPU":
        tf.config.experimental.set_memory_growth(device, True)
        details = tf.config.experimental.get_device_details(device)
        told["model"] = str(details.get("device_name") or "")
    return told


def _products() -> dict[str, Any]:
    import tensorflow as tf

    tf.config.set_soft_device_placement(False)
    numbers = np.random.default_rng(0).integers(0, 8, (_SIDE, _SIDE)).astype(np.float32)
    right = numbers @ numbers
    products = [_on_device(tf, name, numbers, right) for name in _names(tf)]
    tf.config.set_soft_device_placement(True)
    return {"products": products, "side": _SIDE}


def _names(tf: Any) -> Iterator[str]:
    for device in tf.config.list_logical_devices():
        if device.device_type in ("CPU", "GPU"):
            yield device.name.removeprefix("/device:")


def _on_device(tf: Any, name: str, numbers: Any, right: Any) -> dict[str, Any]:
    """Multiply there: the shortest of a few times until the result is on the host, and whether it is right."""

    def multiply() -> Any:
        return tf.matmul(matrix, matrix)

    try:
        with tf.device(name):
            matrix = tf.constant(numbers)
            placed = multiply().device.rpartition("device:")[2]
            took_ms, product = min((_timed(multiply) for _ in range(_TIMES)), key=lambda timed: timed[0])
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        return {"device": name, "error": str(error)[:500]}
    return {"device": name, "placed": placed, "took_ms": took_ms, "right": bool((product == right).all())}


def _timed(multiply: Callable[[], Any]) -> tuple[float, Any]:
    begin_ns = SYSTEM.now_ns()
    product = multiply().numpy()
    return (SYSTEM.now_ns() - begin_ns) / 1e6, product


def _step() -> dict[str, Any]:
    """Train a small network for two steps, operation by operation: XLA would place it as one."""
    import keras

    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(16, 32, 32, 3)).astype(np.float32), np.arange(16) % 10
    sys.stderr.write(f"{STEP_BEGINS}\n")
    sys.stderr.flush()
    model = _small_network(keras)
    begin_ns = SYSTEM.now_ns()
    first = float(np.ravel(model.train_on_batch(images, labels))[0])
    compiled_ns = SYSTEM.now_ns()
    loss = float(np.ravel(model.train_on_batch(images, labels))[0])
    end_ns = SYSTEM.now_ns()
    sys.stderr.write(f"{STEP_ENDS}\n")
    sys.stderr.flush()
    finite = bool(np.isfinite([first, loss]).all())
    return {"compile_ms": (compiled_ns - begin_ns) / 1e6, "step_ms": (end_ns - compiled_ns) / 1e6, "finite": finite}


def _small_network(keras: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(8, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model
