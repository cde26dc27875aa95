"""Write the steps of a training: rows, the pulse and the progress.

Runs in the training thread. A failure here ends the recording, never the training.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from tfwatch.core.errors import fails_open, raise_interrupt, reason
from tfwatch.core.events import EpochEnded, EpochStarted, ValidationEnded, WatchFailed
from tfwatch.core.rows import Flag, Phase
from tfwatch.watch.profile.step_profiler import StepProfiler
from tfwatch.watch.traces import CompiledShapes, Numbers, Signature, TraceLog, batch_signature

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tfwatch.runs.writer import RunWriter

# Plain integers: an IntFlag costs a microsecond an operation.
_EPOCH_START, _VALIDATION = int(Flag.EPOCH_START), int(Flag.VALIDATION)
_RETRACE, _TRACED = int(Flag.RETRACE), int(Flag.COMPILE | Flag.RETRACE)
#: A call in which XLA compiles a step takes longer.
_COMPILED_NS = 20_000_000
_Method = TypeVar("_Method", bound=Callable[..., None])
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_Otherwise = TypeVar("_Otherwise")


def failure_ends_recording(method: _Method) -> _Method:
    """Decorate a method so that its failure is reported once and ends the recording; the training
    continues."""

    @functools.wraps(method)
    def guarded(self: StepLog, *args: Any) -> None:
        if self.closed or self.lost:
            return
        try:
            method(self, *args)
        except Exception as error:  # noqa: BLE001  the training's boundary; a `with` adds 0.3 us per call
            raise_interrupt(error)
            self.lose(error)

    return cast("_Method", guarded)


def bookkeeping(
    otherwise: _Otherwise,
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result | _Otherwise]]:
    """Decorate a method of an object with a `_step_log`: its failure ends the recording, and it
    returns `otherwise`.

    So it does once the recording has ended.
    """

    def decorate(method: Callable[_Given, _Result]) -> Callable[_Given, _Result | _Otherwise]:
        @functools.wraps(method)
        def guarded(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result | _Otherwise:
            step_log: StepLog = args[0]._step_log  # type: ignore[attr-defined]
            if step_log.lost:
                return otherwise
            try:
                return method(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  the training's boundary
                raise_interrupt(error)
                step_log.lose(error)
            return otherwise

        return guarded

    return decorate


class StepLog:
    """The log of the steps of one `fit`.

    closed: the `fit` is over, and nothing more is written. lost: recording failed, and nothing more
    is written.
    steps: the number of steps trained. flags: of the next step. fit: its number in the run, from 1.
    before: of the `fit` before this one in the same run; steps, images, epochs, fits and traces are
    counted on.
    compiled: the shapes for which XLA has compiled the step; None where a new shape compiles
    nothing.
    """

    def __init__(
        self,
        writer: RunWriter,
        profiler: StepProfiler | None = None,
        *,
        before: StepLog | None = None,
    ) -> None:
        self.closed = self.lost = False
        self.steps: int = before.steps if before else 0
        self.flags = 0
        self._writer = writer
        self._progress = writer.progress.append
        self.fit: int = before.fit + 1 if before else 1
        self._epochs_before: int | None = before._epochs_begun if before else None
        self._first_epoch: int | None = None
        self._epochs_begun: int = self._epochs_before or 0
        self._epoch = self._epoch_step = 0
        self._epoch_steps: int | None = None
        self._images: int | None = before._images if before else 0
        self._open_row: tuple[int, int, int, float, float, float, float] | None = None
        self._validation_ns = 0
        self.traces: TraceLog = before.traces if before else TraceLog(writer)
        self._models: Numbers = before._models if before else Numbers()
        self._functions: Numbers = before._functions if before else Numbers()
        self._model, self._trained = 1, ("", "", "")
        self.compiled: CompiledShapes | None = None
        self.profiler = profiler or StepProfiler(writer)

    def use_model(self, model: Any) -> None:
        """Train this model from the next epoch on."""
        self._model = self._models.of(model)
        self._trained = type(model).__name__, str(self._model), ""

    def use_train_function(self, function: Any) -> None:
        """Train the model by this function; `compile` makes another one."""
        self._trained = *self._trained[:2], str(self._functions.of(function))

    # -- epochs ---------------------------------------------------------------------------------

    @failure_ends_recording
    def begin_epoch(
        self, epoch: int, epochs: int, steps: int | None, at_ns: int | None = None
    ) -> None:
        """Record the start of an epoch, `at_ns` or now."""
        at_ns = self._writer.now_ns() if at_ns is None else at_ns
        self._close_row(0, at_ns)
        self.flags |= _EPOCH_START
        self._writer.is_between_fits = False
        shift = self._shift(epoch)
        self._epoch, self._epoch_step, self._epoch_steps = epoch + shift, 0, steps
        self._writer.epoch, self._epochs_begun = self._epoch, self._epoch + 1
        epochs = epochs + shift if epochs else 0
        started = EpochStarted(at_ns, self._epoch, epochs, steps, self.fit, self._model)
        self._writer.event(started)
        self._writer.describe(epochs=epochs or None, steps_per_epoch=steps)

    def _shift(self, epoch: int) -> int:
        """Return the difference between an epoch's number in the run and in its `fit`."""
        if self._first_epoch is None:
            self._first_epoch = epoch
        return 0 if self._epochs_before is None else self._epochs_before - self._first_epoch

    @failure_ends_recording
    def end_epoch(self, logs: dict[str, Any] | None) -> None:
        """Record the end of an epoch and its validation."""
        self.profiler.end_steps(self.steps)
        self._close_row(0, self._writer.now_ns())
        metrics = {name: float(value) for name, value in (logs or {}).items() if _is_number(value)}
        self._writer.event(EpochEnded(self._writer.now_ns(), self._epoch, self.steps, metrics))
        self.traces.flush()
        self.set_phase(Phase.EPOCH_END)

    @failure_ends_recording
    def begin_validation(self) -> None:
        """Record the start of a validation."""
        self.profiler.end_steps(self.steps)
        self._validation_ns = self._writer.now_ns()
        self._close_row(_VALIDATION, self._validation_ns)
        self.set_phase(Phase.VALIDATION)

    @failure_ends_recording
    def end_validation(self) -> None:
        """Record the end of a validation."""
        now = self._writer.now_ns()
        self._writer.event(ValidationEnded(now, self._epoch, (now - self._validation_ns) / 1e6))
        self.set_phase(Phase.EPOCH_END)

    # -- steps ----------------------------------------------------------------------------------

    @failure_ends_recording
    def end_step(self, end_ns: int) -> None:
        """Record the end of the last step's host part."""
        self._close_row(0, end_ns)

    @failure_ends_recording
    def begin_fetch(self, start_ns: int) -> None:
        """Record that the fetch of a batch begins, and with it the next step."""
        self._close_row(0, start_ns)
        self._writer.status = (Phase.WAIT, start_ns, self.steps + 1, self._epoch, "")

    @failure_ends_recording
    def begin_phase(self, phase: Phase, since_ns: int) -> None:
        """Set the phase of the pulse, for the next step."""
        self._writer.status = (phase, since_ns, self.steps + 1, self._epoch, "")

    @failure_ends_recording
    def record_step(
        self,
        start_ns: int,
        got_ns: int,
        copy_ns: float,
        dispatched_ns: int,
        done_ns: int,
        flags: int,
        batch: Any,
        logs: dict[str, Any],
    ) -> None:
        """Record a step that `steps` already counts. Its row is written after its host part.

        copy_ns: of the batch, after it was got; NaN where the copy is not timed.
        """
        self._writer.status = (Phase.HOST, done_ns, self.steps, self._epoch, "")
        flags |= self.flags
        if self.compiled and done_ns - got_ns > _COMPILED_NS and self.compiled.is_new(batch):
            flags |= 0 if flags & _TRACED else _RETRACE
        if flags & _TRACED:
            copied_ns = copy_ns if copy_ns == copy_ns else 0.0
            self._note_trace((done_ns - got_ns - copied_ns) / 1e6, batch_signature(batch))
        flags |= self.profiler.after_step(self.steps)
        self._open_row = (
            start_ns,
            done_ns,
            flags,
            (got_ns - start_ns) / 1e6,
            # A copy that is not timed is a part of the call; NaN differs from itself.
            (dispatched_ns - got_ns - (copy_ns if copy_ns == copy_ns else 0.0)) / 1e6,
            (done_ns - got_ns) / 1e6,
            copy_ns / 1e6,
        )
        self.flags = 0
        self._report_progress(1, count_examples(batch), logs)

    @failure_ends_recording
    def extend_step(self, done_ns: int) -> None:
        """Have the compute of the last step end later, with another call of the same step."""
        if self._open_row is not None:
            start_ns, _, flags, wait_ms, dispatch_ms, _, copy_ms = self._open_row
            compute_ms = (done_ns - start_ns) / 1e6 - wait_ms
            row = (start_ns, done_ns, flags, wait_ms, dispatch_ms, compute_ms, copy_ms)
            self._open_row = row

    @failure_ends_recording
    def record_fused_steps(
        self,
        start_ns: int,
        end_ns: int,
        runs: list[NDArray[np.float64] | None],
        flags: list[int],
        examples: int | None,
        logs: dict[str, Any],
    ) -> None:
        """Record the steps of one call, which `steps` already counts. The host part of the last one
        follows.

        runs: see `split_steps`; None if the wall clock was set, and the steps have no rows. flags:
        of each step.
        examples: in all batches; None if unknown.
        """
        self._writer.status = (Phase.HOST, end_ns, self.steps, self._epoch, "")
        self._report_progress(len(flags), examples, logs)
        timed = [run for run in runs if run is not None]
        if len(timed) < len(runs):
            self._writer.note(
                f"the wall clock was set: the {len(flags)} steps up to step {self.steps} are not"
                " timed"
            )
            return
        from tfwatch.watch.fit.stepping.fused_steps import split_steps

        flags[0] |= self.flags
        self.flags = 0
        if profiled := self.profiler.after_step(self.steps, len(flags)):
            flags = [flag | profiled for flag in flags]
        parts = split_steps(start_ns, end_ns, timed)
        if flags[0] & _TRACED:
            self._note_trace(float(parts.compute_ms[0]), {})
        first, dispatch_ms = self.steps - len(flags) + 1, parts.call_ms
        columns = (
            parts.start_ns.tolist(),
            flags,
            parts.wait_ms.tolist(),
            parts.compute_ms.tolist(),
        )
        for number, (at_ns, flag, wait_ms, compute_ms) in enumerate(
            zip(*columns, strict=True), first
        ):
            if number == self.steps:
                self._open_row = (at_ns, end_ns, flag, wait_ms, dispatch_ms, compute_ms, math.nan)
            else:
                self._writer.step(
                    at_ns, number, self._epoch, flag, wait_ms, dispatch_ms, compute_ms, 0.0
                )
            dispatch_ms = 0.0

    def _note_trace(self, took_ms: float, signature: Signature) -> None:
        words = ("type", "object", "train function")
        model = tuple(zip(words, self._trained, strict=True))
        self.traces.note(self.steps, took_ms, {"model": model, **signature})

    @failure_ends_recording
    def count_untimed_steps(self, steps: int, logs: dict[str, Any]) -> None:
        """Count the steps of a call that were not timed, fewer at an epoch's end. They have no
        rows."""
        if self._epoch_steps is not None:
            steps = max(0, min(steps, self._epoch_steps - self._epoch_step))
        self.steps += steps
        self._images = None
        self._report_progress(steps, None, logs)
        self.set_phase(Phase.HOST)
        self.profiler.after_step(self.steps, steps)

    @failure_ends_recording
    def set_phase(self, phase: Phase) -> None:
        """Set the phase of the pulse, between two steps."""
        self._writer.status = (phase, self._writer.now_ns(), self.steps, self._epoch, "")

    def lose(self, error: Exception) -> None:
        """End the recording, of which a part has failed."""
        self.lost = True
        self.report_failure(reason(error))

    def report_failure(self, why: str) -> None:
        """Record a failure of tfwatch itself, where that is possible."""
        with fails_open(lambda _: None):
            self._writer.event(WatchFailed(self._writer.now_ns(), why))

    def _report_progress(self, steps: int, examples: int | None, logs: dict[str, Any]) -> None:
        self._epoch_step += steps
        if examples is None and self._images is not None:
            self._writer.note("examples are not counted: the size of a batch is unknown")
        self._images = None if examples is None or self._images is None else self._images + examples
        loss = logs.get("loss")
        self._progress((self._images or 0, self.steps, self._epoch, self._epoch_step, loss))

    def _close_row(self, flags: int, end_ns: int) -> None:
        if self._open_row is None:
            return
        start_ns, done_ns, known, wait_ms, dispatch_ms, compute_ms, copy_ms = self._open_row
        self._open_row = None
        host_ms = (end_ns - done_ns) / 1e6
        parts = (wait_ms, dispatch_ms, compute_ms, host_ms, copy_ms)
        self._writer.step(start_ns, self.steps, self._epoch, known | flags, *parts)


def _is_number(value: Any) -> bool:
    """Return whether a value of an epoch's logs is a figure: a callback may add anything, which has
    no chart."""
    try:
        return math.isfinite(float(value))
    except Exception as error:  # noqa: BLE001  the value is a user's callback's, and may raise anything
        raise_interrupt(error)
        return False


#: The class of values that differ between replicas: a loop of NumPy arrays runs without TensorFlow.
_REPLICAS = "DistributedValues"


def count_examples(batch: Any) -> int | None:
    """Return the number of examples in a batch, the first dimension of its first tensor; None if it
    has none.

    The parts of a batch on the replicas of a strategy are counted together.
    """
    try:
        while isinstance(batch, (tuple, list, dict)) and batch:
            batch = next(iter(batch.values() if isinstance(batch, dict) else batch))
        shape = getattr(batch, "shape", None)
        if shape is None and _REPLICAS in {kind.__name__ for kind in type(batch).__mro__}:
            return sum(int(part.shape[0]) for part in batch.values)
        return int(shape[0]) if shape is not None and len(shape) else None
    except Exception as error:  # noqa: BLE001  the batch is the user's, and may raise anything; the run notes that its examples are not counted
        raise_interrupt(error)
        return None
