"""Asks a GPU when the work that was launched so far is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.python.eager import context

from tfwatch.training.fused import find_clock
from tfwatch.training.stamps import offset_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter


def may_ask() -> bool:
    """Whether asking is safe and would tell.

    TensorFlow must have taken its devices already: to ask would take them, and the user may not want that yet. With
    asynchronous eager execution a thread's work is queued out of sight of every other thread.
    """
    ready = getattr(context.context(), "_initialized", False)
    return bool(ready) and tf.executing_eagerly() and bool(tf.config.experimental.get_synchronous_execution())


def make_marker(writer: RunWriter, device: str = "/GPU:0") -> Callable[[], int]:
    """A function that waits until the work on a device is done, and says when that was, nanoseconds on the run's clock.

    It copies four bytes to the host, on a stream of its own: TensorFlow does that once all is done that was launched
    before. Call it on a thread of its own, where neither a graph nor a device scope of the user's is open.
    """
    clock = find_clock(writer)
    with tf.device(device):
        value = tf.zeros(())

    def read(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(device):
            there = tf.identity(value)
        with tf.device("/CPU:0"):
            # No identity: the optimizer would take it away, and with it what the clock waits for.
            here = tf.raw_ops.DeepCopy(x=there)
            with tf.control_dependencies([here]):
                return clock.read(), here

    # The clock is read in the graph: Python's lock, which a generator may hold, is not waited for.
    landed = tf.function(read, autograph=False).get_concrete_function(value)

    def mark() -> int:
        at_s = landed(value)[0].numpy()
        return int(at_s * 1e9) + offset_ns(writer.now_ns, clock.now_ns)

    mark()
    return mark
