"""The run of a loop of the user's own: each fetch of a tracked loop, or each call of
`train_on_batch`. A later tracked loop from the same line continues its run.

Runs in the thread that loops. A failure here ends the recording, never the loop.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import traceback
import weakref
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, raise_interrupt, warn_user
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.control import OWN_LOOP
from tfwatch.tfdata.code_edits import place_of
from tfwatch.tfdata.shuffle_fill import LATE_NS, ShuffleFill
from tfwatch.tfdata.stage_reader import StageReader
from tfwatch.watch.loops.async_loop import GpuProbe
from tfwatch.watch.loops.function_calls import function_calls
from tfwatch.watch.loops.loop_step_log import LoopStepLog
from tfwatch.watch.session import ErrorText, ScriptRun, call_at_exit
from tfwatch.watch.step_log import StepLog
from tfwatch.watch.tensorflow_info import (
    find_device,
    find_trace_count,
    host_device,
    note_replicas,
    why_loop_copies_untimed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import CodeType

    from tfwatch.watch.loops.loop_step_log import EarlierFetch

#: A line that loops: the code, the instruction in it, the thread, and the folder of the runs.
CallSite = tuple[int, int, int, "Path | None"]
#: The largest number of runs that wait for another loop from their line; older ones end. Each takes
#: 1 % of a core.
_MAX_WAITING = 8
#: The value of `tf.data.INFINITE_CARDINALITY`.
_INFINITE = -1

_COMPILE, _SHUFFLE_FILL = int(Flag.COMPILE), int(Flag.SHUFFLE_FILL)
#: The number of fetches after which a GPU that cannot be probed yet is given up.
_MAX_TRIES = 3
#: The way in which the parts of a step are separated.
_SPLIT = (
    "the loop's fetches: the fetch is data wait; of the body, calls of tf.function are compute, and"
    " the rest is host; a body without a call is compute"
)
_SPLIT_GPU = (
    "the loop's fetches and the GPU: a fetch is data wait once the GPU is out of work, all else is"
    " compute"
)
_SPLIT_CALLS = (
    "calls of train_on_batch are compute, and what is between them is host, batches included"
)

#: All runs that still exist.
all_runs: weakref.WeakSet[LoopRun] = weakref.WeakSet()


class LoopRun:
    """The run of a loop.

    epoch: the current one; None between two. is_over: nothing more is recorded. code: that of the
    loop; referenced, so that no other code gets its identity. line: of the loop in it. split: the
    way in which the parts of a step are separated. begun_ns: when the first step began, by the
    system's clock; None is now.
    """

    def __init__(
        self, runs_dir: Path | None, code: CodeType, line: int, begun_ns: int | None, split: str
    ) -> None:
        self._device = find_device() if "tensorflow" in sys.modules else host_device()
        self.epoch: int | None = None
        self.is_over = False
        self._codes = {code}
        self._script = ScriptRun(runs_dir, self._device, {}, [], begun_ns)
        self._script.serve(None, OWN_LOOP)
        self._writer = self._script.writer
        self._now_ns = self._writer.now_ns
        self._step_log = StepLog(self._writer, self._script.profiler)
        #: The end of the last step, where none runs.
        self._idle_ns = 0
        self._raised: ErrorText | None = None
        place, no_copy = place_of(code.co_filename, line), why_loop_copies_untimed(self._device)
        self._writer.describe(loop=place, split=split, copy_not_timed=no_copy)
        self._forget = call_at_exit(self.end)
        all_runs.add(self)

    @property
    def path(self) -> Path | None:
        """The run folder; None if it could not be created."""
        return self._script.path

    def _on_run_clock(self, at_ns: int) -> int:
        return at_ns - self._writer.manifest().origin_ns

    def lose(self, why: str) -> None:
        """End the recording, of which a part has failed."""
        self._step_log.lost = True
        self._step_log.report_failure(why)

    def disown(self) -> None:
        """Stop recording in a forked process: the run belongs to its parent."""
        self.is_over, self.epoch = True, None

    def end(self, raised: ErrorText | None = None, *, meant: bool = False) -> None:
        """End the run. meant: the user ended it, so a loop that was left before its data ended
        finished the run."""
        if self.is_over:
            return
        if threading.current_thread().name.startswith("tfwatch-"):
            # The garbage collector runs in any thread, also in those that are about to be joined.
            threading.Thread(
                target=self.end, args=(raised,), kwargs={"meant": meant}, name="end-of-run"
            ).start()
            return
        with fails_open(lambda why: warn_user(f"the run did not end properly: {why}")):
            is_left = self._is_left
            if self.epoch is not None or is_left:
                raised = raised or self._raised or self._find_uncaught()
            self._end(raised or self._raised, is_stopped=is_left and not meant)

    @property
    def _is_left(self) -> bool:
        """True if the last loop was left before its data ended."""
        return False

    def _find_uncaught(self) -> ErrorText | None:
        """Return the uncaught exception of the process that left the loop's code; None without."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is None:
            return None
        left = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
        return ErrorText.of(error) if self._codes & left else None

    def _end(self, raised: ErrorText | None, *, is_stopped: bool) -> None:
        at_ns = self._idle_ns if self._is_idle and raised is None else self._now_ns()
        self.is_over, self.epoch = True, None
        for part in (self._forget, self._close, self._step_log.profiler.close):
            with fails_open(self._step_log.report_failure):
                part()
        self._step_log.closed = True
        if raised:
            self._script.end_with_error(raised, at_ns)
        elif is_stopped:
            self._script.end("stopped", "the loop was left before its data ended", at_ns)
        else:
            self._script.end("finished", "", at_ns)
        self._script.close()

    @property
    def _is_idle(self) -> bool:
        """True while no step runs."""
        return self.epoch is None

    def _close(self) -> None:
        """Write what is not written yet."""


