"""Run a call of Keras' train function in place of Keras, and time its steps.

Keras calls `train_function(iterator)` once per step. The replacement fetches the batch itself, runs
Keras' own compiled step on it, pulls the metrics as Keras does next, and reads the clock in
between. The result is that of stock `fit`, bit for bit; the fetch is cheaper than Keras' own inside
the graph. With `steps_per_execution` a call has several steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import tensorflow as tf
from keras.src.backend.tensorflow import trainer
from keras.src.utils.python_utils import pythonify_logs

from tfwatch.core.errors import fails_open
from tfwatch.core.rows import Flag, Phase
from tfwatch.tfdata.shuffle_fill import LATE_NS
from tfwatch.watch.fit.fetch import fail_in_graph
from tfwatch.watch.fit.stepping.fused_steps import (
    FusedSteps,
    clock_offset_ns,
    clock_was_set,
    find_clock,
)
from tfwatch.watch.fit.stepping.single_step import SingleStep
from tfwatch.watch.step_log import bookkeeping

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from tfwatch.runs.writer import RunWriter
    from tfwatch.watch.fit.fetch import Fetch
    from tfwatch.watch.fit.stepping.batch_step import BatchStep
    from tfwatch.watch.fit.stepping.device_copy import TimedCopy
    from tfwatch.watch.session import Session
    from tfwatch.watch.step_log import StepLog

    Original = Callable[[Any], Any]

#: Steps over these iterators are split; others are left to Keras.
ITERATORS = (tf.data.Iterator, tf.distribute.DistributedIterator)


def is_keras_own(original: Callable[[Any], Any]) -> bool:
    """Return whether a train function is Keras' own, which takes one batch per step from any
    iterator.

    A script's train function may take several, or run Python with each call.
    """
    return getattr(original, "__globals__", None) is vars(trainer)


def on_host(outputs: Any) -> dict[str, Any]:
    """Return the step's metrics as numbers. Waits for the device, as Keras does after every
    batch."""
    return pythonify_logs(outputs)  # type: ignore[no-any-return]


_COMPILE, _RETRACE = int(Flag.COMPILE), int(Flag.RETRACE)
_NOT_TIMED = float("nan")
#: got_ns, copy_ns, was_ready, traces: see `StepByStepRunner._begin_call`.
_Call: TypeAlias = tuple[int, float, bool, int]
_UNKNOWN: _Call = (0, _NOT_TIMED, True, 0)
_NO_CLOCKS: tuple[int, int] | None = None
_NO_STAMPS: NDArray[np.float64] | None = None


class StepByStepRunner:
    """Fetches a batch outside the graph and runs Keras' compiled step on it: the exact split.

    description: the way in which steps are separated. calls_at_end: pass an iterator that is
    exhausted to Keras' own function, which may run a step on it, as stock `fit` does with one step
    per call. copy: of a batch, before the step's call.
    """

    description = "exact"

    def __init__(
        self,
        step: BatchStep,
        fetch: Fetch,
        step_log: StepLog,
        writer: RunWriter,
        *,
        calls_at_end: bool = True,
        copy: TimedCopy | None = None,
    ) -> None:
        self._step = step
        self._copy = copy
        self._fetch = fetch
        self._step_log = step_log
        self._now_ns, self._note = writer.now_ns, writer.note
        self._calls_at_end = calls_at_end
        self._done_ns = 0

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Run a call; return the metrics.

        Raises:
            StopIteration: the data is exhausted.
        """
        start_ns = self._begin_fetch()
        try:
            batch = self._next(original, iterator)
        except StopIteration:
            self._step_log.set_phase(Phase.EPOCH_END)
            if self._calls_at_end:
                # No call of tfwatch's: another iterator than the one that is exhausted would train
                # another step.
                current = self._fetch.current
                is_rebuilt = current.script.is_rebuilt
                return original(current.pipeline.batches.iterator if is_rebuilt else iterator)
            raise
        return self._run(start_ns, batch)

    def _next(self, original: Original, iterator: Any) -> Any:
        """Return the next batch.

        Raises:
            StopIteration: the data is exhausted.
        """
        try:
            return self._fetch.next(self._step_log.steps)
        except tf.errors.OutOfRangeError:
            raise
        except tf.errors.OpError:
            if isinstance(iterator, tf.data.Iterator):
                fail_in_graph(original, iterator)
            raise

    def _run(self, start_ns: int, batch: Any) -> dict[str, Any]:
        """Run the step. Beside it all is bookkeeping, whose failure the step does not see."""
        call = self._begin_call(batch)
        outputs = self._step(batch)
        dispatched_ns = self._end_dispatch()
        logs = on_host(outputs)
        self._step_log.steps += 1
        self._end_call(start_ns, call, dispatched_ns, batch, logs)
        return logs

    @bookkeeping(0)
    def _begin_fetch(self) -> int:
        start_ns = self._now_ns()
        self._step_log.begin_fetch(start_ns)
        return start_ns

    @bookkeeping(_UNKNOWN)
    def _begin_call(self, batch: Any) -> _Call:
        """Return when the batch was there, the time of its copy, and the state of the step's
        trace."""
        got_ns, step = self._now_ns(), self._step
        was_ready, traces = step.is_ready, step.traces
        self._step_log.begin_phase(Phase.COMPUTE if was_ready else Phase.COMPILE, got_ns)
        return got_ns, self._copy(batch) if self._copy else _NOT_TIMED, was_ready, traces

    @bookkeeping(0)
    def _end_dispatch(self) -> int:
        dispatched_ns, operations = self._now_ns(), self._step.operations
        if operations and operations.failure:
            raise RuntimeError(operations.failure)
        # Op by op on a CPU, operations compute: only the rest is launching.
        return dispatched_ns - operations.took_ns if operations else dispatched_ns

    @bookkeeping(None)
    def _end_call(
        self, start_ns: int, call: _Call, dispatched_ns: int, batch: Any, logs: dict[str, Any]
    ) -> None:
        self._done_ns = done_ns = self._now_ns()
        (got_ns, copy_ns, was_ready, traces), step_log = call, self._step_log
        if not was_ready or self._step.traces != traces:
            step_log.flags |= _RETRACE if was_ready else _COMPILE
        if self._step.failure and not was_ready:
            self._note(
                f"the step runs as Keras calls it, as it cannot be traced: {self._step.failure}"
            )
        if self._copy:
            # A fetch ends with the wait for a copy ahead, if there is one: it is a part of the
            # copy.
            ahead_ns = self._copy.wait_ns(start_ns, got_ns, self._fetch.ready_ns)
            got_ns, copy_ns = got_ns - ahead_ns, copy_ns + ahead_ns
        if got_ns - start_ns > LATE_NS:
            self._fetch.explain_wait(got_ns - start_ns)
        step_log.record_step(
            start_ns, got_ns, copy_ns, dispatched_ns, done_ns, self._fetch.flags, batch, logs
        )


