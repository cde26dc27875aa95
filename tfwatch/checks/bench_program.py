"""The program that times one body of compute on one device: `tfwatch bench` runs it once a round.

Its output is that of `trial_program`: one JSON object a line on stdout, TensorFlow's log on stderr.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.checks.trial_program import STEP_BEGINS, STEP_ENDS, write_result
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import reason
from tfwatch.sensors.cpu import CpuSensor
from tfwatch.sensors.host import ProcessSensor

if TYPE_CHECKING:
    from collections.abc import Callable


#: Steps before the timed ones, in which the allocator, convolution algorithms and caches settle.
_WARM_UP = 3
#: The least and the most timed steps within the requested seconds.
_LEAST, _MOST = 5, 2000
#: Pixels a side, and filters, of `conv`.
_SIDE, _FILTERS = 256, 32
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

    @property
    def needed_bytes(self) -> int:
        """The memory of its arrays, and of two more that drawing random numbers leaves in the
        allocator."""
        if self.body == "matmul":
            return 5 * 4 * self.size**2
        return 4 * self.size * _SIDE**2 * (3 * 3 + _FILTERS)


def encode(spec: Spec) -> str:
    """Encode a configuration for the command line."""
    return json.dumps(asdict(spec))


def main(text: str) -> None:
    """Time a configuration; a failure becomes the `error` of the stage `measured`."""
    spec = Spec(**json.loads(text))
    results = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # TensorFlow prints on both
    warnings.simplefilter("ignore")
    write_result(results, begin="import")
    import tensorflow as tf

    write_result(results, begin="measured")
    write_result(results, end="measured", **_measure(tf, spec))
    write_result(results, end="all")


def _measure(tf: Any, spec: Spec) -> dict[str, Any]:
    if spec.device == "gpu" and not tf.config.list_physical_devices("GPU"):
        return {"error": "TensorFlow sees no GPU here", "no_gpu": True}
    try:
        tf.debugging.set_log_device_placement(spec.device == "gpu")
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
        images = normal((spec.size, _SIDE, _SIDE, 3), (1, 1))
        filters = normal((3, 3, 3, _FILTERS), (2, 2))
        body = functools.partial(tf.nn.conv2d, images, filters, strides=1, padding="SAME")
    if spec.mode == "eager":
        return body
    traced: Callable[[], Any] = tf.function(lambda: body(), jit_compile=spec.mode == "jit")
    return traced


def _times(tf: Any, step: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Return the first call's time, with trace and compile, and those of the timed calls; each
    drains the device."""
    sys.stderr.write(f"{STEP_BEGINS}\n")
    sys.stderr.flush()
    first_ms = timed_ms(tf, step)
    sys.stderr.write(f"{STEP_ENDS}\n")
    sys.stderr.flush()
    tf.debugging.set_log_device_placement(False)
    for _ in range(_WARM_UP):
        timed_ms(tf, step)
    steps_ms: list[float] = []
    others = OtherPrograms()
    end_ns = SYSTEM.now_ns() + seconds * 1e9
    while len(steps_ms) < _LEAST or (SYSTEM.now_ns() < end_ns and len(steps_ms) < _MOST):
        steps_ms.append(timed_ms(tf, step))
    return {"first_ms": first_ms, "steps_ms": steps_ms, "others_cores": others.cores()}


class OtherPrograms:
    """The cores that other programs use from construction on."""

    def __init__(self) -> None:
        self._all, self._own = CpuSensor(), ProcessSensor()
        self._read()

    def _read(self) -> float:
        now_ns = SYSTEM.now_ns()
        return self._all.read(now_ns)["cpu_cores"] - self._own.read(now_ns)["process_cores"]

    def cores(self) -> float | None:
        """Return the cores that others used since construction; None where the system does not
        report them."""
        cores = self._read()
        return max(cores, 0.0) if math.isfinite(cores) else None


def timed_ms(tf: Any, step: Callable[[], Any]) -> float:
    """Time one call until the device is drained, in milliseconds."""
    begin_ns = SYSTEM.now_ns()
    step()
    tf.test.experimental.sync_devices()
    return (SYSTEM.now_ns() - begin_ns) / 1e6
