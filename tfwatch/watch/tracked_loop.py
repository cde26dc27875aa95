"""The run of a loop of the user's own: every fetch is timed, and what follows it until the next one is the step's body.

Runs in the thread that loops. Its own failure ends the recording and never the loop.
"""

from __future__ import annotations

import sys
import threading
import traceback
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open
from tfwatch.core.rows import Flag, Phase
from tfwatch.tfdata.batches import images_in
from tfwatch.tfdata.stage_reader import StageReader
from tfwatch.watch.async_loop import Ahead, Fetched
from tfwatch.watch.session import Raised, ScriptRun, at_exit, tell_user
from tfwatch.watch.step_log import Books, failure_ends_recording
from tfwatch.watch.tensorflow_info import find_device, find_trace_count, host_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType

    from tfwatch.runs.writer import RunWriter

_COMPILE, _RETRACE = int(Flag.COMPILE), int(Flag.RETRACE)
#: Fetches after which a GPU that cannot be asked yet is given up.
_PATIENCE = 3
#: How the parts come about, in words.
_SPLIT = "by the loop's fetches: what they block is data wait, the body is compute"
_SPLIT_AHEAD = "by the loop's fetches and the GPU: what they block once it ran dry is data wait, all else is compute"
_HERE = str(Path(__file__).parent)


class LoopBooks(Books):
    """The books of a tracked loop: a step is its fetch and its body, and the body is compute.

    No part of a body is known to be launching, callbacks or Python: dispatch and host are 0 in each row.

    ahead: asks the GPU; None where the loop does not run ahead of what computes.
    traced: what has gone into tracing functions so far; None where nobody counts.
    """

    def __init__(self, writer: RunWriter, traced: Callable[[], int] | None) -> None:
        super().__init__(writer, metric="", by_keras=False)
        self.ahead: Ahead | None = None
        self._traced = traced
        self._traced_before = 0
        self._ever_traced = False
        self._open_step: tuple[int, int] | None = None

    @failure_ends_recording
    def before(self, start_ns: int) -> None:
        """The fetch of a batch begins, and with it the next step."""
        super().before(start_ns)
        if self.ahead:
            self.ahead.fetch(self.steps + 1, start_ns)

    @failure_ends_recording
    def got(self, start_ns: int, got_ns: int, batch: Any) -> None:
        """The batch is there, and the body of its step begins."""
        if self.ahead:
            self.ahead.got(got_ns)
        self.steps += 1
        self._writer.status = (Phase.COMPUTE, got_ns, self.steps, self._epoch, "")
        self._tell_progress(1, images_in(batch), {})
        self._open_step = start_ns, got_ns
        if self._traced:
            self._traced_before = self._traced()

    @failure_ends_recording
    def end_epoch(self, logs: dict[str, Any] | None) -> None:
        """The loop is over."""
        super().end_epoch(logs)
        if self.ahead:
            self._write(self.ahead.rest())

    @failure_ends_recording
    def close(self) -> None:
        """Write what is left; a body that was under way is over."""
        if self._open_step:
            self.end_step(self._writer.now_ns())
            self.say(Phase.HOST)
        if self.ahead:
            self._write(self.ahead.stop())

    def _close_row(self, flags: int, end_ns: int) -> None:
        if self._open_step is None:
            return
        start_ns, got_ns = self._open_step
        self._open_step = None
        flags |= self.flags | self._trace_flag()
        self.flags = 0
        if self.ahead:
            self._write(self.ahead.settle(Fetched(self.steps, self._epoch, flags, start_ns, got_ns, end_ns)))
            return
        wait_ms, compute_ms = (got_ns - start_ns) / 1e6, (end_ns - got_ns) / 1e6
        self._writer.step(start_ns, self.steps, self._epoch, flags, wait_ms, 0.0, compute_ms, 0.0)

    def _trace_flag(self) -> int:
        if not self._traced or self._traced() == self._traced_before:
            return 0
        flag = _RETRACE if self._ever_traced else _COMPILE
        self._ever_traced = True
        return flag

    def _write(self, steps: Iterable[tuple[Fetched, int]]) -> None:
        for step, waited_ns in steps:
            compute_ns = step.end_ns - step.start_ns - waited_ns
            self._writer.step(
                step.start_ns, step.step, step.epoch, step.flags, waited_ns / 1e6, 0.0, compute_ns / 1e6, 0.0
            )


