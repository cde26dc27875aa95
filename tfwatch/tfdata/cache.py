"""The live cache: prepared examples, kept over pipelines and epochs.

Above the gate of a `SwitchablePipeline` a `Dataset.cache` never hits, because each pipeline begins
an empty one. So this store is keyed by the example's number and lives as long as the cache is on.
Its memory is mapped anonymously: the system adds pages as they are written and takes all back at
once; TensorFlow's allocator returns none. Pipelines read it inside TensorFlow without a copy and
without the GIL; only the stage that makes an example writes it from Python.
"""

from __future__ import annotations

import mmap
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import tensorflow as tf

from tfwatch.core import units
from tfwatch.core.errors import reason
from tfwatch.core.knobs import no_room
from tfwatch.runs.machine_info import free_bytes
from tfwatch.tfdata.disposal import start_awaited
from tfwatch.tfdata.pipeline_tree import CannotRebuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


#: The cache stops filling once less than this share of the memory that was free at first is left.
_MIN_FREE_SHARE = 0.125
#: Free memory is checked after so many bytes.
_CHECK_BYTES = 64 * 2**20


class ExampleStore:
    """The cache of one data set: `count` examples, each a tuple of tensors of `specs`. Closed at
    first.

    available_bytes: memory that is free without swapping. notify: receives a sentence when the
    cache is opened, and when it stops filling.
    """

    def __init__(
        self,
        count: int,
        specs: Sequence[tf.TensorSpec],
        available_bytes: Callable[[], float] | None = None,
    ) -> None:
        self.notify: Callable[[str], None] = lambda _: None
        self.bytes_needed = count * sum(
            spec.shape.num_elements() * spec.dtype.size for spec in specs
        )
        self._count = count
        self._specs = specs
        self._available_bytes = available_bytes or free_bytes
        self._examples: CachedExamples | None = None
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """True while the cache is on."""
        return self._is_open

    @property
    def is_settled(self) -> bool:
        """True once the cache is full or has stopped filling."""
        known = self._examples
        return known is not None and (known.is_full or known.is_stopped)

    def open(self) -> None:
        """Turn the cache on.

        Raises:
            CannotRebuildError: the examples would take more than half of the free memory.
        """
        if not _Shared((1,), np.uint8).is_shared():
            raise CannotRebuildError(
                "there is no cache with this TensorFlow: it copies arrays that Python shares"
                " with it"
            )
        free = self._available_bytes()
        needs, has = units.memory(self.bytes_needed), units.memory(free)
        if no_room(self.bytes_needed, free):
            raise CannotRebuildError(
                f"the cache needs {needs}, more than half of the {has} of memory that are free"
            )
        if not self._is_open:
            self._is_open = True
            self.notify(f"the cache takes {needs} of {has} of free memory once it is full")

    def close(self) -> None:
        """Turn the cache off and free its memory. No pipeline may read it any more.

        Freeing 4 GB takes 0.4 s, so another thread does it.
        """
        freed, self._examples, self._is_open = self._examples, None, False
        if freed is None:
            return
        try:
            start_awaited("cache", freed.free)
        except RuntimeError:  # the system has no thread left
            freed.free()

    def examples(self) -> CachedExamples:
        """Return the cached examples, none at first."""
        if self._examples is None:
            self._examples = CachedExamples(
                self._count, self._specs, self._available_bytes, lambda text: self.notify(text)
            )
        return self._examples


class CachedExamples:
    """Examples by their numbers. Only one pipeline writes them; any pipeline may read.

    available_bytes, notify: as those of the store; it stops filling where little memory is left.
    """

    def __init__(
        self,
        count: int,
        specs: Sequence[tf.TensorSpec],
        available_bytes: Callable[[], float],
        notify: Callable[[str], None],
    ) -> None:
        self.is_stopped = False
        self._parts = [_Shared((count, *spec.shape), spec.dtype.as_numpy_dtype) for spec in specs]
        self._is_cached = _Shared((count,), np.uint8)
        self._available_bytes = available_bytes
        self._min_free_bytes = _MIN_FREE_SHARE * available_bytes()
        self._notify = notify
        self._unchecked_bytes = 0

    @property
    def is_full(self) -> bool:
        """True if every example is cached."""
        return bool(self._is_cached.array.all())

    def has(self, numbers: tf.Tensor) -> tf.Tensor:
        """In a graph: return whether examples are cached, a bool tensor of the shape of
        `numbers`."""
        return tf.gather(self._is_cached.read(), numbers) > 0

    def get(self, numbers: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """In a graph: return the examples, each part of the shape of `numbers` plus its own."""
        return tuple(tf.gather(part.read(), numbers) for part in self._parts)

    def keep(self, number: tf.Tensor, *parts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """In a graph: cache an example, and return it."""
        with tf.control_dependencies([tf.numpy_function(self._write, [number, *parts], [])]):
            return tuple(tf.identity(part) for part in parts)

    def free(self) -> None:
        """Free the memory."""
        self.is_stopped = True
        for part in (self._is_cached, *self._parts):
            part.free()

    def _write(self, number: np.int64, *parts: Any) -> None:
        row, is_cached = int(number), self._is_cached.array
        if self.is_stopped or is_cached[row]:
            return
        for part, made in zip(self._parts, parts, strict=True):
            part.array[row] = made  # numpy copies it without the GIL
            self._unchecked_bytes += part.array[row].nbytes
        is_cached[row] = 1
        if self._unchecked_bytes >= _CHECK_BYTES:
            self._unchecked_bytes = 0
            if why := self._why_stop():
                self.is_stopped = True
                kept, count = (units.count(n) for n in (is_cached.sum(), is_cached.size))
                self._notify(
                    f"the cache stopped filling: {why}; it keeps {kept} of {count} examples"
                )

    def _why_stop(self) -> str:
        try:
            enough = self._available_bytes() > self._min_free_bytes
        except (OSError, RuntimeError, ValueError, psutil.Error) as error:
            # Raised in the pipeline, it would end it.
            return f"free memory cannot be read ({reason(error)})"
        return "" if enough else "little memory is left"


class _Shared:
    """An array that numpy writes and TensorFlow reads: the same bytes.

    A variable carries them into the pipeline, because a tensor that a data set captures is copied.
    The pipeline reads the whole variable, which copies nothing, and gathers from that: gathering
    from the variable itself copies it.
    """

    def __init__(self, shape: tuple[int, ...], kind: Any) -> None:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        self._memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array = np.frombuffer(self._memory, kind, int(np.prod(shape))).reshape(shape)
        with tf.device("/CPU:0"):
            tensor = tf.experimental.dlpack.from_dlpack(self.array.__dlpack__())
            any_count = tf.TensorShape([None, *shape[1:]])
            self._variable = tf.Variable(
                tensor, trainable=False, shape=any_count, name="tfwatch_cache"
            )
            del tensor

    def read(self) -> tf.Tensor:
        """In a graph: return the whole array without a copy."""
        return self._variable.read_value()

    def free(self) -> None:
        """Return the pages to the system. An array that is still referenced then reads as zeros, or
        not at all."""
        self._variable.assign(tf.zeros([0, *self.array.shape[1:]], self._variable.dtype))
        self._memory.madvise(mmap.MADV_FREE if sys.platform == "darwin" else mmap.MADV_DONTNEED)

    def is_shared(self) -> bool:
        """Return whether TensorFlow sees what numpy writes; changes the array's first element."""
        first = (0,) * self.array.ndim
        self.array[first] = 1
        return bool(self.read()[first] == 1)
