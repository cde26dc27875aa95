"""Copy the large parts of a batch to the GPU before the step's call, so that the copy can be timed.

Otherwise the copy happens inside the call and looks like launching. The step itself is the same,
bit for bit: it would copy the same tensors to the same device. A copy from pageable memory returns
when it is done, so nothing is lost by making it apart. One from pinned memory goes on beside
launching where the call makes it: of 7.7 ms on an H200 that saves 0.7. So these are left to the
call, and are no part of the step of their own, but for those that a prefetch to the device makes.

The first batch of a fit decides for all: see `batch_step`.
"""

from __future__ import annotations

import math
import platform
import time
from collections import defaultdict
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open, raise_interrupt
from tfwatch.core.errors import reason as to_text
from tfwatch.core.knobs import NotTimed
from tfwatch.tfdata.work_ahead import in_one_batch
from tfwatch.watch.fit.stepping.instances import BesideTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.runs.writer import RunWriter
    from tfwatch.watch.fit.stepping.batch_step import Placement

#: Smaller parts, as labels are, stay inside the call: a copy costs 0.06 ms beside its bytes on an
#: H100.
LEAST_BYTES = 2**18
#: Element types that a function takes on the GPU. It takes 32-bit integers and strings in host
#: memory.
_KINDS = frozenset(
    {
        tf.float64, tf.float32, tf.float16, tf.bfloat16, tf.uint8, tf.int8,
        tf.uint16, tf.int16, tf.int64, tf.bool,
    }
)  # fmt: skip
_TRIES = 9
#: The first batch is copied so often, the first time slowly. At this rate, bytes a nanosecond, it
#: is in pinned memory: a copy runs at 25 to 32 there, and at 5 to 7 from ordinary memory (H200,
#: see `judge.forecasts.predict`).
_PROBES, _PINNED = 2, 12.0
#: Shorter waits for a batch that is copied ahead are those of fetching alone.
_LEAST_WAIT_NS = 200_000
#: Without stamps of the copies, a wait for a batch that is copied ahead is for its copy where that
#: takes this share of the steps: no batch comes more often. The mean step is that of about as many.
_FILLS, _STEPS = 0.8, 20
#: A step, or an epoch's end, counts as at most so many steps.
_LONGEST = 4.0
#: The copies whose median is that of the run.
_FIRST = 15


class DeviceCopy:
    """Copies batches of one structure, flat lists of tensors, to one device; a tensor that is there
    stays.

    copied_bytes: of the first batch, by element type; empty before it, or if its parts are too
    small to be copied.
    """

    def __init__(self, device: str) -> None:
        self.copied_bytes: dict[str, int] = {}
        self._device = device
        self._parts: list[int] = []
        self._empty_ns = 0.0

    def begin(self, batch: Sequence[Any]) -> None:
        """Choose the parts to copy by the first batch, and measure the time of a copy beside its
        bytes."""
        sizes = [int(part.shape.num_elements() or 0) * part.dtype.size for part in batch]
        self._parts = [
            n for n, part in enumerate(batch) if part.dtype in _KINDS and sizes[n] >= LEAST_BYTES
        ]
        copied: defaultdict[str, int] = defaultdict(int)
        for n in self._parts:
            copied[batch[n].dtype.name] += sizes[n]
        self.copied_bytes = dict(copied)
        if copied:
            self._empty_ns = len(self._parts) * self._time_empty()

    def is_there(self, batch: Sequence[Any]) -> bool:
        """Return whether a batch is on the device already."""
        return "GPU" in batch[self._parts[0]].device

    def time_like(self, batch: Sequence[Any], *, pinned: bool) -> float:
        """Return the nanoseconds of a copy from host memory of as many bytes as those of a batch
        that is there. pinned: its pipeline leaves batches in memory that the GPU reads."""
        with tf.device("/CPU:0"):
            like = [tf.zeros(part.shape, part.dtype) for part in batch]
            like = in_one_batch(like) if pinned else like
        self(list(like))
        return self(like)

    def __call__(self, batch: list[Any]) -> float:
        """Copy in place; return the nanoseconds, without those of as many empty copies."""
        device, start_ns = self._device, time.perf_counter_ns()
        for n in self._parts:
            batch[n] = batch[n]._copy_to_device(device)
        return max(time.perf_counter_ns() - start_ns - self._empty_ns, 0.0)

    def _time_empty(self) -> float:
        with tf.device("/CPU:0"):
            empty = tf.zeros(1)
        took_ns = []
        for _ in range(_TRIES):
            start_ns = time.perf_counter_ns()
            empty._copy_to_device(self._device)
            took_ns.append(time.perf_counter_ns() - start_ns)
        return median(took_ns)