class CallsRun(LoopRun):
    """The run of a loop over `train_on_batch`, whose steps are calls. It ends with the process."""

    _is_idle = True

    def __init__(self, runs_dir: Path | None, code: CodeType, line: int, begun_ns: int) -> None:
        super().__init__(runs_dir, code, line, begun_ns, _SPLIT_CALLS)
        self._writer.training_thread = threading.get_ident()
        self._writer.describe(makes_batches=True)
        self.epoch = 0
        self._step_log.begin_epoch(0, 0, None, 0)
        #: The begin of the current step.
        self._step_ns = 0

    def begin_call(self, code: CodeType) -> None:
        """Record that a call begins, in this code."""
        self._codes.add(code)
        self._step_log.set_phase(Phase.COMPUTE)

    def record(self, start_ns: int, end_ns: int, loss: Any, *, is_new: bool) -> None:
        """Record a call, of a new step or of the current one, by the system's clock."""
        start_ns, self._idle_ns = self._on_run_clock(start_ns), self._on_run_clock(end_ns)
        log = self._step_log
        if is_new:
            log.end_step(start_ns)
            log.steps += 1
            self._step_ns = start_ns
            times = (start_ns, start_ns, math.nan, start_ns, self._idle_ns)
            log.record_step(*times, _COMPILE if log.steps == 1 else 0, None, {"loss": loss})
        else:
            log.extend_step(self._idle_ns)
        log.set_phase(Phase.HOST)

    def _close(self) -> None:
        self._step_log.end_step(self._idle_ns)
        self._step_log.end_epoch(None)