class UnfusedRunner(StepByStepRunner):
    """Runs the `steps_per_execution` steps of a call one by one; the call's metrics are those of
    the last."""

    def __init__(
        self,
        step: BatchStep,
        fetch: Fetch,
        step_log: StepLog,
        writer: RunWriter,
        steps: int,
        *,
        copy: TimedCopy | None = None,
    ) -> None:
        super().__init__(step, fetch, step_log, writer, calls_at_end=False, copy=copy)
        self.description = f"exact, steps_per_execution={steps} one by one"
        self._steps = steps

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Run a call; return the metrics.

        Raises:
            StopIteration: the data is exhausted.
        """
        logs = super().__call__(original, iterator)
        for _ in range(self._steps - 1):
            start_ns = self._done_ns
            self._step_log.begin_phase(Phase.WAIT, start_ns)
            try:
                batch = self._next(original, iterator)
            except StopIteration:
                self._step_log.set_phase(Phase.HOST)
                break
            self._step_log.end_step(start_ns)
            logs = self._run(start_ns, batch)
        return logs


class UntimedRunner:
    """Leaves the steps of a call to the model's own train function: they are counted, and have no
    rows."""

    def __init__(self, fetch: Fetch, step_log: StepLog, writer: RunWriter, steps: int) -> None:
        self._fetch = fetch
        self._step_log = step_log
        self._now_ns = writer.now_ns
        self._steps = steps

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Run a call; return its result.

        Raises:
            StopIteration: the data is exhausted.
        """
        self._fetch.switches.hand_back(self._step_log.steps)
        self._begin_call()
        outputs = original(iterator)
        self._step_log.count_untimed_steps(
            self._steps, outputs if isinstance(outputs, dict) else {}
        )
        return outputs

    @bookkeeping(None)
    def _begin_call(self) -> None:
        self._fetch.switches.refuse_all(self._step_log.steps)
        self._step_log.begin_phase(Phase.COMPUTE, self._now_ns())


