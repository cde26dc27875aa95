"""A loop of the user's own over `train_on_batch` whose batches come from no data set: its steps are
counted.

Such a loop does not show when it fetches a batch. So the time between two calls, in which batches
are made and other Python runs, cannot be separated: the steps have no rows, and the run says what
the calls took.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import fails_open, warn_user
from tfwatch.watch.loops.tracked_loop import all_runs
from tfwatch.watch.session import ErrorText, ScriptRun, call_at_exit
from tfwatch.watch.step_log import StepLog
from tfwatch.watch.tensorflow_info import find_device, why_loop_copies_untimed

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType, FrameType

    from tfwatch.watch.loops.found_loops import FoundLoops

_NOT_SPLIT = (
    "a loop over train_on_batch does not show when it fetches a batch: loop over"
    " tfwatch.track(batches)"
)
#: Steps that are no loop yet.
_ALONE = 1


@dataclass(slots=True)
class Call:
    """A call of `train_on_batch`. site: its code, which is referenced, and the instruction in
    it."""

    site: tuple[CodeType, int]
    start_ns: int


@dataclass(slots=True)
class _Steps:
    """The steps of one thread. A step is the calls until one of its lines is reached again: a GAN
    has several.

    sites: those of the current step. calls_ns: in `train_on_batch`; spent_ns: with the time between
    its calls. Both are without the first step, which compiles. follows: nothing else trained since
    the call that ended at `last_ns`.
    """

    steps: int = 0
    begun_ns: int = 0
    spent_ns: int = 0
    calls_ns: int = 0
    last_ns: int = 0
    follows: bool = False
    sites: set[tuple[CodeType, int]] = field(default_factory=set)
    run: _CallsRun | None = None

    def add(self, call: Call, end_ns: int) -> int:
        """Add a call; return the number of new steps, 0 or 1."""
        is_new = not self.sites or call.site in self.sites
        if is_new:
            self._begin_step(call)
        if self.steps > _ALONE:
            self.calls_ns += end_ns - call.start_ns
            self.spent_ns += end_ns - (self.last_ns if self.follows else call.start_ns)
        self.sites.add(call.site)
        self.last_ns, self.follows = end_ns, True
        return int(is_new)

    def interrupt(self) -> None:
        """End the current step: something else trains."""
        self.follows = False
        self.sites.clear()

    def _begin_step(self, call: Call) -> None:
        self.steps += 1
        self.sites.clear()
        if self.steps == 1:
            self.begun_ns = call.start_ns

    def describe(self) -> str:
        """Return why the steps are not split, with the time that the calls took."""
        steps = self.steps - _ALONE
        if steps < 1:
            return _NOT_SPLIT
        step_ms, calls_ms = self.spent_ns / 1e6 / steps, self.calls_ns / 1e6 / steps
        return (
            f"train_on_batch takes {calls_ms:.1f} of {step_ms:.1f} ms/step; the rest makes batches"
            " or runs other Python, which cannot be separated: loop over tfwatch.track(batches)"
        )


class _CallsOfThread(threading.local):
    """The calls of one thread.

    fetches: of its loops over data sets, before the last call. waiting: a call after a fetch, with
    its end, the number of recorded loops and what it returned: the next fetch decides whether it is
    a step of a loop over a data set.
    """

    def __init__(self) -> None:
        self.steps = _Steps()
        self.fetches = 0
        self.waiting: tuple[Call, int, int, Any] | None = None


class BatchCalls:
    """The calls of `train_on_batch` from the user's own code, in one process."""

    def __init__(self, loops: FoundLoops) -> None:
        self._loops = loops
        self._own = _CallsOfThread()
        self._fits_begun = 0
        self._runs: list[_CallsRun] = []
        os.register_at_fork(after_in_child=self._runs.clear)

    def begin(self, frame: FrameType) -> Call | None:
        """Return a call that begins in a frame; None where a `fit` records itself."""
        if not self._loops.may_record():
            return None
        if self._fits_begun != self._loops.signs.fits_begun:
            self._fits_begun = self._loops.signs.fits_begun
            self._own.steps.interrupt()
        return Call((frame.f_code, frame.f_lasti), SYSTEM.now_ns())

    def end_call(self, call: Call, logs: Any) -> None:
        """Record a call that is over. It is a sign that a loop over a data set trains; else it has
        a run of its own."""
        end_ns = SYSTEM.now_ns()
        with fails_open(lambda why: warn_user(f"this loop is not recorded: {why}")):
            self._loops.signs.note()
            self._count_waiting()
            own, thread = self._own, self._loops.thread
            has_fetched, own.fetches = thread.fetches != own.fetches, thread.fetches
            if any(run.epoch is not None for run in list(all_runs)):
                own.steps.interrupt()
            elif has_fetched:
                own.waiting = call, end_ns, thread.recordings, logs
            else:
                self._count(call, end_ns, logs)

    def failed(self, call: Call, error: BaseException) -> None:
        """Record an error of a call. The loop may call again."""
        with fails_open(lambda why: warn_user(f"this loop is not recorded: {why}")):
            run = self._own.steps.run
            if run is not None:
                run.raised = ErrorText.of(error)

    def end(self) -> None:
        """End the runs so far."""
        while self._runs:
            self._runs.pop().end()
        self._own.steps, self._own.waiting = _Steps(), None

    def _count_waiting(self) -> None:
        """Count the call before this one, unless its loop over a data set is recorded by now."""
        waiting, self._own.waiting = self._own.waiting, None
        if waiting is None:
            return
        call, end_ns, recordings, logs = waiting
        if recordings == self._loops.thread.recordings:
            self._count(call, end_ns, logs)
        else:
            self._own.steps.interrupt()

    def _count(self, call: Call, end_ns: int, logs: Any) -> None:
        steps = self._own.steps
        new = steps.add(call, end_ns)
        if steps.run is not None and not steps.run.is_over:
            steps.run.record(new, logs)
        elif new and steps.run is None and steps.steps > _ALONE:
            steps.run = _CallsRun(self._loops.runs_dir, steps, logs)
            self._runs.append(steps.run)