class TrackedRun(LoopRun):
    """A run that times each fetch of a loop: the step's body lasts until the next fetch. Each loop
    over the tracked iterable is one of its epochs.

    owner: returns the object that is looped over, None once it is deleted.
    """

    _step_log: LoopStepLog

    def __init__(
        self, runs_dir: Path | None, code: CodeType, line: int, begun_ns: int | None = None
    ) -> None:
        super().__init__(runs_dir, code, line, begun_ns, _SPLIT)
        self.owner: Callable[[], object] = lambda: None
        if begun_ns is None:  # a loop that began already waits for nothing
            self._writer.wait_until_begun()
        in_tensorflow, note = "tensorflow" in sys.modules, self._writer.note
        self._times_calls = in_tensorflow and function_calls.begin(note)
        calls = function_calls if self._times_calls else None
        traced = find_trace_count(note) if in_tensorflow else None
        self._step_log = LoopStepLog(self._writer, self._script.profiler, traced, calls)
        self._tries_left = _MAX_TRIES if self._device.accelerated else 0
        self._epochs_begun = 0
        self._was_left = self._is_endless = False
        self._ends_at: float = math.inf
        self._iterator: Callable[[], Any] = lambda: None
        self._filling = ShuffleFill(None)
        self._stages = StageReader(self._writer, self.iterators)
        self._stages.start()

    def begin_epoch(self, data: object, begun_ns: int | None = None) -> int:
        """Begin a loop over the data; return the epoch.

        begun_ns: when it began, by the system's clock; None is now.
        """
        steps, self._is_endless = _length_of(data), _is_endless(data)
        self.epoch, self._epochs_begun = self._epochs_begun, self._epochs_begun + 1
        self._was_left, self._raised = False, None
        self._ends_at = math.inf if steps is None else self._step_log.steps + steps
        self._writer.training_thread = threading.get_ident()
        at_ns = self._now_ns() if begun_ns is None else self._on_run_clock(begun_ns)
        self._step_log.begin_epoch(self.epoch, 0, steps, at_ns)
        self._step_log.begin_phase(Phase.WAIT, self._now_ns())
        return self.epoch

    def record_earlier(self, fetches: Iterable[EarlierFetch], until_ns: int) -> None:
        """Record the steps of the epoch so far; the last one ended `until_ns`, by the system's
        clock."""
        for fetch in fetches:
            self._step_log.record_earlier(
                self._on_run_clock(fetch.start_ns), self._on_run_clock(fetch.got_ns), fetch
            )
            self._explain_wait(fetch.got_ns - fetch.start_ns)
        self._step_log.end_step(self._on_run_clock(until_ns))

    def iterators(self) -> tuple[Any, Any]:
        """Return the iterators for `StageReader`: no source, as there is no gate, and the current
        iterator."""
        return None, self._iterator()

    def use_iterator(self, iterator: Any) -> None:
        """Set the iterator of the epoch's batches, which is referenced weakly."""
        try:
            self._iterator, self._filling = weakref.ref(iterator), ShuffleFill(iterator)
        except TypeError:  # a list's iterator, which has no stages
            self._iterator, self._filling = object, ShuffleFill(None)
        tensorflow = sys.modules.get("tensorflow")
        kind = getattr(getattr(tensorflow, "distribute", None), "DistributedIterator", ())
        if isinstance(iterator, kind):
            note_replicas(self._writer, iterator)

    # -- a step -----------------------------------------------------------------------------------

    def begin_fetch(self) -> int:
        """Record that the fetch of a batch begins; return the time."""
        if self._tries_left:
            self._start_gpu_probe()
        start_ns = self._now_ns()
        self._step_log.begin_fetch(start_ns)
        return start_ns

    def record_fetch(self, start_ns: int, batch: Any) -> None:
        """Record that the batch is there."""
        got_ns = self._now_ns()
        self._step_log.record_fetch(got_ns, batch)
        self._explain_wait(got_ns - start_ns)
        self._raised = None

    def _explain_wait(self, wait_ns: int) -> None:
        """Flag the step of a long wait that filled a shuffle buffer."""
        if wait_ns > LATE_NS and self._filling.is_cause_of(wait_ns):
            self._step_log.flags |= _SHUFFLE_FILL
            self._filling.describe_in(self._writer)

    def add_wait(self, wait_ns: int) -> None:
        """Count the fetch of a second data set, later in the body, as data wait."""
        self._step_log.add_wait(wait_ns)

    def record_error(self, error: BaseException) -> None:
        """Record an error of the fetch. The loop may fetch again."""
        self._raised = ErrorText.of(error)

    # -- its end -----------------------------------------------------------------------------------

    def exhausted(self) -> None:
        """End the epoch with its data."""
        self._end_epoch()

    def leave(self, epoch: int) -> None:
        """End an epoch whose loop was left before the data ended."""
        if self.epoch != epoch:
            return
        if self._raised:  # in a fetch, whose wait is recorded with the run's end
            self.end()
            return
        self._end_epoch()
        self._was_left = self._has_data_left

    def _end_epoch(self) -> None:
        self._step_log.end_epoch(None)
        self.epoch = None
        self._idle_ns = self._now_ns()

    @property
    def _has_data_left(self) -> bool:
        return not self._is_endless and self._step_log.steps < self._ends_at

    @property
    def _is_left(self) -> bool:
        return self._was_left if self.epoch is None else self._has_data_left

    def _close(self) -> None:
        calls_end = [function_calls.end] if self._times_calls else []
        for part in (*calls_end, self._stages.stop, self._step_log.close):
            with fails_open(self._step_log.report_failure):
                part()

    def _start_gpu_probe(self) -> None:
        with fails_open(self._without_gpu):
            from tfwatch.watch.loops.async_loop import can_probe_gpu, make_completion_probe

            self._tries_left -= 1
            if can_probe_gpu():
                self._tries_left = 0
                gpu_probe = GpuProbe(
                    lambda: make_completion_probe(self._writer), self._now_ns, self._writer.note
                )
                gpu_probe.start()
                self._step_log.gpu_probe = gpu_probe
                self._writer.describe(split=_SPLIT_GPU)
            elif not self._tries_left:
                self._writer.note(
                    "the GPU cannot be probed: every fetch that blocks counts as data wait"
                )

    def _without_gpu(self, why: str) -> None:
        self._tries_left = 0
        self._step_log.report_failure(why)


