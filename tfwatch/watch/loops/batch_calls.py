"""A loop of the user's own over `train_on_batch` whose batches come from no data set.

Such a loop does not show when it makes a batch: the calls of a step are its compute, and the time
until the next step, in which batches are made and other Python runs, is host time.
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import fails_open, warn_user
from tfwatch.core.rows import Flag, Phase
from tfwatch.watch.loops.tracked_loop import all_runs, find_uncaught
from tfwatch.watch.session import ScriptRun, call_at_exit
from tfwatch.watch.step_log import StepLog
from tfwatch.watch.tensorflow_info import find_device, why_loop_copies_untimed

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from tfwatch.watch.loops.found_loops import FoundLoops

_SPLIT = "calls of train_on_batch are compute, and what is between them is host, batches included"


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
    begun_ns, ended_ns: of the first step.
    """

    def __init__(self) -> None:
        self.steps = self.fetches = self.begun_ns = self.ended_ns = 0
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
        if self._own.run:
            self._own.run.begin_call()
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
            own.begun_ns, own.ended_ns = own.begun_ns or call.start_ns, end_ns
        elif own.run is None:
            own.run = _CallsRun(self._loops.runs_dir, (own.begun_ns, own.ended_ns), call)
            self._runs.append(own.run)
            own.run.record(call, end_ns, logs, is_new=True)
        else:
            own.run.record(call, end_ns, logs, is_new=is_new)


class _CallsRun:
    """The run of a loop over `train_on_batch`. It begins with the second step, has the first one,
    which compiles, and ends with the process.

    first: the begin and the end of the first step, by the system's clock.
    """

    def __init__(self, runs_dir: Path | None, first: tuple[int, int], call: Call) -> None:
        self._codes = {call.site[0]}
        device = find_device()
        self._script = ScriptRun(runs_dir, device, {}, [], first[0])
        writer = self._script.writer
        writer.training_thread = threading.get_ident()
        no_copy = why_loop_copies_untimed(device)
        place = f"{Path(call.site[0].co_filename).name}:{_line_of(call)}"
        writer.describe(split=_SPLIT, loop=place, makes_batches=True, copy_not_timed=no_copy)
        self._origin_ns = writer.manifest().origin_ns
        self._step_log = StepLog(writer, self._script.profiler)
        self._step_log.begin_epoch(0, 0, None, 0)
        #: Of the current step: the begin of its first call, the end of its last, and its loss.
        begun_ns, ended_ns = (at_ns - self._origin_ns for at_ns in first)
        self._open: tuple[int, int, Any] | None = (begun_ns, ended_ns, None)
        self._forget = call_at_exit(self.end)

    def begin_call(self) -> None:
        """Set the phase of the pulse."""
        self._step_log.set_phase(Phase.COMPUTE)

    def record(self, call: Call, end_ns: int, logs: Any, *, is_new: bool) -> None:
        """Record a call, of a new step or of the current one."""
        if self._script.is_over:
            return
        self._codes.add(call.site[0])
        start_ns, ended_ns = call.start_ns - self._origin_ns, end_ns - self._origin_ns
        if is_new or self._open is None:
            self._close_step(start_ns)
            self._open = (start_ns, ended_ns, _loss_of(logs))
        else:
            self._open = (self._open[0], ended_ns, self._open[2])
        self._step_log.set_phase(Phase.HOST)

    def end(self) -> None:
        """End the run with its last call."""
        self._forget()
        with fails_open(lambda why: warn_user(f"the run did not end properly: {why}")):
            last_ns = self._open[1] if self._open else 0
            self._close_step(last_ns)
            self._step_log.end_epoch(None)
            self._step_log.closed = True
            if raised := find_uncaught(self._codes):
                self._script.end_with_error(raised, last_ns)
            else:
                self._script.end("finished", "", last_ns)
            self._script.close()

    def _close_step(self, end_ns: int) -> None:
        """Write the row of the current step, whose host time ends."""
        if self._open is None:
            return
        start_ns, called_ns, loss = self._open
        log, self._open = self._step_log, None
        log.steps += 1
        flags = int(Flag.COMPILE) if log.steps == 1 else 0
        times = (start_ns, start_ns, math.nan, start_ns, called_ns)
        log.record_step(*times, flags, None, {"loss": loss})
        log.end_step(end_ns)


def _line_of(call: Call) -> int:
    """Return the line of a call."""
    code, at = call.site
    lines = (line for begin, end, line in code.co_lines() if begin <= at < end and line)
    return next(lines, code.co_firstlineno)


def _loss_of(logs: Any) -> Any:
    """Return the loss: the first value of what `train_on_batch` returned."""
    if isinstance(logs, dict):
        return logs.get("loss")
    return logs[0] if isinstance(logs, (list, tuple)) and logs else logs
