"""Fetch the next batch, and switch the pipeline before it where that is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open, raise_interrupt, reason
from tfwatch.core.rows import Flag
from tfwatch.tfdata.shuffle_fill import ShuffleFill
from tfwatch.watch.fit.stepping.fused_steps import clock_offset_ns
from tfwatch.watch.fit.switching.requested_switches import RequestedSwitches
from tfwatch.watch.fit.switching.script_pipeline import KnobDescriber

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.tfdata.live_switch import BatchSpec
    from tfwatch.tfdata.work_ahead import CopyStamps
    from tfwatch.watch.session import Session

#: What TensorFlow says of an iterator over no data set.
_NO_DATA = "the iterator has not been initialized"
_SWITCH, _SHUFFLE_FILL = int(Flag.SWITCH), int(Flag.SHUFFLE_FILL)


class Fetch:
    """Returns batches: from Keras' own iterator until a switch is requested, then through a
    `SwitchablePipeline`.

    flags: of the step of the last batch. switches: those that are requested. current: where the
    batches come from.
    """

    def __init__(self, session: Session) -> None:
        self.flags = 0
        self.switches = RequestedSwitches(session, self._use_rebuilt, self._note_failure)
        self.current = self.switches.current
        self._session, self._writer = session, session.writer
        self._filling = ShuffleFill(None)
        self._describer = KnobDescriber(session.writer, session.py_dataset)
        self._is_measured = False
        self._stamps: CopyStamps | None = None
        session.stages.use(self.iterators)

    def use_iterator(self, iterator: Any) -> BatchSpec:
        """Fetch from a new iterator of Keras', through a pipeline if prefetch was requested.

        Returns the structure of its batches.
        """
        if iterator is self.current.keras and self.current.is_switchable:
            return self.current.spec  # a pipeline over it may hold batches
        is_new = self.current.use(iterator)
        self._filling = ShuffleFill(iterator)
        self.switches.begin_iterator(iterator, is_new=is_new)
        return self.current.spec

    def _use_rebuilt(self, source: Any) -> None:
        """Know the source of a rebuilt pipeline."""
        with fails_open(self._note_failure):
            self._writer.describe(workers_from_epoch=self.switches.script.workers_from_epoch)
            self._filling = ShuffleFill(source)

    def next(self, steps: int) -> Any:
        """Return the batch after `steps` steps.

        Raises:
            StopIteration: the data is exhausted.
        """
        self._begin(steps)
        while True:
            try:
                batch = self.current.next()
                break
            except StopIteration:
                if not self.current.has_successor:
                    raise
            # Outside the handler: the exception holds the ended iterator and would delete it in
            # this thread.
            self.switches.take_over(steps)
        try:
            self._look_at(batch, steps + 1)
        except Exception as error:  # noqa: BLE001  the training's boundary; a `with` adds 0.3 us per call
            raise_interrupt(error)
            self._note_failure(reason(error))
        return batch

    def _begin(self, steps: int) -> None:
        self.flags = 0
        try:
            self.current.note_step(steps)
            if self.switches.apply(steps):
                self.flags = _SWITCH
        except Exception as error:  # noqa: BLE001  the training's boundary
            raise_interrupt(error)
            self._note_failure(reason(error))

    def _look_at(self, batch: Any, step: int) -> None:
        """Read what there is to know of the batch of a step."""
        self._stamps = self.current.stamps
        if self._stamps:
            self._stamps.taken += 1
        if not self._is_measured:
            with fails_open(self._note_failure):
                self._measure(batch)
        self.mark_first_batch(step)

    def ready_ns(self) -> int | None:
        """Return when the last batch was ready in host memory, to be copied ahead; None where that
        is unknown."""
        if self._stamps is None:
            return None
        writer = self._writer
        return self._stamps.newest_ns() + clock_offset_ns(writer.now_ns, writer.clock.wall_ns)

    def _measure(self, batch: Any) -> None:
        self._is_measured = True
        why = "a batch holds more than plain numbers"
        try:
            size = count_bytes(batch)
        except Exception as error:  # noqa: BLE001  the batch is the user's, of any kind, and its parts may raise anything
            raise_interrupt(error)
            size, why = None, reason(error)
        if size is None:
            self._writer.note(f"the size of batches and buffers is unknown: {why}")
        self._writer.describe(batch_bytes=size)

    def explain_wait(self, wait_ns: float) -> None:
        """Set the flag of the cause of a long wait for the last batch, if the cause is known."""
        with fails_open(self._stop_explaining):
            if self._filling.is_cause_of(wait_ns):
                self.flags |= _SHUFFLE_FILL
                self._filling.describe_in(self._writer)

    def _stop_explaining(self, why: str) -> None:
        self._filling = ShuffleFill(None)
        self._writer.note(f"waits that fill a shuffle buffer are not marked: {why}")

    def source(self, steps: int) -> Any:
        """Return the iterator after `steps` steps, for a caller that fetches itself (see
        `successor`)."""
        self._begin(steps)
        return self.current.iterator

    def successor(self, steps: int) -> Any:
        """Return the iterator that continues after `steps` steps, where the last one ended; None if
        the data did."""
        self.flags = 0
        if not self.current.has_successor:
            return None
        self.switches.take_over(steps)
        return self.current.iterator

    def mark_first_batch(self, step: int) -> None:
        """Record that the first batch of the last `source` or `successor` was that of `step`."""
        if self.switches.requested:
            with fails_open(self._note_failure):
                if self.switches.report(step):
                    self.flags = _SWITCH

    def _note_failure(self, why: str) -> None:
        with fails_open(lambda _: None):
            self._writer.note(f"a part of the record is missing: {why}")

    def iterators(self) -> tuple[Any, Any]:
        """Return the source below the gate, None without a gate, and the iterator of the batches.

        Any thread may call it. Both are None between two epochs.
        """
        current = self.current
        self._describer.describe(current.keras, self.switches.script, current.refusal)
        return self.current.observed()

    def close(self) -> None:
        """End with the training."""
        with fails_open(self._note_failure):
            self._session.stages.use(None)
        self.switches.close()


def count_bytes(batch: Any) -> int | None:
    """Return the bytes that a batch takes in memory; None if it holds strings or anything but
    tensors."""
    leaves = tf.nest.flatten(batch, expand_composites=True)
    sizes = [_count_tensor_bytes(leaf) for leaf in leaves]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _count_tensor_bytes(tensor: Any) -> int | None:
    count_elements = getattr(getattr(tensor, "shape", None), "num_elements", None)
    kind = getattr(tensor, "dtype", None)
    count, size = count_elements() if count_elements else None, getattr(kind, "size", 0)
    return (
        count * size
        if count is not None and size and getattr(kind, "name", "") != "string"
        else None
    )


def fail_in_graph(original: Callable[[Any], Any], iterator: Any) -> None:
    """Raise an error of the data as Keras' own train function does, which fetches inside the graph
    of its step: run it as far as the fetch that raised.

    There an error of the fetch ends a step of which the operations that need no batch may have run:
    on a CPU, the optimizer has counted it. So Keras' function runs once on an iterator that has
    nothing to give. The error that is raised is that of the fetch, in its own words.

    Raises:
        Exception: of the step's Python, if no batch came before: Keras traces the step before it
        fetches.
    """
    empty: list[Any] = []
    # Without a stand-in the error keeps its own words, and the caller raises it.
    with fails_open(lambda _: None):
        empty.append(_without_data(iterator))
    try:
        for stand_in in empty:
            original(stand_in)
    except tf.errors.FailedPreconditionError as failed:
        if _NO_DATA not in failed.message:
            raise


def _without_data(iterator: tf.data.Iterator) -> tf.data.Iterator:
    """Return an iterator of the same elements, so that no function is traced for it, over no data
    set."""
    shapes = iterator._flat_output_shapes
    with tf.device("/CPU:0"):
        resource = tf.raw_ops.AnonymousIteratorV3(
            output_types=iterator._flat_output_types, output_shapes=shapes
        )
    return type(iterator)(components=[resource], element_spec=iterator.element_spec)
