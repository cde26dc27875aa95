"""What was made of each example, kept over pipelines and epochs: the live cache.

Above the gate of a `Feed` a `Dataset.cache` never hits, for each pipeline begins an empty one. So a store is keyed by
the example's number and lives as long as the cache is on. Its bytes are memory of this process' own, which the system
gives page by page as they are written and takes back at once; TensorFlow's allocator returns none. A pipeline reads
them inside TensorFlow where they lie, without Python and its lock; only who makes an example writes it from Python.
"""

from __future__ import annotations

import mmap
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import tensorflow as tf

from tfwatch.core import units
from tfwatch.core.errors import reason
from tfwatch.core.refusals import no_room
from tfwatch.runs.machine_info import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

#: It fills no more once less than this share of what was available at first is left.
_TIGHT = 0.125
#: Memory is looked at after so many bytes.
_LOOK_BYTES = 64 * 2**20


class NoRoomError(Exception):
    """A cache cannot be had; the message is one sentence for the user."""


class Store:
    """The cache of one workload: `count` examples, each of tensors as `specs` say. Closed at first.

    available_bytes: what can be had without swapping. tell: is told a sentence where it stops filling.
    """

    def __init__(
        self, count: int, specs: Sequence[tf.TensorSpec], available_bytes: Callable[[], float] | None = None
    ) -> None:
        self.tell: Callable[[str], None] = lambda _: None
        self.bytes_needed = count * sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
        self._count = count
        self._specs = specs
        self._available_bytes = available_bytes or free_bytes
        self._kept: dict[str, Kept] = {}
        self._is_open = False
        self._closed = 0

    @property
    def is_open(self) -> bool:
        """Whether examples are kept."""
        return self._is_open

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to be filled in."""
        return any(kept.is_full or kept.is_stopped for kept in self._kept.values())

    @property
    def state(self) -> tuple[int, frozenset[str]]:
        """Another one where a pipeline would be built another way: how often it was closed, and what of it is full."""
        return self._closed, frozenset(maker for maker, kept in self._kept.items() if kept.is_full)

    def open(self) -> None:
        """Begin to keep examples.

        Raises:
            NoRoomError: they would take more than half of the memory that is available.
        """
        if not _Shared((1,), np.uint8).is_shared():
            raise NoRoomError("this TensorFlow copies what it is to share with Python: it can have no cache")
        free = self._available_bytes()
        needs, has = units.memory(self.bytes_needed), units.memory(free)
        if no_room(self.bytes_needed, free):
            raise NoRoomError(f"the cache needs {needs}, more than half of the {has} of memory that are free")
        if not self._is_open:
            self._is_open = True
            self.tell(f"the cache takes {needs} of {has} of free memory once it is full")

    def close(self) -> None:
        """Forget everything: the memory is given back. No pipeline may read on.

        Giving back 4 GB takes 0.4 s, so another thread does it.
        """
        kept, self._kept, self._is_open = list(self._kept.values()), {}, False
        self._closed += 1
        if not kept:
            return
        try:
            threading.Thread(target=_free, args=(kept,), name="tfwatch-cache", daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            _free(kept)

    def kept(self, maker: str = "") -> Kept:
        """What is kept of the examples as `maker` makes them: another form of a pipeline may differ in the last bit."""
        if maker not in self._kept:
            floor = _TIGHT * self._available_bytes()
            self._kept[maker] = Kept(self._count, self._specs, lambda: self._short(floor), self._stopped)
        return self._kept[maker]

    def _short(self, floor: float) -> str:
        try:
            return "" if self._available_bytes() > floor else "memory got short"
        except (
            OSError,
            RuntimeError,
            ValueError,
            psutil.Error,
        ) as error:  # raised within the pipeline, it would end it
            return f"free memory cannot be read ({reason(error)})"

    def _stopped(self, why: str, held: int) -> None:
        of = f"{units.count(held)} of {units.count(self._count)} examples"
        self.tell(f"{why}: the cache keeps {of} and takes no more")


class Kept:
    """Examples by their numbers. Written by one pipeline at a time; any may read.

    short: why there is no memory to go on with, empty where there is. stopped: is told that and the number of examples.
    """

    def __init__(
        self,
        count: int,
        specs: Sequence[tf.TensorSpec],
        short: Callable[[], str],
        stopped: Callable[[str, int], None],
    ) -> None:
        self.is_stopped = False
        self._parts = [_Shared((count, *spec.shape), spec.dtype.as_numpy_dtype) for spec in specs]
        self._known = _Shared((count,), np.uint8)
        self._short = short
        self._stopped = stopped
        self._unlooked = 0

    @property
    def is_full(self) -> bool:
        """Whether every example is here."""
        return bool(self._known.array.all())

    def has(self, numbers: tf.Tensor) -> tf.Tensor:
        """In a graph: whether examples are here, bool of the shape of `numbers`."""
        return tf.gather(self._known.read(), numbers) > 0

    def get(self, numbers: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """In a graph: the examples, each part of the shape of `numbers` and then its own."""
        return tuple(tf.gather(part.read(), numbers) for part in self._parts)

    def keep(self, numbers: tf.Tensor, *parts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """In a graph: the same batch of examples, once they are kept."""
        with tf.control_dependencies([tf.numpy_function(self._write, [numbers, *parts], tf.int64)]):
            return tuple(tf.identity(part) for part in parts)

    def example(self, number: int, make: Callable[[int], Any]) -> Any:
        """In Python: one example, a tuple of its parts, made where it is not here."""
        if self._known.array[number]:
            return tuple(part.array[number] for part in self._parts)
        made = make(number)
        self._keep(number, made)
        return made

    def free(self) -> None:
        """Give the memory back."""
        self.is_stopped = True
        for part in (self._known, *self._parts):
            part.free()

    def _write(self, numbers: NDArray[np.int64], *parts: NDArray[Any]) -> np.int64:
        for row, number in enumerate(numbers):
            self._keep(int(number), [part[row] for part in parts])
        return np.int64(len(numbers))

    def _keep(self, number: int, example: Sequence[Any]) -> None:
        if self.is_stopped or self._known.array[number]:
            return
        for part, made in zip(self._parts, example, strict=True):
            part.array[number] = made  # one row at a time: numpy copies it without Python's lock
            self._unlooked += part.array[number].nbytes
        self._known.array[number] = 1
        if self._unlooked >= _LOOK_BYTES:
            self._look()

    def _look(self) -> None:
        self._unlooked = 0
        if why := self._short():
            self.is_stopped = True
            self._stopped(why, int(self._known.array.sum()))


class _Shared:
    """An array that numpy writes and TensorFlow reads: the same bytes.

    A variable carries them into the pipeline, for a tensor that a data set captures is copied. It is read whole, which
    copies nothing, and gathered from: gathering from the variable itself would make it a copy of its own.
    """

    def __init__(self, shape: tuple[int, ...], kind: Any) -> None:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        self._memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array = np.frombuffer(self._memory, kind, int(np.prod(shape))).reshape(shape)
        with tf.device("/CPU:0"):
            tensor = tf.experimental.dlpack.from_dlpack(self.array.__dlpack__())
            any_count = tf.TensorShape([None, *shape[1:]])
            self._variable = tf.Variable(tensor, trainable=False, shape=any_count, name="tfwatch_cache")
            del tensor

    def read(self) -> tf.Tensor:
        """In a graph: all of it, where it lies."""
        return self._variable.read_value()

    def free(self) -> None:
        """Let the system have the pages, whoever still holds the array; it reads as zeros, or not at all, then."""
        self._variable.assign(tf.zeros([0, *self.array.shape[1:]], self._variable.dtype))
        self._memory.madvise(mmap.MADV_FREE if sys.platform == "darwin" else mmap.MADV_DONTNEED)

    def is_shared(self) -> bool:
        """Whether TensorFlow sees what numpy writes; it may change an array."""
        first = (0,) * self.array.ndim
        self.array[first] = 1
        return bool(self.read()[first] == 1)


def _free(kept: list[Kept]) -> None:
    for each in kept:
        each.free()
