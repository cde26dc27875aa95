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
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from tfwatch.core.clock import SYSTEM
from tfwatch.doctor.bench_program import Spec, measure

if TYPE_CHECKING:
    from collections.abc import Callable

#: Steps and learning rate of the training on each device.
_STEPS = 10
_RATE = 0.003
#: The program ends itself after this time, seconds: its parent may be gone.
_LONGEST_S = 180


def main(argument: str) -> None:
    """Run the trial of the check-up, or time a body; an exception ends the program.

    argument: an encoded `Spec`, or empty for the trial.
    """
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # TensorFlow prints on both
    warnings.simplefilter("ignore")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    stages: dict[str, Callable[[], dict[str, Any]]] = {"import": _import}
    if argument:
        stages["measured"] = partial(_bench, Spec(**json.loads(argument)))
    else:
        faulthandler.enable()
        signal.alarm(_LONGEST_S)
        stages |= {"devices": _devices, "training": _train}
    for stage, run in stages.items():
        _write(results, begin=stage)
        _write(results, end=stage, **run())
    _write(results, end="all")


def _write(results: TextIO, **values: Any) -> None:
    results.write(json.dumps(values) + "\n")
    results.flush()


def _import() -> dict[str, Any]:
    begin_ns = SYSTEM.now_ns()
    import tensorflow as tf

    took_s = (SYSTEM.now_ns() - begin_ns) / 1e9
    import keras  # noqa: F401  a Keras that cannot be imported ends the stage

    build = {name: str(value) for name, value in tf.sysconfig.get_build_info().items()}
    return {"took_s": took_s, "build": build}


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

    kinds = [one for one in tf.config.list_logical_devices() if one.device_type in ("CPU", "GPU")]
    trained = [_train_on(tf, one.name.removeprefix("/device:")) for one in kinds]
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


def train_seeded(device: str) -> dict[str, Any]:
    """Train ten steps on a device, on fixed examples; return the device that holds the weights,
    the losses, and the times of the first and of a usual step."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).normal(size=(32, 16, 16, 3)).astype(np.float32)
    labels = np.arange(32) % 10
    losses, steps_ms = [], []
    with tf.device(device):
        model = _network(keras)
        for _ in range(_STEPS):
            begin_ns = SYSTEM.now_ns()
            losses.append(float(model.train_on_batch(images, labels)))
            steps_ms.append((SYSTEM.now_ns() - begin_ns) / 1e6)
    placed = model.trainable_weights[0].value.device.rpartition("device:")[2]
    times = {"first_ms": steps_ms[0], "step_ms": min(steps_ms[1:])}
    return {"placed": placed, "losses": losses, **times}


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


def _bench(spec: Spec) -> dict[str, Any]:
    import tensorflow as tf

    return measure(tf, spec)
