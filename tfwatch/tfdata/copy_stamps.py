"""The times at which the batches of a prefetch to the device are ready in host memory, where their
copies begin.

A fetch that blocks waits for the pipeline until then, and for the copy from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.framework import config

from tfwatch.tfdata.stage_names import OWN

if TYPE_CHECKING:
    from tfwatch.core.knobs import Knobs

#: Batches that are past their stamp and not yet taken, beside those of the buffer: one in the copy,
#: and those of a prefetch that TensorFlow adds before it.
_BETWEEN = 64


class CopyStamps:
    """The stamps of one pipeline, a ring in graph variables: no Python runs in the pipeline's
    threads.

    taken: the number of batches that the training has taken.
    """

    def __init__(self, depth: int) -> None:
        self.taken = 0
        self._size = depth + _BETWEEN
        with tf.device("/CPU:0"):
            self._count = tf.Variable(0, dtype=tf.int64, trainable=False, name="tfwatch_copies")
            self._ready_s = tf.Variable(
                tf.zeros(self._size, tf.float64), trainable=False, name="tfwatch_ready"
            )

    def over(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Return the same batches, each stamped as it leaves the stages in host memory."""
        is_unpacked = type(batches.element_spec) is tuple

        @tf.autograph.experimental.do_not_convert
        def stamp(*batch: Any) -> Any:
            at = (self._count.assign_add(1) - 1) % self._size
            self._ready_s.scatter_nd_update([[at]], [tf.timestamp()])
            return batch if is_unpacked else batch[0]

        stamped = batches.map(stamp)
        setattr(stamped, OWN, True)
        return stamped

    def newest_ns(self) -> int:
        """Return when the batch that was taken last was ready, on the wall clock."""
        return int(float(self._ready_s.numpy()[(self.taken - 1) % self._size]) * 1e9)


def make_stamps(knobs: Knobs, depth: int | None) -> CopyStamps | None:
    """Return stamps for a prefetch of this depth; None without one, and where op determinism
    forbids the clock."""
    if (
        knobs.device_prefetch == "off"
        or depth is None
        or depth < 0
        or config.is_op_determinism_enabled()
    ):
        return None
    return CopyStamps(depth)