#: The newest run of each call site.
_newest: dict[CallSite, TrackedRun] = {}


def find_continued(site: CallSite) -> TrackedRun | None:
    """Return the run that an earlier loop from this site began, and whose object is deleted."""
    run = _newest.get(site)
    return run if run and _waits(run) else None


def _waits(run: TrackedRun) -> bool:
    return not run.is_over and run.epoch is None and run.owner() is None


def begin_or_continue(
    site: CallSite, code: CodeType, line: int, begun_ns: int | None = None
) -> TrackedRun:
    """Return the run of a loop: that which an earlier loop from its site began, or a new one."""
    run = find_continued(site)
    if run is None:
        run = TrackedRun(site[-1], code, line, begun_ns)
        _remember(site, run)
    return run


def _remember(site: CallSite, run: TrackedRun) -> None:
    """Keep a new run for the next loop from its site."""
    for known, other in list(_newest.items()):
        if other.is_over:
            del _newest[known]
    waiting = [known for known, other in _newest.items() if _waits(other)]
    for known in waiting[:-_MAX_WAITING]:
        _newest.pop(known).end()
    _newest[site] = run


def _length_of(iterable: object) -> int | None:
    """Return the length of an iterable; None where it has none."""
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001  the iterable is the user's; of unknown or infinite length it raises
        raise_interrupt(error)
        return None


def _is_endless(iterable: Any) -> bool:
    """Return whether a data set of tf.data repeats without end: a loop over it is left and never
    exhausted."""
    try:
        return int(iterable.cardinality()) == _INFINITE
    except Exception as error:  # noqa: BLE001  the iterable is the user's
        raise_interrupt(error)
        return False


def _disown() -> None:
    _newest.clear()
    for run in list(all_runs):
        run.disown()


os.register_at_fork(after_in_child=_disown)
