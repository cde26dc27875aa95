"""A loop of the user's own over `train_on_batch` whose batches come from no data set: its steps are
counted.

Such a loop does not show when it fetches a batch. So the time between two calls, in which batches
are made and other Python runs, cannot be separated: the steps have no rows, and the run says what
the calls took.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import fails_open, warn_user
from tfwatch.watch.loops.tracked_loop import all_runs, find_uncaught
from tfwatch.watch.session import ScriptRun, call_at_exit
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


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `train_on_batch`. site: its code, which is referenced, and the instruction in
    it."""

    site: tuple[CodeType, int]
    start_ns: int


class _LoopOfThread(threading.local):
    """The calls of one thread. A step is the calls until one of its lines is reached again: a GAN
    has several.

    sites: those of the current step. fetches: of its loops over data sets, before the last call.
    begun_ns: when the first step began.
    """

    def __init__(self) -> None:
        self.steps = self.fetches = self.begun_ns = 0
        self.sites: set[tuple[CodeType, int]] = set()
        self.run: _CallsRun | None = None


class BatchCalls:
    """The calls of `train_on_batch` from the user's own code, in one process."""

    def __init__(self, loops: FoundLoops) -> None:
        self._loops = loops
        self._own = _LoopOfThread()
        self._runs: list[_CallsRun] = []
        os.register_at_fork(after_in_child=self._runs.clear)

    def begin(self, frame: FrameType) -> Call | None:
        """Return a call that begins in a frame; None where a `fit` records itself."""
        if not self._loops.may_record():
            return None
        return Call((frame.f_code, frame.f_lasti), SYSTEM.now_ns())

    def end_call(self, call: Call, logs: Any) -> None:
        """Record a call that is over. After a fetch it is a sign that a loop over a data set
        trains; else it has a run of its own."""
        end_ns = SYSTEM.now_ns()
        with fails_open(lambda why: warn_user(f"this loop is not recorded: {why}")):
            self._loops.note_sign()
            own, fetches = self._own, self._loops.thread.fetches
            has_fetched, own.fetches = fetches != own.fetches, fetches
            if has_fetched or any(run.epoch is not None for run in list(all_runs)):
                own.sites.clear()
            else:
                self._count(call, end_ns, logs)

    def end(self) -> None:
        """End the runs so far."""
        while self._runs:
            self._runs.pop().end()
        self._own.steps, self._own.begun_ns, self._own.run = 0, 0, None
        self._own.sites.clear()

    def _count(self, call: Call, end_ns: int, logs: Any) -> None:
        own = self._own
        is_new = not own.sites or call.site in own.sites
        if is_new:
            own.sites.clear()
            own.steps += 1
        own.sites.add(call.site)
        if own.steps == 1:
            own.begun_ns = own.begun_ns or call.start_ns
        elif own.run is None:
            own.run = _CallsRun(self._loops.runs_dir, own.begun_ns, call)
            self._runs.append(own.run)
            own.run.record(call, end_ns, own.steps, logs)
        else:
            own.run.record(call, end_ns, int(is_new), logs)


class _CallsRun:
    """The run of a loop over `train_on_batch`; it begins with the second step, as the first one
    compiles, and ends with the process."""

    def __init__(self, runs_dir: Path | None, begun_ns: int, call: Call) -> None:
        self._timed_ns, self._last_ns, self._calls_ns, self._steps = call.start_ns, 0, 0, 0
        self._codes = {call.site[0]}
        device = find_device()
        self._script = ScriptRun(runs_dir, device, {}, [], begun_ns)
        writer = self._script.writer
        writer.training_thread = threading.get_ident()
        writer.describe(not_split=_NOT_SPLIT, copy_not_timed=why_loop_copies_untimed(device))
        self._step_log = StepLog(writer)
        self._step_log.begin_epoch(0, 0, None, 0)
        self._forget = call_at_exit(self.end)

    def record(self, call: Call, end_ns: int, steps: int, logs: Any) -> None:
        """Record a call, and so many new steps."""
        if self._script.is_over:
            return
        self._last_ns = end_ns
        self._calls_ns += end_ns - call.start_ns
        self._codes.add(call.site[0])
        if steps:
            self._steps += 1
            self._step_log.count_untimed_steps(steps, {"loss": _loss_of(logs)})

    def end(self) -> None:
        """End the run with its last call."""
        self._forget()
        with fails_open(lambda why: warn_user(f"the run did not end properly: {why}")):
            writer = self._script.writer
            at_ns = self._last_ns - writer.manifest().origin_ns
            writer.describe(not_split=self._describe())
            self._step_log.end_epoch(None)
            self._step_log.closed = True
            if raised := find_uncaught(self._codes):
                self._script.end_with_error(raised, at_ns)
            else:
                self._script.end("finished", "", at_ns)
            self._script.close()

    def _describe(self) -> str:
        """Return why the steps are not split, with the time that the calls took."""
        step_ms = (self._last_ns - self._timed_ns) / 1e6 / self._steps
        calls_ms = self._calls_ns / 1e6 / self._steps
        return (
            f"train_on_batch takes {calls_ms:.1f} of {step_ms:.1f} ms/step; the rest makes batches"
            " or runs other Python, which cannot be separated: loop over tfwatch.track(batches)"
        )


def _loss_of(logs: Any) -> Any:
    """Return the loss: the first value of what `train_on_batch` returned."""
    if isinstance(logs, dict):
        return logs.get("loss")
    return logs[0] if isinstance(logs, (list, tuple)) and logs else logs
