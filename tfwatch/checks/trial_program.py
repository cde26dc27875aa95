"""The program that tries TensorFlow: `tfwatch doctor` runs it, because the import alone may abort
or hang.

It writes one JSON object a line on stdout: `begin` names a stage, `end` has its results.
TensorFlow's log goes to stderr, where `STEP_BEGINS` and `STEP_ENDS` enclose the placements of the
training step.
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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from tfwatch.core.clock import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEP_BEGINS = "tfwatch: the training step begins"
STEP_ENDS = "tfwatch: the training step ends"
#: A product of this size of whole numbers below 8 stays below 2^24, so float32 and TensorFloat-32
#: are exact.
_SIDE = 1024
_TIMES = 3
#: Steps and learning rate of the training that is compared between devices.
_STEPS = 10
_RATE = 0.003


def main(limit_s: float) -> None:
    """Run every stage; an exception ends the program. After `limit_s` seconds faulthandler prints
    the stack."""
    results = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # TensorFlow prints on both
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit_s)
    signal.alarm(math.ceil(1.5 * limit_s))  # the parent may be gone
    warnings.simplefilter("ignore")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    write_result(results, begin="import")
    write_result(results, end="import", **_import())
    for stage, run in (("devices", _devices), ("products", _products), ("step", _step)):
        write_result(results, begin=stage)
        write_result(results, end=stage, **run())
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    write_result(results, end="all", most_bytes=used if sys.platform == "darwin" else used * 1024)


def write_result(results: TextIO, **values: Any) -> None:
    """Write one line."""
    results.write(json.dumps(values) + "\n")
    results.flush()


def _import() -> dict[str, Any]:
    begin_ns = SYSTEM.now_ns()
    import tensorflow as tf

    took_s = (SYSTEM.now_ns() - begin_ns) / 1e9
    build = {name: str(value) for name, value in tf.sysconfig.get_build_info().items()}
    return {
        "took_s": took_s,
        "tensorflow": tf.__version__,
        "keras": tf.keras.__version__,
        "build": build,
    }


def _devices() -> dict[str, Any]:
    import tensorflow as tf

    tf.debugging.set_log_device_placement(True)
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


def _products() -> dict[str, Any]:
    import tensorflow as tf

    tf.config.set_soft_device_placement(False)
    numbers = np.random.default_rng(0).integers(0, 8, (_SIDE, _SIDE)).astype(np.float32)
    right = numbers @ numbers
    products = [_on_device(tf, name, numbers, right) for name in _names(tf)]
    tf.config.set_soft_device_placement(True)
    return {"products": products, "side": _SIDE, "xla_error": _try_xla(tf)}


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


def _on_device(tf: Any, name: str, numbers: Any, right: Any) -> dict[str, Any]:
    """Multiply on a device; return the shortest time until the result is on the host, and its
    correctness."""

    def multiply() -> Any:
        return tf.matmul(matrix, matrix)

    try:
        with tf.device(name):
            matrix = tf.constant(numbers)
            placed = multiply().device.rpartition("device:")[2]
            took_ms, product = min(
                (_timed(multiply) for _ in range(_TIMES)), key=lambda timed: timed[0]
            )
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        return {"device": name, "error": str(error)[:500]}
    return {
        "device": name,
        "placed": placed,
        "took_ms": took_ms,
        "right": bool((product == right).all()),
    }


def _timed(multiply: Callable[[], Any]) -> tuple[float, Any]:
    begin_ns = SYSTEM.now_ns()
    product = multiply().numpy()
    return (SYSTEM.now_ns() - begin_ns) / 1e6, product


def _step() -> dict[str, Any]:
    """Train a small network for two steps without XLA, which would place the step as one
    operation."""
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
    times = {"compile_ms": (compiled_ns - begin_ns) / 1e6, "step_ms": (end_ns - compiled_ns) / 1e6}
    return {**times, "finite": finite, **_compare_devices()}


def _compare_devices() -> dict[str, Any]:
    """Train the same network on the first GPU, compiled, and on the CPU, eagerly; nothing to
    compare without a GPU.

    losses: of each device. moves: see `moves_apart`.
    """
    import tensorflow as tf

    gpu = next((name for name in _names(tf) if name.startswith("GPU")), None)
    if gpu is None:
        return {"losses": {}, "moves": {}}
    right, on_gpu = train_seeded("CPU:0", eager=True), train_seeded(gpu, eager=False)
    return {
        "losses": {one.device: one.losses for one in (right, on_gpu)},
        "moves": moves_apart(right, on_gpu),
    }


@dataclass(frozen=True)
class SeededTraining:
    """Ten steps from fixed weights on fixed examples.

    device: the one that holds the weights. moves: the name and the change of each trainable weight.
    """

    device: str
    losses: list[float]
    moves: list[tuple[str, Any]]


def moves_apart(right: SeededTraining, on_gpu: SeededTraining) -> dict[str, float]:
    """Return the distance between two moves of a weight over the length of the right one, by the
    weight's name.

    Losses hardly show a weight of few numbers that stands still. A bias before a normalisation has
    no gradient.
    """
    pairs = zip(right.moves, on_gpu.moves, strict=True)
    return {
        name: float(np.linalg.norm(other - move) / np.linalg.norm(move))
        for (name, move), (_, other) in pairs
        if not ("conv" in name and name.endswith("bias"))
    }


def train_seeded(device: str, *, eager: bool) -> SeededTraining:
    """Train on a device. A dropout would differ between devices."""
    import keras
    import tensorflow as tf

    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(32, 16, 16, 3)).astype(np.float32), np.arange(32) % 10
    with tf.device(device):
        model = _network_without_dropout(keras)
        begun = [_start(rng, weight.path, weight.shape) for weight in model.weights]
        model.set_weights(begun)
        model.run_eagerly = eager
        losses = [float(np.ravel(model.train_on_batch(images, labels))[0]) for _ in range(_STEPS)]
    pairs = [
        (weight, start)
        for weight, start in zip(model.weights, begun, strict=True)
        if weight.trainable
    ]
    moves = [(weight.path, weight.numpy() - start) for weight, start in pairs]
    return SeededTraining(model.weights[0].value.device.rpartition("device:")[2], losses, moves)


def _start(rng: Any, path: str, shape: tuple[int, ...]) -> Any:
    """Return a kernel of small random numbers, and the usual start of any other weight."""
    if path.endswith("kernel"):
        return rng.normal(scale=(2 / np.prod(shape[:-1])) ** 0.5, size=shape).astype(np.float32)
    return np.full(shape, float(path.endswith(("gamma", "moving_variance"))), np.float32)


def _network_without_dropout(keras: Any) -> Any:
    head = (keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(10, activation="softmax"))
    return _network(keras, keras.optimizers.Adam(_RATE), (16, 16, 3), *head)


def _small_network(keras: Any) -> Any:
    return _network(
        keras,
        "adam",
        (32, 32, 3),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10, activation="softmax"),
    )


def _network(keras: Any, optimizer: Any, shape: tuple[int, ...], *head: Any) -> Any:
    layers = keras.layers
    body = (
        layers.Conv2D(8, 3),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Flatten(),
    )
    model = keras.Sequential([keras.Input(shape), *body, *head])
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
    return model