class InGraphRunner:
    """Runs the steps of a call as Keras does, in one call, with the clock read in the graph.

    These are the `steps_per_execution` of any model, and single steps under a strategy over several
    devices.

    steps: the traced ones, for another `fit`.

    Raises:
        Exception: the function raises while it is traced, or cannot be traced; no step has run
        then.
    """

    def __init__(
        self,
        original: Original,
        traced: FusedSteps | SingleStep | None,
        iterator: Any,
        fetch: Fetch,
        step_log: StepLog,
        writer: RunWriter,
        steps: int,
    ) -> None:
        """traced: the steps that an earlier `fit` traced."""
        self.description = "in-graph timestamps" + (
            f", steps_per_execution={steps}" if steps > 1 else ""
        )
        self._fetch = fetch
        self._step_log = step_log
        self._writer = writer
        self._count = steps
        # The first step includes tracing.
        self._traced_from_ns = 0 if traced else writer.now_ns()
        self.steps = traced or self._trace(original, iterator)

    def _trace(self, original: Original, iterator: Any) -> FusedSteps | SingleStep:
        self._step_log.begin_phase(Phase.COMPILE, self._traced_from_ns)
        make = FusedSteps if self._count > 1 else SingleStep
        traced = make(original, iterator, find_clock(self._writer.clock))
        self._step_log.flags |= _COMPILE
        return traced

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Run a call; return the metrics.

        Raises:
            StopIteration: the data is exhausted.
        """
        start_ns = self._begin_call()
        runs: list[NDArray[np.float64] | None] = []
        flags: list[int] = []
        examples, outputs = 0, None
        source = self._fetch.source(self._step_log.steps)
        while source is not None:
            stamps_ns, steps, batch_examples, made = self._execute(source, self._count - len(flags))
            runs.append(stamps_ns)
            if steps:
                examples, outputs = examples + batch_examples, made
                flags += [self._see_batches(stamps_ns, len(flags)), *[0] * (steps - 1)]
            source = None  # the last reference deletes an iterator: see `disposal`
            if len(flags) < self._count:
                source = self._fetch.successor(self._step_log.steps + len(flags))
        if not flags:
            self._step_log.set_phase(Phase.EPOCH_END)
            raise StopIteration
        logs = on_host(outputs)
        self._step_log.steps += len(flags)
        self._end_call(start_ns, runs, flags, None if examples < 0 else examples, logs)
        return logs

    @bookkeeping(0)
    def _begin_call(self) -> int:
        start_ns, self._traced_from_ns = self._traced_from_ns or self._writer.now_ns(), 0
        self._step_log.end_step(start_ns)
        self._step_log.begin_phase(Phase.COMPUTE, start_ns)
        return start_ns

    @bookkeeping(0)
    def _see_batches(self, stamps_ns: NDArray[np.float64] | None, before: int) -> int:
        """Return the flags of the first batch of an execution, with so many steps of the call
        before it."""
        self._fetch.mark_first_batch(self._step_log.steps + before + 1)
        if stamps_ns is not None and stamps_ns[0, 1] - stamps_ns[0, 0] > LATE_NS:
            self._fetch.explain_wait(stamps_ns[0, 1] - stamps_ns[0, 0])
        return self._fetch.flags

    @bookkeeping(None)
    def _end_call(
        self,
        start_ns: int,
        runs: list[NDArray[np.float64] | None],
        flags: list[int],
        examples: int | None,
        logs: dict[str, Any],
    ) -> None:
        self._step_log.record_fused_steps(
            start_ns, self._writer.now_ns(), runs, flags, examples, logs
        )

    def _execute(
        self, iterator: Any, limit: int
    ) -> tuple[NDArray[np.float64] | None, int, int, Any]:
        """Return the readings on the run's clock (see `split_steps`), None if the wall clock was
        set meanwhile; the number of steps and of examples; and the outputs of the last step."""
        clocks = self._read_clocks()
        try:
            stamps_s, examples, outputs = self.steps(iterator, limit)
        except (
            tf.errors.OutOfRangeError
        ):  # the end of the data, as Keras' function raises it for single steps
            self._step_log.set_phase(Phase.EPOCH_END)
            raise
        return self._on_run_clock(stamps_s, clocks), len(stamps_s) - 1, examples, outputs

    @bookkeeping(_NO_CLOCKS)
    def _read_clocks(self) -> tuple[int, int] | None:
        """Return the time, and what has to be added to a reading of the graph's clock."""
        now_ns = self._writer.now_ns
        return now_ns(), clock_offset_ns(now_ns, self.steps.clock.now_ns)

    @bookkeeping(_NO_STAMPS)
    def _on_run_clock(
        self, stamps_s: NDArray[np.float64], before: tuple[int, int] | None
    ) -> NDArray[np.float64] | None:
        after = self._read_clocks()
        if (
            before is None
            or after is None
            or clock_was_set(after[1] - before[1], after[0] - before[0])
        ):
            return None
        return stamps_s * 1e9 + before[1]


