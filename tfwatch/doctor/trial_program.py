"""The program that tries TensorFlow in a process of its own, because the import alone may abort or
hang: for `tfwatch doctor` a training, for `tfwatch bench` one body of compute.

It writes one JSON object a line on stdout: `begin` names a stage, `end` has its results.
TensorFlow's log goes to stderr.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import warnings
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from tfwatch.core.clock import SYSTEM
from tfwatch.doctor.bench_program import Spec, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Steps and learning rate of the training on each device.
_STEPS = 10
_RATE = 0.003
#: The program ends itself after this time, seconds: its parent may be gone.
_LONGEST_S = 180


def main(argument: str) -> None:
    """Run the trial of the check-up, or time a body; an exception ends the program.

    argument: an encoded `Spec`, or empty for the trial.
    """
    results = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # TensorFlow prints on both
    warnings.simplefilter("ignore")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if argument:
        _bench(results, Spec(**json.loads(argument)))
    else:
        _try(results)


def _try(results: TextIO) -> None:
    """Run every stage of the trial."""
    faulthandler.enable()
    signal.alarm(_LONGEST_S)
    for stage, run in (("import", _import), ("devices", _devices), ("training", _train)):
        write_result(results, begin=stage)
        write_result(results, end=stage, **run())
    write_result(results, end="all")


def write_result(results: TextIO, **values: Any) -> None:
    """Write one line."""
    results.write(json.dumps(values) + "\n")
    results.flush()


def _import() -> dict[str, Any]:
    begin_ns = SYSTEM.now_ns()
    import tensorflow as tf

    took_s = (SYSTEM.now_ns() - begin_ns) / 1e9
    import keras

    build = {name: str(value) for name, value in tf.sysconfig.get_build_info().items()}
    return {
        "took_s": took_s,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "build": build,
    }


def _devices() -> dict[str, Any]:
    import tensorflow as tf

    devices = [_describe(tf, device) for device in tf.config.list_physical_devices()]
    return {"devices": devices}


def _describe(tf: Any, device: Any) -> dict[str, str]:
    values: dict[str, str] = {
        "name": device.name.removeprefix("/physical_device:"),
        "kind": device.device_type,
    }
    if device.device_type == "GPU":
        tf.config.experimental.set_memory_growth(device, True)
        details = tf.config.experimental.get_device_details(device)
        values["model"] = str(details.get("device_name") or "")
    return values


def _train() -> dict[str, Any]:
    import tensorflow as tf

    trained = [_train_on(tf, name) for name in _names(tf)]
    return {"trained": trained, "xla_error": _try_xla(tf)}


def _train_on(tf: Any, device: str) -> dict[str, Any]:
    try:
        return {"device": device, **train_seeded(device)}
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        return {"device": device, "error": str(error)[:500]}


def _try_xla(tf: Any) -> str:
    """Return the error of compiling `exp`, which needs libdevice, with XLA for a GPU of CUDA; empty
    without one."""
    if not tf.config.list_physical_devices("GPU") or not tf.sysconfig.get_build_info().get(
        "is_cuda_build"
    ):
        return ""
    try:
        with tf.device("GPU:0"):
            tf.function(tf.math.exp, jit_compile=True)(tf.constant([1.0])).numpy()
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"[:500]
    return ""


def _names(tf: Any) -> Iterator[str]:
    for device in tf.config.list_logical_devices():
        if device.device_type in ("CPU", "GPU"):
            yield device.name.removeprefix("/device:")


def train_seeded(device: str) -> dict[str, Any]:
    """Train ten steps on a device, on fixed examples; return the device that holds the weights,
    the losses, and the times of the first and of a usual step."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).normal(size=(32, 16, 16, 3)).astype(np.float32)
    labels = np.arange(32) % 10
    with tf.device(device):
        model = _network(keras)
        steps = [_step(model, images, labels) for _ in range(_STEPS)]
    losses, (first_ms, *steps_ms) = zip(*steps, strict=True)
    placed = model.trainable_weights[0].value.device.rpartition("device:")[2]
    return {"placed": placed, "losses": losses, "first_ms": first_ms, "step_ms": min(steps_ms)}


def _step(model: Any, images: Any, labels: Any) -> tuple[float, float]:
    """Return the loss of a step, and its time in milliseconds."""
    begin_ns = SYSTEM.now_ns()
    loss = float(model.train_on_batch(images, labels))
    return loss, (SYSTEM.now_ns() - begin_ns) / 1e6


def _network(keras: Any) -> Any:
    """Return a small network. XLA would place the step as one operation."""
    layers = keras.layers
    body = (
        layers.Conv2D(8, 3),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(10, activation="softmax"),
    )
    model = keras.Sequential([keras.Input((16, 16, 3)), *body])
    optimizer = keras.optimizers.Adam(_RATE)
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
    return model


def _bench(results: TextIO, spec: Spec) -> None:
    """Time a configuration; a failure becomes the `error` of the stage `measured`."""
    write_result(results, begin="import")
    import tensorflow as tf

    write_result(results, begin="measured")
    write_result(results, end="measured", **measure(tf, spec))
    write_result(results, end="all")
