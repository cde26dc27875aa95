"""The compute that `tfwatch bench` times, in the process of `trial_program`."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import reason

if TYPE_CHECKING:
    from collections.abc import Callable

#: Calls before the timed ones: the trace, and the allocator, convolution algorithms and caches
#: settle.
_WARM_UP = 4
#: The least and the most timed calls within the requested seconds.
_LEAST, _MOST = 5, 2000
BODIES = ("matmul", "conv")
#: Rows of the matrices of `matmul`; pixels a side of the image of `conv`, and its filters.
_ROWS, _PIXELS, _FILTERS = 2048, 256, 32


@dataclass(frozen=True, slots=True)
class Spec:
    """A configuration to time. body: `matmul`, of square matrices, or `conv`, of one image."""

    body: str
    device: str
    seconds: float = 2.0

    def encode(self) -> str:
        """Return it as the argument of this program."""
        return json.dumps(asdict(self))


def measure(tf: Any, spec: Spec) -> dict[str, Any]:
    """Return the times of a configuration, or the error."""
    if spec.device == "gpu" and not tf.config.list_physical_devices("GPU"):
        return {"error": "TensorFlow sees no GPU here"}
    try:
        with tf.device(f"/{spec.device.upper()}:0"):
            return _times(tf, body_of(tf, spec), spec.seconds)
    except Exception as error:  # noqa: BLE001  a step may raise anything, and the error is this process' result
        return {"error": reason(error).strip()[:500]}


def body_of(tf: Any, spec: Spec) -> Callable[[], Any]:
    """Return the call to time: one operation on arrays on the device, in a graph."""
    normal = tf.random.stateless_normal
    if spec.body == "matmul":
        one, other = (normal((_ROWS, _ROWS), (n, n)) for n in (1, 2))
        body = functools.partial(tf.matmul, one, other)
    else:
        images = normal((1, _PIXELS, _PIXELS, 3), (1, 1))
        filters = normal((3, 3, 3, _FILTERS), (2, 2))
        body = functools.partial(tf.nn.conv2d, images, filters, strides=1, padding="SAME")
    traced: Callable[[], Any] = tf.function(lambda: body())
    return traced


def _times(tf: Any, step: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Return the times of the timed calls; each drains the device."""
    for _ in range(_WARM_UP):
        timed_ms(tf, step)
    steps_ms: list[float] = []
    end_ns = SYSTEM.now_ns() + seconds * 1e9
    while len(steps_ms) < _LEAST or (SYSTEM.now_ns() < end_ns and len(steps_ms) < _MOST):
        steps_ms.append(timed_ms(tf, step))
    return {"steps_ms": steps_ms}


def timed_ms(tf: Any, step: Callable[[], Any]) -> float:
    """Time one call until the device is drained, in milliseconds."""
    begin_ns = SYSTEM.now_ns()
    step()
    tf.test.experimental.sync_devices()
    return (SYSTEM.now_ns() - begin_ns) / 1e6