Runner: TypeAlias = StepByStepRunner | InGraphRunner | UntimedRunner


class TrainFunction:
    """Stands in for a model's train function: runs the calls over one iterator, and reports new
    iterators and errors.

    original: Keras' own function. is_called: set to True by each call that a runner has run.
    adopt: returns the runner of a new iterator; None leaves the call to the original. report: takes
    an error of the training before Keras does.
    """

    def __init__(
        self,
        model: Any,
        session: Session,
        step_log: StepLog,
        adopt: Callable[[Original, Any], Runner | None],
        report: Callable[[BaseException], None],
    ) -> None:
        self.original: Any = None
        self.is_called = False
        self._model = model
        self._session = session
        self._step_log = step_log
        self._adopt = adopt
        self._report = report
        self._runner: Runner | None = None
        self._iterator: Any = None

    def __call__(self, iterator: Any) -> Any:
        """Run one call in place of the original."""
        try:
            runner = (
                self._runner if iterator is self._iterator else self._adopt(self.original, iterator)
            )
            if runner is not None:
                self._runner, self._iterator = runner, iterator
                logs = runner(self.original, iterator)
                self.is_called = True
                with fails_open(self._step_log.report_failure):
                    self.stop_if_asked()
                return logs
        except (StopIteration, tf.errors.OutOfRangeError):
            raise
        except BaseException as error:
            with fails_open(self._step_log.report_failure):
                self._report(error)
            raise
        return self.original(iterator)

    def stop_if_asked(self) -> None:
        """End the `fit` after this step if the training is to stop."""
        if self._session.control.is_over(self._step_log.steps):
            self._model.stop_training = True

    @property
    def is_installed(self) -> bool:
        """True until `compile` or `make_train_function` sets a new train function."""
        return self._model.train_function is self

    def install(self) -> None:
        """Become the model's train function; a stand-in that another Watch left behind is replaced,
        never nested."""
        restore(self._model)
        self.original = self._model.train_function
        self._runner = self._iterator = None
        self._model.train_function = self

    def uninstall(self) -> None:
        """Restore the original."""
        self._runner = self._iterator = None
        if self.is_installed:
            restore(self._model)


def restore(model: Any) -> None:
    """Restore the train function of a model, whichever stand-in took its place."""
    found = getattr(model, "train_function", None)
    if isinstance(found, TrainFunction):
        model.train_function = found.original
