"""Pipeline stages of a given cost, whose elements carry the actual cost."""

from __future__ import annotations

import functools
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import tensorflow as tf

from tfwatch.workloads.data import jpeg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The most stages whose cost the elements carry.
STAGES = 6


class Maker:
    """Makes stages of a given cost; `labels` lists them in order."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def start(self) -> tf.data.Dataset:
        """Return endless elements: the milliseconds of each so far, by stage."""
        return tf.data.Dataset.from_tensors(tf.zeros(STAGES)).repeat()

    def sleep(self, name: str, ms: float) -> Callable[[Any], Any]:
        """Return a stage that waits inside TensorFlow, as for storage."""
        return self._timed(name, partial(jpeg.delayed, latency_ms=ms))

    def burn(self, name: str, ms: float) -> Callable[[Any], Any]:
        """Return a stage that computes on one core."""
        return self._timed(name, computing(ms))

    def python(self, name: str, ms: float) -> Callable[[Any], Any]:
        """Return a stage that computes in Python and holds the GIL."""

        def work(x: Any) -> Any:
            _spin(ms)
            return x

        return self._timed(
            name, lambda x: tf.ensure_shape(tf.numpy_function(work, [x], x.dtype), x.shape)
        )

    def generator(self, name: str, ms: float) -> tf.data.Dataset:
        """Return a Python generator as a stage."""
        at = self._at(f"from_generator({name})")

        def rows() -> Iterator[Any]:
            while True:
                begun = time.perf_counter()
                _spin(ms)
                row = np.zeros(STAGES, np.float32)
                row[at] = (time.perf_counter() - begun) * 1e3
                yield row

        rows.__name__ = name
        return tf.data.Dataset.from_generator(
            rows, output_signature=tf.TensorSpec((STAGES,), tf.float32)
        )

    def interleaved(self, name: str, ms: float, workers: int | None) -> tf.data.Dataset:
        """Return files whose elements have a given cost."""
        inner = self._timed(name, partial(jpeg.delayed, latency_ms=ms))
        self.labels[-1] = f"interleave({name})"

        def opened(x: Any) -> tf.data.Dataset:
            return tf.data.Dataset.from_tensors(x).repeat(1000).map(inner)

        opened.__name__ = name
        return self.start().interleave(opened, cycle_length=4, num_parallel_calls=workers)

    def _at(self, label: str) -> int:
        self.labels.append(label)
        return len(self.labels) - 1

    def _timed(self, name: str, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        mask = tf.one_hot(self._at(f"map({name})"), STAGES)

        @tf.autograph.experimental.do_not_convert
        def stage(x: Any) -> Any:
            begun = tf.timestamp()
            with tf.control_dependencies([begun]):
                done = work(tf.identity(x))
            with tf.control_dependencies([done]):
                cost = tf.cast((tf.timestamp() - begun) * 1e3, tf.float32) * mask
            return done + (
                cost if x.shape.rank == 1 else tf.pad(cost[None], [[0, tf.shape(x)[0] - 1], [0, 0]])
            )

        stage.__name__ = stage.__wrapped__.__name__ = name
        return cast("Callable[[Any], Any]", stage)


def computing(ms: float) -> Callable[[Any], Any]:
    """Return a function that computes on one core, and keeps no state."""
    return partial(_at_work, encoded=_jpeg(max(8, round(ms * _rows_a_ms()))))


def _at_work(x: Any, encoded: Any) -> Any:
    """Decode an image, one kernel on one core; it depends on the element, or TensorFlow would decode only once."""
    which = tf.cast(tf.reduce_min(x) < 0, tf.int32)
    pixels = tf.io.decode_jpeg(tf.gather(encoded, which))
    return x + 0.0 * tf.cast(pixels[0, 0, 0], x.dtype)


@functools.cache
def _jpeg(rows: int) -> Any:
    noise = np.random.default_rng(0).integers(0, 256, (rows, 512, 3), np.uint8)
    return tf.constant([tf.io.encode_jpeg(noise).numpy()] * 2)


@functools.cache
def _rows_a_ms() -> float:
    """Return the rows of an image that are decoded in 1 ms of CPU time."""
    work = tf.function(partial(_at_work, encoded=_jpeg(512)))
    work(tf.zeros(STAGES))
    begun = time.process_time()
    for _ in range(20):
        work(tf.zeros(STAGES))
    return 512 * 20 / ((time.process_time() - begun) * 1e3)


def _spin(ms: float) -> None:
    until = time.perf_counter() + ms / 1e3
    while time.perf_counter() < until:
        pass
