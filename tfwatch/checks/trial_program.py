"""The program that tries TensorFlow in a process of its own, because the import alone may abort or
hang: for `tfwatch doctor` a training, for `tfwatch bench` one body of compute.

It writes one JSON object a line on stdout: `begin` names a stage, `end` has its results.
TensorFlow's log goes to stderr.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import math
import os
import signal
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np

from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A product of this size of whole numbers below 8 stays below 2^24, so float32 and TensorFloat-32
#: are exact.
_SIDE = 1024
_TIMES = 3
#: Steps and learning rate of the training that is compared between devices.
_STEPS = 10
_RATE = 0.003


def main(argument: str) -> None:
    """Run the trial of the check-up, or time a body; an exception ends the program.

    argument: seconds, after which faulthandler prints the stack; or an encoded `Spec`.
    """
    results = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # TensorFlow prints on both
    warnings.simplefilter("ignore")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if argument.startswith("{"):
        _bench(results, Spec(**json.loads(argument)))
    else:
        _try(results, float(argument))


def _try(results: TextIO, limit_s: float) -> None:
    """Run every stage of the trial."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit_s)
    signal.alarm(math.ceil(1.5 * limit_s))  # the parent may be gone
    write_result(results, begin="import")
    write_result(results, end="import", **_import())
    for stage, run in (("devices", _devices), ("products", _products), ("step", _step)):
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
    build = {name: str(value) for name, value in tf.sysconfig.get_build_info().items()}
    return {
        "took_s": took_s,
        "tensorflow": tf.__version__,
        "keras": tf.keras.__version__,
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


def _products() -> dict[str, Any]:
    import tensorflow as tf

    tf.config.set_soft_device_placement(False)
    numbers = np.random.default_rng(0).integers(0, 8, (_SIDE, _SIDE)).astype(np.float32)
    right = numbers @ numbers
    products = [_on_device(tf, name, numbers, right) for name in _names(tf)]
    tf.config.set_soft_device_placement(True)
    return {"products": products, "xla_error": _try_xla(tf)}


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
    model = _small_network(keras)
    begin_ns = SYSTEM.now_ns()
    first = float(np.ravel(model.train_on_batch(images, labels))[0])
    compiled_ns = SYSTEM.now_ns()
    loss = float(np.ravel(model.train_on_batch(images, labels))[0])
    end_ns = SYSTEM.now_ns()
    finite = bool(np.isfinite([first, loss]).all())
    times = {"compile_ms": (compiled_ns - begin_ns) / 1e6, "step_ms": (end_ns - compiled_ns) / 1e6}
    return {**times, "finite": finite, "moves": _compare_devices()}


def _compare_devices() -> dict[str, float]:
    """Train the same network on the first GPU, compiled, and on the CPU, eagerly, and return
    `moves_apart`; empty without a GPU."""
    import tensorflow as tf

    gpu = next((name for name in _names(tf) if name.startswith("GPU")), None)
    if gpu is None:
        return {}
    return moves_apart(train_seeded("CPU:0", eager=True), train_seeded(gpu, eager=False))


#: The name and the change of each trainable weight in a training.
Moves: TypeAlias = "list[tuple[str, Any]]"


def moves_apart(right: Moves, on_gpu: Moves) -> dict[str, float]:
    """Return the distance between two moves of a weight over the length of the right one, by the
    weight's name.

    Losses hardly show a weight of few numbers that stands still. A bias before a normalisation has
    no gradient.
    """
    return {
        name: float(np.linalg.norm(other - move) / np.linalg.norm(move))
        for (name, move), (_, other) in zip(right, on_gpu, strict=True)
        if not ("conv" in name and name.endswith("bias"))
    }


def train_seeded(device: str, *, eager: bool) -> Moves:
    """Train ten steps on a device, from fixed weights on fixed examples. A dropout would differ
    between devices."""
    import keras
    import tensorflow as tf

    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(32, 16, 16, 3)).astype(np.float32), np.arange(32) % 10
    with tf.device(device):
        model = _network_without_dropout(keras)
        begun = [_start(rng, weight.path, weight.shape) for weight in model.weights]
        model.set_weights(begun)
        model.run_eagerly = eager
        for _ in range(_STEPS):
            model.train_on_batch(images, labels)
    pairs = zip(model.weights, begun, strict=True)
    return [(one.path, one.numpy() - start) for one, start in pairs if one.trainable]


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


