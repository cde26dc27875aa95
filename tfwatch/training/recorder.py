"""Turns Keras' calls into rows, events and the pulse, and carries out what was asked of the pipeline.

Runs in the training thread. Its own failure ends the recording and never the training.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import tensorflow as tf

from tfwatch.core.events import EpochEnded, EpochStarted, ValidationEnded, WatchFailed
from tfwatch.core.rows import Flag, Phase
from tfwatch.training.fetch import Fetch
from tfwatch.training.split import ITERATORS, BatchStep, images_in, install, is_installed, on_host

if TYPE_CHECKING:
    from tfwatch.training.session import Session

# Plain integers: an IntFlag costs a microsecond an operation.
_COMPILE, _RETRACE, _EPOCH_START, _VALIDATION = (
    int(flag) for flag in (Flag.COMPILE, Flag.RETRACE, Flag.EPOCH_START, Flag.VALIDATION)
)
_Method = TypeVar("_Method", bound=Callable[..., None])


def _fails_open(method: _Method) -> _Method:
    """What goes wrong in tfwatch's own books is told once; the recording ends and the training goes on."""

    @functools.wraps(method)
    def guarded(self: Recorder, *args: Any) -> None:
        if self.over or self.lost:
            return
        try:
            method(self, *args)
        except Exception as error:  # noqa: BLE001  the boundary between tfwatch and the training
            self.lost = True
            self._tell_failure(error)

    return cast("_Method", guarded)


