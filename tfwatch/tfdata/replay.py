"""A second iterator of an epoch, at the place of the first one: with the order of its shuffles, by
a thread.

A shuffle that reshuffles takes two new seeds for each iterator. A shuffle with these seeds gives
the same order again. TensorFlow writes them into the iterator's saved state, one row for each
stage, sorted by the stages' names.
"""

from __future__ import annotations

import math
import threading
from functools import partial
from itertools import pairwise
from typing import Any

import tensorflow as tf

from tfwatch.core.errors import reason
from tfwatch.tfdata.disposal import dispose, start_awaited
from tfwatch.tfdata.pipeline_tree import BATCHES, CannotRebuildError
from tfwatch.tfdata.stage_names import inputs_of, kind_of, nodes_of

#: Rows are read by so many; a shuffle's row comes before those of its buffer.
_ROWS = 32
_UNREADABLE = "the order of its shuffle cannot be read with this TensorFlow"
#: What the private names and formats of another TensorFlow raise.
_UNKNOWN_FORMAT = (AttributeError, ImportError, IndexError, TypeError, ValueError)
_SEEDS = (b"seed", b"seed2")
_IGNORE_STATE = 1
_NOTE = "_tfwatch_seeds"
#: The thread ends where no more elements are missing: the training takes the last ones itself, in a
#: few milliseconds.
_NEAR = 8
#: Elements that are read at once: 30 to 60 ms of numbers, names and rows of 1 kB on busy cores.
_FAR = 20_000
_ENDED = "its data set gave fewer elements when it was read again"


class Replay:
    """Drops the elements of `source` that another iterator of the same order has given, `taken` of
    them so far.

    Elements are dropped one by one, so at most one is held, and the thread ends within one of them.
    """

    def __init__(self, source: tf.data.Iterator, taken: int) -> None:
        self._held = [source]
        self._drop = _dropper(source)
        self._goal, self._dropped = taken, 0
        self._is_left = self._is_over = False
        self._error = ""
        self._thread = start_awaited("replay", self._run)

    def follow(self, taken: int) -> bool:
        """Note that the other iterator has given `taken` elements; return whether `finish` takes no
        time."""
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
        is_main_alive = threading.main_thread().is_alive
        while self._goal - self._dropped > _NEAR and is_main_alive():
            if self._is_left or self._error:
                break
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

    def _dispose(self) -> None:
        """Drop the source, in whichever of both threads comes last."""
        self._drop = _nothing
        sources, self._held = self._held, []
        dispose([], sources, [])


def _nothing() -> None:
    """Drop no element."""


def _dropper(source: tf.data.Iterator) -> Any:
    """Return a function that takes an element and drops it: 15 us of Python, against 120 us of
    `next`."""
    from tensorflow.python.data.util import structure

    spec, resource = source.element_spec, source._iterator_resource
    types, shapes = structure.get_flat_tensor_types(spec), structure.get_flat_tensor_shapes(spec)
    return partial(
        tf.raw_ops.IteratorGetNext, iterator=resource, output_types=types, output_shapes=shapes
    )


def is_far(dataset: Any, batches: int) -> bool:
    """Return whether another iterator of a data set takes more than some 50 ms to give so many
    batches."""
    nodes = list(nodes_of(dataset))
    shuffled = sum(elements_ahead(node) for node in nodes if kind_of(node) == "Shuffle")
    in_batch = math.prod(int(node._batch_size) for node in nodes if kind_of(node) in BATCHES)
    return shuffled + batches * in_batch > _FAR


def elements_ahead(shuffle: Any) -> int:
    """Return the elements that a shuffle reads before its first one."""
    size, count = int(shuffle._buffer_size), int(inputs_of(shuffle)[0].cardinality())
    return count if size < 0 else min(size, count) if count >= 0 else size


def read_seeds(iterator: Any, count: int, *, has_begun: bool) -> list[tuple[int, int]]:
    """Return the seeds of `count` shuffles, one below the other, the last stage first.

    It takes 0.3 ms, and 4 us for each element of the buffers. An iterator that has not begun has no
    seeds of a shuffle below another: that takes new ones with its first element, in any iterator.

    Raises:
        CannotRebuildError: they cannot be read.
    """
    if not count:
        return []
    try:
        seeds = _read(iterator, count)
    except (*_UNKNOWN_FORMAT, tf.errors.OpError) as error:
        raise CannotRebuildError(_UNREADABLE) from error
    names = sorted(seeds, key=len)
    if not names or (has_begun and len(names) != count):
        raise CannotRebuildError(_UNREADABLE)
    if any(not deep.startswith(top) for top, deep in pairwise(names)):
        raise CannotRebuildError(_UNREADABLE)
    return [seeds[name] for name in names]


def note_seeds(iterator: Any) -> None:
    """Note on an iterator that has not begun the seeds of its one shuffle: its buffer is empty, and
    reads quickly.

    Raises:
        CannotRebuildError: they cannot be read.
    """
    setattr(iterator, _NOTE, read_seeds(iterator, 1, has_begun=False))


def noted_seeds(iterator: Any, count: int) -> list[tuple[int, int]]:
    """Return the seeds noted on an iterator; empty without those of so many shuffles."""
    known: list[tuple[int, int]] = getattr(iterator, _NOTE, [])
    return known if len(known) == count else []


def _read(iterator: Any, count: int) -> dict[bytes, tuple[int, int]]:
    state = tf.raw_ops.SerializeIterator(
        resource_handle=iterator._iterator_resource, external_state_policy=_IGNORE_STATE
    )
    rows = tf.reshape(state, [-1])
    seeds_by_key: dict[bytes, tuple[int, int]] = {}
    for first in range(0, int(tf.size(rows)), _ROWS):
        seeds_by_key |= dict(_seeds_of(rows[first : first + _ROWS]))
        if len(seeds_by_key) >= count:
            break
    return seeds_by_key


def _seeds_of(rows: tf.Tensor) -> Any:
    """Yield the name and the seeds of each shuffle in rows of a saved state."""
    from tensorflow.core.framework.tensor_pb2 import TensorProto, VariantTensorDataProto

    content = TensorProto.FromString(tf.io.serialize_tensor(rows).numpy()).tensor_content
    sizes, at = _read_sizes(content, int(tf.size(rows)))
    for size in sizes:
        row = VariantTensorDataProto.FromString(content[at : at + size])
        at += size
        name, *keys = row.metadata.split(b"@@")
        if all(key in keys for key in _SEEDS):
            values = _values(row.tensors[0])
            seed, seed2 = (int(values[keys.index(key)]) for key in _SEEDS)
            yield name[name.index(b"Iterator::") :], (seed, seed2)


def _values(packed: Any) -> list[Any]:
    """Return the values of one row, which are single."""
    from tensorflow.core.framework.dataset_pb2 import CompressedElement
    from tensorflow.python.ops import gen_experimental_dataset_ops

    parts = CompressedElement.FromString(packed.variant_val[0].metadata).component_metadata
    kinds = [tf.as_dtype(part.dtype) for part in parts]
    element = tf.io.parse_tensor(packed.SerializeToString(), tf.variant)
    return list(
        gen_experimental_dataset_ops.uncompress_element(
            element, output_types=kinds, output_shapes=[[]] * len(kinds)
        )
    )


def _read_sizes(content: bytes, count: int) -> tuple[list[int], int]:
    """Return the sizes that a list of variants begins with, as varints, and the number of bytes
    that they take."""
    sizes, at = [], 0
    for _ in range(count):
        size = shift = 0
        while True:
            byte = content[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        sizes.append(size)
    return sizes, at