class Loop:
    """One run; each loop over the tracked iterable is an epoch of it.

    epoch: that runs now; None between two. over: nothing more is recorded. owner: gives the object that is looped over,
    None where it is gone. alone: that was looped over more than once, and no other goes on with the run. code: where it
    was made; held, so that no other code has its identity.
    """

    def __init__(self, runs_dir: Path | None, epochs: int | None, code: CodeType) -> None:
        in_tensorflow = "tensorflow" in sys.modules
        device = find_device() if in_tensorflow else host_device()
        self.epoch: int | None = None
        self.over = self.alone = False
        self.owner: Callable[[], object] = lambda: None
        self.code = code
        self._script = ScriptRun(runs_dir, device, {}, [])
        self._writer = self._script.writer
        self._now_ns = self._writer.now_ns
        self._books = LoopBooks(self._writer, find_trace_count(self._writer.note) if in_tensorflow else None)
        self._patience = _PATIENCE if device.accelerated else 0
        self._epochs = epochs
        self._begun = 0
        self._idle_ns = 0
        self._left_at: list[tuple[CodeType, int]] = []
        self._raised: Raised | None = None
        self._writer.describe(split=_SPLIT)
        self._iterator: Callable[[], Any] = lambda: None
        self._stages = StageReader(self._writer, self.iterators)
        self._stages.start()
        self._forget = at_exit(self.end)

    @property
    def path(self) -> Path | None:
        """The run folder; None where none could be made."""
        return self._script.path

    def begin_epoch(self, steps: int | None) -> int:
        """A loop over the iterable, of so many steps, begins. Returns the epoch."""
        self.epoch, self._begun = self._begun, self._begun + 1
        self._left_at, self._raised = [], None
        self._writer.trains_in = threading.get_ident()
        self._books.begin_epoch(self.epoch, self._epochs or 0, steps)
        self._books.begin(Phase.WAIT, self._now_ns())
        return self.epoch

    def iterators(self) -> tuple[Any, Any]:
        """For `StageReader`: there is no gate, and what is looped over now."""
        return None, self._iterator()

    def loops_over(self, iterator: Any) -> None:
        """The epoch's batches come from this, which is not held."""
        try:
            self._iterator = weakref.ref(iterator)
        except TypeError:  # a list's: it has no stages
            self._iterator = object

    # -- a step -----------------------------------------------------------------------------------

    def fetch(self) -> int:
        """The fetch of a batch begins. Returns when."""
        if self._patience:
            self._look_for_gpu()
        start_ns = self._now_ns()
        self._books.before(start_ns)
        return start_ns

    def got(self, start_ns: int, batch: Any) -> None:
        """The batch is there."""
        self._books.got(start_ns, self._now_ns(), batch)
        self._raised = None

    def raised(self, error: BaseException) -> None:
        """The fetch raised. Some go on and fetch again."""
        self._raised = Raised.of(error)

    # -- its end ------------------------------------------------------------------------------------

    def exhausted(self) -> None:
        """The data ended."""
        self._end_epoch()
        if self._begun == self._epochs:
            self.end()

    def leave(self, epoch: int) -> None:
        """The loop of an epoch is left before its data ended."""
        if self.epoch != epoch:
            return
        if self._raised:  # in a fetch: for how long it had waited stays known
            self.end()
            return
        self._end_epoch()
        self._left_at = _stack()
        if self.alone and self.owner() is None:
            # The object went before its loop: a collection takes them in any order.
            self.end()

    def end(self, raised: Raised | None = None, *, meant: bool = False) -> None:
        """End the run. meant: to leave a loop before its data ended is no reason to call the run stopped."""
        if self.over:
            return
        if threading.current_thread().name.startswith("tfwatch-"):
            # The garbage collector runs in any thread, also in those that are about to be joined.
            threading.Thread(target=self.end, args=(raised,), kwargs={"meant": meant}, name="end-of-run").start()
            return
        with fails_open(lambda why: tell_user(f"the run was not ended properly: {why}")):
            self._end(raised or self._raised or _uncaught(self._left_at), meant)

    def disown(self) -> None:
        """This process was forked: the run is its parent's."""
        self.over, self.epoch = True, None

    def _end_epoch(self) -> None:
        self._books.end_epoch(None)
        self.epoch = None
        self._idle_ns = self._now_ns()

    def _end(self, raised: Raised | None, meant: bool) -> None:
        at_ns = self._idle_ns if self.epoch is None else self._now_ns()
        stopped = "the loop was left before its data ended" if self._left_at or self.epoch is not None else ""
        self.over, self.epoch = True, None
        self._forget()
        self._stages.stop()
        self._books.close()
        self._books.closed = True
        if raised:
            self._script.end_by(raised, at_ns)
        elif stopped and not meant:
            self._script.end("stopped", stopped, at_ns)
        else:
            self._script.end("finished", "", at_ns)

    def _look_for_gpu(self) -> None:
        with fails_open(self._without_gpu):
            from tfwatch.watch.async_loop import make_marker, may_ask

            self._patience -= 1
            if may_ask():
                self._patience = 0
                ahead = Ahead(lambda: make_marker(self._writer), self._now_ns, self._writer.note)
                ahead.start()
                self._books.ahead = ahead
                self._writer.describe(split=_SPLIT_AHEAD)
            elif not self._patience:
                self._writer.note("the GPU cannot be asked: a fetch that blocks counts as data wait")

    def _without_gpu(self, why: str) -> None:
        self._patience = 0
        self._books.report_failure(why)


def _stack() -> list[tuple[CodeType, int]]:
    """Where the thread is, innermost first, without tfwatch's own code."""
    found = []
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if not frame.f_code.co_filename.startswith(_HERE):
            found.append((frame.f_code, line or 0))
    return found


def _uncaught(left_at: list[tuple[CodeType, int]]) -> Raised | None:
    """The exception by which a loop was left, where nobody caught it: it went through the very line."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None or not left_at:
        return None
    lines = {(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)}
    codes = {code for code, _ in lines}
    innermost = next((place for place in left_at if place[0] in codes), None)
    return Raised.of(error) if innermost in lines else None