class TimedCopy:
    """The copy of a training's batches, as long as it works: a failure ends the timing, never the
    training.

    Batches may be copied ahead of their steps, by a prefetch to the device of tfwatch's or of the
    script's own. is_pinned: returns whether they then come from memory that the GPU reads.
    """

    def __init__(
        self,
        writer: RunWriter,
        copy: DeviceCopy,
        placement: Placement,
        is_pinned: Callable[[], bool] = lambda: False,
    ) -> None:
        self._writer, self._placement, self._is_pinned = writer, placement, is_pinned
        self._copy: DeviceCopy | None = copy
        self._has_begun = False
        self._is_ahead: bool | None = None
        self._first_ns: list[float] | None = []
        self._copy_ns = 0.0
        #: Of a first batch in pinned memory, until the step is traced.
        self._pinned_ns: float | None = None
        #: What is built before the copies leave the call.
        self._moves: BesideTraining | None = None
        self._begun_ns = 0
        self._step_ns = 0.0

    def __call__(self, batch: Any) -> float:
        """Copy the parts of a flat batch in place; return the nanoseconds, NaN where the copy is
        not timed."""
        if self._copy is None:
            return _NAN
        try:
            if not self._has_begun:
                self._begin(self._copy, batch)
            elif self._pinned_ns is not None:
                self._describe_pinned(self._pinned_ns)
            if self._copy is None:
                return _NAN
            if self._moves is not None:
                self._move(self._moves)
            is_ahead = self._copy.is_there(batch)
            self._see(is_ahead)
            if self._placement.why_in_call and not is_ahead:
                return _NAN
            took_ns = self._copy(batch)
            if self._first_ns is not None and not self._is_ahead:
                self._note(took_ns, self._first_ns)
            return took_ns
        except Exception as error:  # noqa: BLE001  the step copies what is left, and raises what the user is to see
            raise_interrupt(error)
            self._stop(to_text(error).partition("\n")[0])
            return _NAN

    def wait_ns(self, start_ns: int, got_ns: int, ready_ns: Callable[[], int | None]) -> int:
        """Return the part of the last batch's fetch that waited for its copy to the device.

        ready_ns: returns when the batch was ready in host memory to be copied ahead; None where
        that is unknown.
        """
        waited_ns = got_ns - start_ns
        self._count_step(start_ns)
        if self._copy is None or waited_ns < _LEAST_WAIT_NS:
            return 0
        with fails_open(self._stop):
            begun_ns = ready_ns()
            if begun_ns is not None:
                return min(max(got_ns - begun_ns, 0), waited_ns)
        return waited_ns if self._is_ahead and self._copy_ns >= _FILLS * self._step_ns > 0 else 0

    def _count_step(self, start_ns: int) -> None:
        """Follow the mean time between two fetches."""
        last_ns, self._begun_ns = self._begun_ns, start_ns
        if last_ns:
            took_ns = min(start_ns - last_ns, _LONGEST * self._step_ns or math.inf)
            self._step_ns += (took_ns - self._step_ns) / (_STEPS if self._step_ns else 1)

    def _begin(self, copy: DeviceCopy, batch: Any) -> None:
        self._has_begun = True
        copy.begin(batch)
        if not copy.copied_bytes:
            self._stop(NotTimed.SMALL.value)
            return
        self._writer.describe(copied_bytes=copy.copied_bytes)
        if not copy.is_there(batch):
            self._place(copy, batch)
        else:
            is_pinned = self._placement.why_in_call is NotTimed.PINNED or self._is_pinned()
            self._describe(copy.time_like(batch, pinned=is_pinned))

    def _place(self, copy: DeviceCopy, batch: Sequence[Any]) -> None:
        """Decide by a first batch, which stays where it is."""
        placement = self._placement
        if placement.is_known and placement.why_in_call is None:
            return
        if placement.is_known and not placement.may_change():
            placement.why_in_call = NotTimed.DRAWS
            return
        copied = [list(batch) for _ in range(_PROBES)]
        took_ns = min(map(copy, copied))
        is_pinned = 0 < took_ns * _PINNED <= sum(copy.copied_bytes.values())
        step, was_known = placement.step(), placement.is_known
        placement.is_known, placement.why_in_call = True, NotTimed.PINNED if is_pinned else None
        if is_pinned:
            self._pinned_ns = took_ns
            self._writer.describe(copy_ms=None)  # that of an earlier fit
        elif was_known and step is not None:
            placement.why_in_call = NotTimed.BUILDS
            self._moves = BesideTraining(partial(step.build, copied[0]))

    def _move(self, moves: BesideTraining) -> None:
        """Copy before the call once TensorFlow has built the step for it; never where it cannot."""
        if moves.is_over():
            self._moves = self._is_ahead = None
            self._placement.why_in_call = NotTimed.NOT_BUILT if moves.failure else None

    def _describe_pinned(self, took_ns: float) -> None:
        """Describe the copy from pinned memory that one ahead would hide, once the step is traced:
        none may where the step draws random numbers."""
        self._pinned_ns = None
        if self._placement.may_change():
            self._describe(took_ns)
        else:
            self._placement.why_in_call = NotTimed.DRAWS
            self._writer.describe(copy_not_timed=NotTimed.DRAWS.value)

    def _see(self, is_ahead: bool) -> None:
        if is_ahead is not self._is_ahead:
            self._is_ahead = is_ahead
            why = None if is_ahead else self._placement.why_in_call
            not_timed = why.value if why else ""
            self._writer.describe(copied_ahead=is_ahead, copy_not_timed=not_timed)

    def _note(self, took_ns: float, first_ns: list[float]) -> None:
        first_ns.append(took_ns)
        if len(first_ns) == _FIRST:
            self._describe(median(first_ns))

    def _describe(self, copy_ns: float) -> None:
        self._copy_ns, self._first_ns = copy_ns, None
        self._writer.describe(copy_ms=copy_ns / 1e6)

    def _stop(self, why: str) -> None:
        self._copy = None
        self._writer.describe(copied_bytes={}, copied_ahead=False, copy_not_timed=why)