class Recorder:
    """One `fit` of one model.

    over: the `fit` that this belongs to is over, or cannot be split; every call passes through.
    lost: tfwatch failed; nothing more is recorded, and the batches go on coming the way they came.
    """

    def __init__(self, session: Session, model: Any) -> None:
        self.writer = session.writer
        self.now_ns = session.writer.now_ns
        self.writer.trains_in = threading.get_ident()
        self.over = self.lost = False
        self.steps = 0
        self._session = session
        self._model = model
        self._fetch = Fetch(session)
        self._iterator: Any = None
        self._armed = False
        self._flags = 0
        self._batch_step: BatchStep | None = None
        self._shape: Any = None
        self._take_back: Callable[[], None] = lambda: None
        self._epoch = self._epoch_step = self._images = 0
        self._open_row: tuple[int, int, int, int, int] | None = None
        self._validation_ns = 0

    # -- what Keras calls ---------------------------------------------------------------------

    def begin_epoch(self, epoch: int, epochs: int, steps: int | None) -> None:
        """An epoch begins; the stand-in is put in place where it is not."""
        self._armed = True
        self._note_epoch(epoch, epochs, steps)
        if self._session.source is not None:
            # Without them Keras would train on the stand-in's zeros: what fails here has to end the training.
            self._stand_in()
            self._fetch.begin_epoch(self.steps)

    @_fails_open
    def _note_epoch(self, epoch: int, epochs: int, steps: int | None) -> None:
        self._close_row(0, self.now_ns())
        self._stand_in()
        self._flags |= _EPOCH_START
        self._epoch, self._epoch_step = epoch, 0
        self.writer.event(EpochStarted(self.now_ns(), epoch, epochs, steps))
        self.writer.describe(epochs=epochs or None, steps_per_epoch=steps)

    @_fails_open
    def end_epoch(self, logs: dict[str, Any] | None) -> None:
        """An epoch and its validation are over."""
        self._close_row(0, self.now_ns())
        metrics = {name: float(value) for name, value in (logs or {}).items() if _is_number(value)}
        self.writer.event(EpochEnded(self.now_ns(), self._epoch, self.steps, metrics))
        self._say(Phase.EPOCH_END)
        self._obey_stop()

    @_fails_open
    def begin_validation(self) -> None:
        """A validation begins."""
        self._validation_ns = self.now_ns()
        self._close_row(_VALIDATION, self._validation_ns)
        self._say(Phase.VALIDATION)

    @_fails_open
    def during_validation(self) -> None:
        """A batch of the validation is done."""
        if self._session.control.stop.is_set():
            self._model.stop_evaluating = True

    @_fails_open
    def end_validation(self) -> None:
        """The validation is over."""
        now = self.now_ns()
        self.writer.event(ValidationEnded(now, self._epoch, (now - self._validation_ns) / 1e6))
        self._say(Phase.EPOCH_END)

    def end(self) -> None:
        """The training is over, however it ended."""
        self._finish_row()
        self._take_back()
        self._fetch.close()
        self._iterator = self._batch_step = None
        self.over = True

    def _stand_in(self) -> None:
        if not is_installed(self._model, self.train_step):
            self._take_back = install(self._model, self.train_step)
            self._batch_step = None

    # -- a step ---------------------------------------------------------------------------------

    def train_step(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        """Stand in for one call of Keras' train function."""
        if self.over or (iterator is not self._iterator and not self._adopt(original, iterator)):
            return original(iterator)
        try:
            return self._split(original, iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            raise
        except BaseException as error:
            self._tell_error(error)
            raise

    def _split(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        start_ns = self.now_ns()
        self._before(start_ns)
        try:
            batch = self._fetch.next(self.steps)
        except StopIteration:
            return self._end_of_data(original, iterator)
        got_ns = self.now_ns()
        step = cast("BatchStep", self._batch_step)
        ready, traces = step.ready, step.traces
        self.writer.status = (Phase.COMPUTE if ready else Phase.COMPILE, got_ns, self.steps + 1, self._epoch, "")
        outputs = step(batch)
        dispatched_ns = self.now_ns()
        logs = on_host(outputs)
        done_ns = self.now_ns()
        if not ready or step.traces != traces:
            self._flags |= _RETRACE if ready else _COMPILE
        self._count_step()
        self._after(start_ns, got_ns, dispatched_ns, done_ns, batch, logs)
        return logs

    def _adopt(self, original: Callable[[Any], Any], iterator: Any) -> bool:
        """Take a new iterator on. One that comes in no epoch of this `fit` belongs to a later, unwatched one."""
        if not self._armed:
            self.end()
            if self._session.on_abandoned:
                self._session.on_abandoned()
            return False
        if not isinstance(iterator, ITERATORS) or self._model.steps_per_execution != 1:
            self.writer.note("steps are not split: this kind of fit is not supported yet")
            self.over = True
            return False
        try:
            shape = self._fetch.adopt(iterator)
        except Exception as error:
            if self._session.source is not None:
                raise
            self._tell_failure(error)
            self.over = True
            return False
        self._iterator = iterator
        if self._batch_step is None or shape != self._shape:
            self._shape = shape
            self._batch_step = BatchStep(original, shape, eager=self._model.run_eagerly)
        return True

    @_fails_open
    def _before(self, start_ns: int) -> None:
        self._close_row(0, start_ns)
        self.writer.status = (Phase.WAIT, start_ns, self.steps + 1, self._epoch, "")

    @_fails_open
    def _after(
        self, start_ns: int, got_ns: int, dispatched_ns: int, done_ns: int, batch: Any, logs: dict[str, Any]
    ) -> None:
        self._epoch_step += 1
        self.writer.status = (Phase.HOST, done_ns, self.steps, self._epoch, "")
        self._open_row = (start_ns, got_ns, dispatched_ns, done_ns, self._flags | self._fetch.flags)
        self._flags = 0
        self._images += images_in(batch)
        loss, metric = logs.get("loss", math.nan), logs.get(self._session.metric, math.nan)
        self.writer.progress = (self._images, self.steps, self._epoch, self._epoch_step, loss, metric)

    def _count_step(self) -> None:
        """What goes on where the books are lost."""
        self.steps += 1
        self._armed = False
        self._obey_stop()

    def _end_of_data(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        """Hand the exhausted iterator to Keras' own function, which may run a phantom step on it, as stock does."""
        self._say(Phase.EPOCH_END)
        if self._session.source is not None:
            raise StopIteration
        return original(iterator)

    def _tell_error(self, error: BaseException) -> None:
        if self._session.on_error:
            self.end()
            self._session.on_error(error)

    def _tell_failure(self, error: Exception) -> None:
        self.writer.event(WatchFailed(self.now_ns(), f"{type(error).__name__}: {error}"))

    # -- books ------------------------------------------------------------------------------------

    @_fails_open
    def _finish_row(self) -> None:
        self._close_row(0, self.now_ns())

    def _close_row(self, flags: int, end_ns: int) -> None:
        if self._open_row is None:
            return
        start_ns, got_ns, dispatched_ns, done_ns, known = self._open_row
        self._open_row = None
        self.writer.step(
            start_ns,
            self.steps,
            self._epoch,
            known | flags,
            (got_ns - start_ns) / 1e6,
            (dispatched_ns - got_ns) / 1e6,
            (done_ns - got_ns) / 1e6,
            (end_ns - done_ns) / 1e6,
        )

    def _say(self, phase: Phase) -> None:
        self.writer.status = (phase, self.now_ns(), self.steps, self._epoch, "")

    def _obey_stop(self) -> None:
        if self._session.control.stop.is_set() or self.steps == self._session.stop_after:
            self._model.stop_training = True


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
