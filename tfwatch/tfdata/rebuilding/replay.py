"""A second iterator of an epoch that a thread takes to the place of the first one, while the training goes on."""

from __future__ import annotations

import math
import threading
from typing import Any

import tensorflow as tf

from tfwatch.core.errors import reason
from tfwatch.tfdata.disposal import dispose
from tfwatch.tfdata.rebuilding.pipeline_tree import BATCHES, CannotRebuildError, kind_of
from tfwatch.tfdata.stages.stage_names import inputs_of, nodes_of

#: The thread ends where no more elements are missing: the training takes the last ones itself, in a few milliseconds.
_NEAR = 8
#: Elements that are read at once: 30 to 60 ms of numbers, names and rows of 1 kB on busy cores.
_FAR = 20_000
_ENDED = "its data set gave fewer elements when it was read again"


class Replay:
    """Drops the elements of `source` that another iterator of the same order has given, `taken` of them so far.

    Elements are dropped one by one, so at most one is held, and the thread ends within one of them.
    """

    def __init__(self, source: tf.data.Iterator, taken: int) -> None:
        self._held = [source]
        self._drop = _dropper(source)
        self._goal, self._dropped = taken, 0
        self._is_left = self._is_over = False
        self._error = ""
        # Not a daemon: Python waits for it, so that no function of TensorFlow runs while the process ends.
        self._thread = threading.Thread(target=self._run, name="tfwatch-replay")
        self._thread.start()

    def follow(self, taken: int) -> bool:
        """Note that the other iterator has given `taken` elements; return whether `finish` takes no time."""
        self._goal = taken
        return self._is_over

    def finish(self) -> tf.data.Iterator:
        """Return the source at the place of the other iterator.

        Raises:
            CannotRebuildError: the source could not be read.
        """
        self._thread.join()
        while self._dropped < self._goal and not self._error:
            self._drop_one()
        if self._error:
            self.leave()
            raise CannotRebuildError(self._error)
        self._drop = _nothing
        return self._held.pop()

    def leave(self) -> None:
        """Give up."""
        self._is_left = True
        if self._is_over:
            self._dispose()

    def _run(self) -> None:
        while self._goal - self._dropped > _NEAR and self._is_wanted:
            self._drop_one()
        self._is_over = True
        if self._is_left:
            self._dispose()

    def _drop_one(self) -> None:
        try:
            self._drop()
            self._dropped += 1
        except tf.errors.OutOfRangeError:
            self._error = _ENDED
        except Exception as error:  # noqa: BLE001  a thread: it publishes what the user's pipeline raises
            self._error = reason(error)

    @property
    def _is_wanted(self) -> bool:
        return not self._is_left and not self._error and threading.main_thread().is_alive()

    def _dispose(self) -> None:
        """Drop the source, in whichever of both threads comes last."""
        self._drop = _nothing
        sources, self._held = self._held, []
        dispose([], sources, [])


def _nothing() -> None:
    """Drop no element."""


def _dropper(source: tf.data.Iterator) -> Any:
    """Return a function that takes an element and drops it: 15 us of Python, against 120 us of `next`."""
    from tensorflow.python.data.util import structure

    spec, resource = source.element_spec, source._iterator_resource
    types, shapes = structure.get_flat_tensor_types(spec), structure.get_flat_tensor_shapes(spec)

    def drop() -> None:
        tf.raw_ops.IteratorGetNext(iterator=resource, output_types=types, output_shapes=shapes)

    return drop


def is_far(dataset: Any, batches: int) -> bool:
    """Return whether another iterator of a data set takes more than some 50 ms to give so many batches."""
    nodes = list(nodes_of(dataset))
    shuffled = sum(elements_ahead(node) for node in nodes if kind_of(node) == "Shuffle")
    in_batch = math.prod(int(node._batch_size) for node in nodes if kind_of(node) in BATCHES)
    return shuffled + batches * in_batch > _FAR


def elements_ahead(shuffle: Any) -> int:
    """Return the elements that a shuffle reads before its first one."""
    size, count = int(shuffle._buffer_size), int(inputs_of(shuffle)[0].cardinality())
    return count if size < 0 else min(size, count) if count >= 0 else size