_NAN = float("nan")


def why_no_device_prefetch() -> NotTimed | None:
    """Return why nothing is copied to a GPU with memory of its own; None where there is one."""
    if not tf.config.list_logical_devices("GPU"):
        return NotTimed.CPU
    return NotTimed.UNIFIED if platform.system() == "Darwin" else None


def find_device(
    model: Any, *, eager: bool, is_flat: bool, is_spread: bool = False
) -> str | NotTimed:
    """Return the GPU that a model's steps copy their batches to, or why the copy is not timed.

    is_flat: batches are lists of plain tensors. is_spread: over the devices of a strategy.
    """
    if missing := why_no_device_prefetch():
        return missing
    if is_spread:
        return NotTimed.SPREAD
    if eager:
        return NotTimed.EAGER
    if not is_flat:
        return NotTimed.NOT_PLAIN
    wanted = tf.config.list_logical_devices("GPU")[0].name
    used = {_short(part.value.device) for part in model.trainable_variables} | {
        _short(_probe().device)
    }
    return wanted if used == {_short(wanted)} else NotTimed.ELSEWHERE


def make_copy(
    writer: RunWriter,
    model: Any,
    placement: Placement,
    is_pinned: Callable[[], bool],
    *,
    eager: bool,
    is_flat: bool,
    is_spread: bool = False,
) -> TimedCopy | None:
    """Return the copy of a model's batches; None where it is not timed, which run.json then
    explains. placement: of the batches of the model's step. is_pinned: see `TimedCopy`."""
    try:
        found = find_device(model, eager=eager, is_flat=is_flat, is_spread=is_spread)
    except Exception as error:  # noqa: BLE001  a model of any kind; its copies are then not timed
        raise_interrupt(error)
        writer.describe(copied_bytes={}, copy_not_timed=to_text(error).partition("\n")[0])
        return None
    if isinstance(found, NotTimed):
        writer.describe(copied_bytes={}, copy_not_timed=found.value)
        return None
    return TimedCopy(writer, DeviceCopy(found), placement, is_pinned)


def _probe() -> Any:
    """Return a tensor where operations run by default: a script may train within `tf.device`."""
    return tf.zeros((1,)) + 0.0


def _short(device: str) -> str:
    """Return `GPU:0` of any way to write a device."""
    return ":".join(device.split(":")[-2:]).rpartition("/")[2].upper()
