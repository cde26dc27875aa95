"""The steps of a loop of the user's own: a step is a fetch and a body.

Runs in the thread that loops. A failure here ends the recording, never the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open
from tfwatch.core.rows import Flag, Phase
from tfwatch.watch.loops.async_loop import LoopStep
from tfwatch.watch.step_log import StepLog, count_examples, failure_ends_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tfwatch.runs.writer import RunWriter
    from tfwatch.watch.fit.stepping.eager_operations import Operations
    from tfwatch.watch.loops.async_loop import GpuProbe
    from tfwatch.watch.loops.function_calls import FunctionCalls
    from tfwatch.watch.profile.step_profiler import StepProfiler

_COMPILE, _RETRACE = int(Flag.COMPILE), int(Flag.RETRACE)


@dataclass(frozen=True, slots=True)
class EarlierFetch:
    """A fetch before the run began, by the system's clock.

    examples: in the batch; None if unknown. traced: the time spent tracing functions before.
    """

    start_ns: int
    got_ns: int
    examples: int | None
    traced: int


class _EagerBodies:
    """Finds out whether the bodies of a loop run op by op: TensorFlow's operations, and no call of
    a `tf.function`. On a CPU it times these operations, and the rest of a body is Python."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._operations: Operations | None = None
        self._may_be = True
        self._has_begun = self._has_timed = False

    def begin(self) -> None:
        """Begin a body."""
        if self._operations:
            self._operations.begin()

    def end(self, has_called: bool) -> int:
        """End a body; return the time of its operations, 0 where they are not timed."""
        if not self._may_be:
            return 0
        operations = self._operations
        if operations:
            operations.end()
        took_ns = operations.took_ns if operations else 0
        # The first body of an epoch may show none: a loop may be found at the end of that body.
        self._has_timed = self._has_timed or took_ns > 0
        if has_called or (operations and not self._has_timed):
            self._may_be, self._operations = False, None
            self._writer.describe(op_by_op=False)
        elif not self._has_begun:
            from tfwatch.watch.fit.stepping.eager_operations import time_operations

            self._has_begun = True
            self._operations = time_operations(self._writer)
        return took_ns