# -- a body of compute -----------------------------------------------------------------------------

#: Calls before the timed ones, in which the allocator, convolution algorithms and caches settle.
_WARM_UP = 3
#: The least and the most timed calls within the requested seconds.
_LEAST, _MOST = 5, 2000
#: Pixels a side, and filters, of `conv`.
_PIXELS, _FILTERS = 256, 32
#: The bodies, each with the default of its size.
BODIES = {"matmul": 2048, "conv": 1}


@dataclass(frozen=True, slots=True)
class Spec:
    """A configuration to time.

    body: `matmul`, of square matrices with `size` rows, or `conv`, of `size` images. mode: graph,
    eager or jit.
    """

    body: str
    device: str
    mode: str
    size: int
    seconds: float = 2.0

    def encode(self) -> str:
        """Return it as the argument of this program."""
        return json.dumps(asdict(self))


def _bench(results: TextIO, spec: Spec) -> None:
    """Time a configuration; a failure becomes the `error` of the stage `measured`."""
    write_result(results, begin="import")
    import tensorflow as tf

    write_result(results, begin="measured")
    write_result(results, end="measured", **measure(tf, spec))
    write_result(results, end="all")


def measure(tf: Any, spec: Spec) -> dict[str, Any]:
    """Return the times of a configuration, or the error."""
    if spec.device == "gpu" and not tf.config.list_physical_devices("GPU"):
        return {"error": "TensorFlow sees no GPU here", "no_gpu": True}
    try:
        with tf.device(f"/{spec.device.upper()}:0"):
            examples = spec.size if spec.body == "conv" else 1
            return {"examples": examples, **_times(tf, body_of(tf, spec), spec.seconds)}
    except Exception as error:  # noqa: BLE001  a step may raise anything, and the error is this process' result
        return {"error": reason(error).strip()[:500]}


def body_of(tf: Any, spec: Spec) -> Callable[[], Any]:
    """Return the call to time: one operation on arrays on the device, in the mode of the
    configuration."""
    normal = tf.random.stateless_normal
    if spec.body == "matmul":
        one, other = (normal((spec.size, spec.size), (n, n)) for n in (1, 2))
        body = functools.partial(tf.matmul, one, other)
    else:
        images = normal((spec.size, _PIXELS, _PIXELS, 3), (1, 1))
        filters = normal((3, 3, 3, _FILTERS), (2, 2))
        body = functools.partial(tf.nn.conv2d, images, filters, strides=1, padding="SAME")
    if spec.mode == "eager":
        return body
    traced: Callable[[], Any] = tf.function(lambda: body(), jit_compile=spec.mode == "jit")
    return traced


def _times(tf: Any, step: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Return the first call's time, with trace and compile, and those of the timed calls; each
    drains the device."""
    first_ms = timed_ms(tf, step)
    for _ in range(_WARM_UP):
        timed_ms(tf, step)
    steps_ms: list[float] = []
    end_ns = SYSTEM.now_ns() + seconds * 1e9
    while len(steps_ms) < _LEAST or (SYSTEM.now_ns() < end_ns and len(steps_ms) < _MOST):
        steps_ms.append(timed_ms(tf, step))
    return {"first_ms": first_ms, "steps_ms": steps_ms}


def timed_ms(tf: Any, step: Callable[[], Any]) -> float:
    """Time one call until the device is drained, in milliseconds."""
    begin_ns = SYSTEM.now_ns()
    step()
    tf.test.experimental.sync_devices()
    return (SYSTEM.now_ns() - begin_ns) / 1e6