class _CallsRun:
    """The run of a loop over `train_on_batch`; it ends with the process."""

    def __init__(self, runs_dir: Path | None, steps: _Steps, logs: Any) -> None:
        self.raised: ErrorText | None = None
        self.is_over = False
        self._steps = steps
        device = find_device()
        self._script = ScriptRun(runs_dir, device, {}, [], steps.begun_ns)
        writer = self._script.writer
        writer.training_thread = threading.get_ident()
        writer.describe(not_split=_NOT_SPLIT, copy_not_timed=why_loop_copies_untimed(device))
        self._step_log = StepLog(writer, by_keras=False)
        self._step_log.begin_epoch(0, 0, None, 0)
        self._forget = call_at_exit(self.end)
        self.record(steps.steps, logs)

    def record(self, steps: int, logs: Any) -> None:
        """Record so many new steps."""
        self.raised = None
        if steps:
            self._step_log.count_untimed_steps(steps, {"loss": _loss_of(logs)})

    def end(self) -> None:
        """End the run with its last call."""
        if self.is_over:
            return
        self.is_over = True
        self._forget()
        with fails_open(lambda why: warn_user(f"the run did not end properly: {why}")):
            writer = self._script.writer
            at_ns = self._steps.last_ns - writer.manifest().origin_ns
            writer.describe(not_split=self._steps.describe())
            self._step_log.end_epoch(None)
            self._step_log.closed = True
            raised = self.raised or _uncaught(self._steps.sites)
            if raised:
                self._script.end_with_error(raised, at_ns)
            else:
                self._script.end("finished", "", at_ns)
            self._script.close()


def _loss_of(logs: Any) -> Any:
    """Return the loss: the first value of what `train_on_batch` returned."""
    if isinstance(logs, dict):
        return logs.get("loss")
    return logs[0] if isinstance(logs, (list, tuple)) and logs else logs


def _uncaught(sites: set[tuple[CodeType, int]]) -> ErrorText | None:
    """Return the uncaught exception that left the code of a call."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        return None
    codes = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    return ErrorText.of(error) if any(code in codes for code, _ in sites) else None