class LoopStepLog(StepLog):
    """The step log of a tracked loop: a step is a fetch and a body.

    The compute of a body is its calls of `tf.function`, and the rest is host; without a call all is
    compute, of which Python between TensorFlow's operations is launching. Where the loop's work is
    asynchronous, all of a body is compute.

    gpu_probe: None if the loop's work is not asynchronous. traced: returns the time spent tracing
    functions so far; None if unknown. calls: of `tf.function`; None where they are not timed.
    """

    def __init__(
        self,
        writer: RunWriter,
        profiler: StepProfiler,
        traced: Callable[[], int] | None,
        calls: FunctionCalls | None = None,
    ) -> None:
        super().__init__(writer, profiler)
        self.gpu_probe: GpuProbe | None = None
        self._traced = traced
        self._traced_before = 0
        self._calls = calls
        self._in_calls_before_ns = self._fetching_before = 0
        self._eager = _EagerBodies(writer) if calls else None
        self._is_asynchronous = writer.manifest().accelerated
        self._ever_traced = False
        self._fetching: LoopStep | None = None
        self._open_step: LoopStep | None = None
        self._beside_ns = 0

    @failure_ends_recording
    def begin_fetch(self, start_ns: int) -> None:
        """Record that the fetch of a batch begins, and with it the next step."""
        super().begin_fetch(start_ns)
        self._fetching = LoopStep(self.steps + 1, start_ns)
        if self.gpu_probe:
            self.gpu_probe.begin_fetch(self._fetching)

    @failure_ends_recording
    def record_fetch(self, got_ns: int, batch: Any) -> None:
        """Record that the batch is there, and that the body of its step begins."""
        if self._fetching is None:
            return
        step, self._fetching = self._fetching, None
        step.got_ns = got_ns
        if self.gpu_probe:
            self.gpu_probe.end_fetch(step)
        self._begin_body(step, count_examples(batch), self._traced() if self._traced else 0)

    @failure_ends_recording
    def record_earlier(self, start_ns: int, got_ns: int, fetch: EarlierFetch) -> None:
        """Record a fetch before the run began, at its times on the run's clock."""
        super().begin_fetch(start_ns)
        step = LoopStep(self.steps + 1, start_ns, got_ns)
        self._begin_body(step, fetch.examples, fetch.traced)

    @failure_ends_recording
    def add_wait(self, wait_ns: int) -> None:
        """Count the fetch of a second data set within the body as data wait; not on a GPU, which
        may work meanwhile."""
        if self._open_step:
            self._beside_ns += wait_ns

    @failure_ends_recording
    def end_epoch(self, logs: dict[str, Any] | None) -> None:
        """Record the end of the loop."""
        super().end_epoch(logs)
        if self.gpu_probe:
            self._write(self.gpu_probe.rest())

    @failure_ends_recording
    def close(self) -> None:
        """Write the remaining steps; a running body ends."""
        if self._open_step:
            self.end_step(self._writer.now_ns())
            self.set_phase(Phase.HOST)
        if self.gpu_probe:
            self._write(self.gpu_probe.stop())

    def _begin_body(self, step: LoopStep, examples: int | None, traced: int) -> None:
        self.steps += 1
        step.epoch = self._epoch
        self._writer.status = (Phase.COMPUTE, step.got_ns, self.steps, self._epoch, "")
        self._report_progress(1, examples, {})
        self._open_step, self._beside_ns = step, 0
        self._traced_before = traced
        if self._calls and self._eager:
            self._in_calls_before_ns = self._calls.spent_ns()
            self._fetching_before = self._calls.fetching()
            self._eager.begin()

    def _close_row(self, flags: int, end_ns: int) -> None:
        step, self._open_step = self._open_step, None
        if step is None:
            return
        step.end_ns = end_ns
        in_calls_ns, operations_ns = self._end_body()
        traced = self._trace_flag()
        if traced:
            change = self._calls.take_change() if self._calls else ""
            self.traces.note_change(self.steps, (end_ns - step.got_ns) / 1e6, change)
        step.flags = flags | self.flags | traced | self.profiler.after_step(self.steps)
        self.flags = 0
        if self.gpu_probe:
            self._write(self.gpu_probe.finish_step(step))
            return
        body_ns = max(end_ns - step.got_ns - self._beside_ns, 0)
        host_ns = self._host_ns(body_ns, in_calls_ns)
        dispatch_ns = max(body_ns - operations_ns, 0) if operations_ns else 0
        wait_ns = end_ns - step.start_ns - body_ns
        self._write_row(step, wait_ns, dispatch_ns, body_ns - host_ns, host_ns)

    def _end_body(self) -> tuple[int, int]:
        """Return the time of the body in calls of `tf.function`, and in operations outside."""
        if not self._calls or not self._eager:
            return 0, 0
        in_calls_ns = self._calls.spent_ns() - self._in_calls_before_ns
        has_fetched = self._calls.fetching() != self._fetching_before
        if has_fetched and not self._writer.manifest().fetches_in_calls:
            self._writer.describe(fetches_in_calls=True)  # the data wait inside is not seen
        with fails_open(self._without_operations):
            return in_calls_ns, self._eager.end(in_calls_ns > 0)
        return in_calls_ns, 0

    def _without_operations(self, why: str) -> None:
        self._eager = None
        self._writer.note(f"calls of operations and functions are not timed: {why}")

    def _host_ns(self, body_ns: int, in_calls_ns: int) -> int:
        """Return the part of a body outside calls of `tf.function`; 0 where it has none, or another
        thread has them, or the work is asynchronous."""
        return max(body_ns - in_calls_ns, 0) if in_calls_ns > 0 and not self._is_asynchronous else 0

    def _trace_flag(self) -> int:
        if not self._traced or self._traced() == self._traced_before:
            return 0
        flag = _RETRACE if self._ever_traced else _COMPILE
        self._ever_traced = True
        return flag

    def _write(self, steps: Iterable[tuple[LoopStep, int]]) -> None:
        for step, wait_ns in steps:
            self._write_row(step, wait_ns, 0, step.end_ns - step.start_ns - wait_ns, 0)

    def _write_row(self, step: LoopStep, *parts_ns: int) -> None:
        """Write the row of a step. parts_ns: data wait, dispatch, compute, host."""
        parts_ms = (part_ns / 1e6 for part_ns in parts_ns)
        self._writer.step(step.start_ns, step.step, step.epoch, step.flags, *parts_ms)
