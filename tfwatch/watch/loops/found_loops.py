"""The loops in a script's own code: those over data sets that train are recorded as by `track`, and
those over `train_on_batch` whose batches come from no data set by their calls.

A loop trains once a sign of training falls between two of its fetches: a gradient of variables, an
optimizer's step, a `train_on_batch`. Of nested loops the inner one trains; a data set that is read
beside another one, as in `zip`, is a part of that one's step. Until a loop is known to train, its
fetches are kept in memory: a loop that only counts, plots or validates leaves no run.

A loop over `train_on_batch` does not show when it makes a batch: the calls of a step are its
compute, and the time until the next step, in which batches are made and other Python runs, is host.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import fails_open, warn_user
from tfwatch.watch.loops.loop_step_log import EarlierFetch
from tfwatch.watch.loops.tracked_loop import (
    CallsRun,
    TrackedRun,
    all_runs,
    begin_or_continue,
    find_continued,
)
from tfwatch.watch.step_log import count_examples
from tfwatch.watch.tensorflow_info import find_trace_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import CodeType, FrameType

#: Fetches before which the optimizers are asked for their steps.
_ASK_BEFORE = (2, 4, 16)
#: The newest fetches of a loop that is not known to train yet.
_MOST_KEPT = 16


class _Thread(threading.local):
    """The loops of one thread.

    signs: of training so far. fits: that run in it. fetches: of all its loops. recorded: its newest
    loop that was recorded. undecided: loops that may train.
    """

    def __init__(self) -> None:
        self.signs = self.fits = self.fetches = 0
        self.recorded: Callable[[], FoundLoop | None] = lambda: None
        self.undecided: weakref.WeakSet[FoundLoop] = weakref.WeakSet()


class FoundLoops:
    """The loops of a process, and the signs of training in each of its threads. A `fit` records
    itself: what happens inside it is no sign.

    runs_dir: where the runs are recorded. fits_begun: by all threads. is_over: nothing more is
    recorded.
    """

    def __init__(self, runs_dir: Path | None) -> None:
        self.runs_dir = runs_dir
        self.thread = _Thread()
        self.is_over = False
        self.fits_begun = self._fits_running = 0
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._pid = os.getpid()

    def may_record(self) -> bool:
        """Return whether runs are recorded in this process, and no `fit` records itself."""
        return not (self.is_over or self._fits_running) and os.getpid() == self._pid

    def note_sign(self) -> None:
        """Count a sign of training."""
        if not self.thread.fits:
            self.thread.signs += 1

    def note_optimizer(self, optimizer: Any) -> None:
        """Count the step of an optimizer, or the trace of one."""
        self._optimizers.add(optimizer)
        self.note_sign()

    @contextlib.contextmanager
    def fit(self) -> Iterator[None]:
        """A running `fit`."""
        self.fits_begun += 1
        self._fits_running += 1
        self.thread.fits += 1
        try:
            yield
        finally:
            self.thread.fits -= 1
            self._fits_running -= 1

    def optimizer_steps(self) -> int | None:
        """Return the steps of all optimizers so far; None without one, and in a thread that is not
        the main one.

        A function that was traced before gives no other sign. Another thread's loop that only reads
        would take these steps for its own. On a GPU this waits for the work that was launched
        before.
        """
        optimizers = list(self._optimizers)
        if not optimizers or threading.current_thread() is not threading.main_thread():
            return None
        # Not `iterations`: it counts a step only once the gradients of several batches are
        # accumulated.
        return sum(
            int(getattr(optimizer, "_iterations", optimizer.iterations)) for optimizer in optimizers
        )

    def traced(self) -> int:
        """Return the time spent tracing functions so far. The run of a loop that trains notes why
        there is none."""
        return self._traced() if self._traced else 0

    @cached_property
    def _traced(self) -> Callable[[], int] | None:
        return find_trace_count(lambda _why: None)


class FoundLoop:
    """A loop over the iterator of a data set. Its thread calls `before` and `after` with each
    fetch. What fails in tfwatch ends its record, and never reaches the loop.

    is_over: nothing more is to be recorded.
    """

    def __init__(self, loops: FoundLoops, frame: FrameType, dataset: Any, iterator: Any) -> None:
        self.is_over = False
        self._loops = loops
        self._code, self._line = frame.f_code, frame.f_lineno
        # Not the instruction: in CPython 3.11 a call that is specialized is another one.
        self._site = (id(self._code), -self._line, threading.get_ident(), loops.runs_dir)
        self._dataset = dataset
        self._iterator = weakref.ref(iterator)
        self._run: TrackedRun | None = None
        self._epoch = -1
        self._kept: deque[EarlierFetch] = deque(maxlen=_MOST_KEPT)
        self._fetches = 0
        self._begun_at = self._last_at = loops.thread.fetches
        self._fits_begun = loops.fits_begun
        self._seen_signs = loops.thread.signs
        self._seen_steps: int | None = None
        loops.thread.undecided.add(self)

    @property
    def is_recorded(self) -> bool:
        """True while its epoch is being recorded."""
        return self._run is not None and self._run.epoch == self._epoch

    # -- a fetch -----------------------------------------------------------------------------------

    def before(self) -> int:
        """Record that a fetch begins; return the time, on the run's clock or on the system's."""
        now_ns = SYSTEM.now_ns()
        with fails_open(self._give_up):
            if self._run is None:
                self._decide(now_ns)
            if self._run is None:
                return now_ns
            if self.is_recorded and not self._loops.is_over:
                return self._run.begin_fetch()
            self._end()  # the run is over, or continues in a later loop
        return now_ns

    def after(self, start_ns: int, batch: Any) -> None:
        """Record that the batch is there."""
        with fails_open(self._give_up):
            thread = self._loops.thread
            thread.fetches += 1
            self._fetches += 1
            self._last_at = thread.fetches
            if self._run is None:
                self._keep(start_ns, batch)
            elif not self.is_over:
                self._run.record_fetch(start_ns, batch)

    def exhausted(self) -> None:
        """End the epoch with its data."""
        with fails_open(self._give_up):
            if self._run is not None and self.is_recorded:
                self._run.exhausted()
        self._end()

    def failed(self, error: BaseException) -> None:
        """Record an error of the fetch. The loop may fetch again."""
        with fails_open(self._give_up):
            if self._run is not None and self.is_recorded:
                self._run.record_error(error)

    def __del__(self) -> None:
        """End the epoch when the loop is left."""
        run = getattr(self, "_run", None)
        if run is not None:
            with fails_open(run.lose):
                run.leave(self._epoch)

    def _keep(self, start_ns: int, batch: Any) -> None:
        if self.is_over:
            return
        got_ns = SYSTEM.now_ns()
        other = self._recorded_other()
        # It is a part of the other one's step.
        if other and other._last_at > self._begun_at and other._run:
            other._run.add_wait(got_ns - start_ns)
        examples = count_examples(batch)
        self._kept.append(EarlierFetch(start_ns, got_ns, examples, self._loops.traced()))
        self._seen_signs = self._loops.thread.signs

    # -- whether it trains -------------------------------------------------------------------------

    def _decide(self, now_ns: int) -> None:
        loops = self._loops
        if self.is_over:
            return
        if not loops.may_record() or loops.fits_begun != self._fits_begun:
            self._end()
        elif self._fetches == 0:
            self._seen_steps = loops.optimizer_steps()
            # It trained before, and a function that is traced already gives no sign.
            if self._seen_steps is None and find_continued(self._site):
                self._record(now_ns)
        elif self._trains():
            self._record(now_ns)

    def _trains(self) -> bool:
        """Return whether a sign of training fell between the last fetch and this one, and belongs
        to this loop."""
        if self._loops.thread.signs != self._seen_signs:
            # The steps before this one did not train.
            self._kept = deque([self._kept[-1]], _MOST_KEPT)
        elif not self._have_optimizers_stepped():
            return False
        recorded = self._recorded_other()
        return recorded is None or recorded._last_at < self._last_at

    def _have_optimizers_stepped(self) -> bool:
        if self._seen_steps is None or self._fetches + 1 not in _ASK_BEFORE:
            return False
        before, self._seen_steps = self._seen_steps, self._loops.optimizer_steps()
        return self._seen_steps != before

    def _recorded_other(self) -> FoundLoop | None:
        """Return the other loop of this thread that is recorded now."""
        other = self._loops.thread.recorded()
        return other if other is not None and other is not self and other.is_recorded else None

    def _record(self, now_ns: int) -> None:
        thread = self._loops.thread
        outer = self._recorded_other()
        if outer is not None and outer._run is not None:
            outer._run.leave(outer._epoch)
            outer._end()
        for loop in list(thread.undecided):
            if loop is not self and loop._last_at <= self._begun_at and loop._fetches:
                loop._end()  # it fetched nothing since: this loop is a part of its body
        thread.undecided.discard(self)
        self._begin_run(self._kept[0].start_ns if self._kept else now_ns, now_ns)
        thread.recorded = weakref.ref(self)

    def _begin_run(self, begun_ns: int, now_ns: int) -> None:
        run = begin_or_continue(self._site, self._code, self._line, begun_ns)
        self._epoch = run.begin_epoch(self._dataset, begun_ns)
        self._run, self._dataset = run, None
        iterator = self._iterator()
        if iterator is not None:
            run.use_iterator(iterator)
        run.record_earlier(self._kept, now_ns)
        self._kept.clear()

    # -- its end -----------------------------------------------------------------------------------

    def _end(self) -> None:
        self.is_over = True
        self._dataset = None
        self._kept.clear()
        self._loops.thread.undecided.discard(self)

    def _give_up(self, why: str) -> None:
        self._end()
        warn_user(f"this loop is not recorded: {why}")


# -- loops over train_on_batch ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `train_on_batch`. site: its code, which is referenced, and the instruction in
    it."""

    site: tuple[CodeType, int]
    line: int
    start_ns: int


class _CallsOfThread(threading.local):
    """The calls of one thread. A step is the calls until one of its lines is reached again: a GAN
    has several.

    sites: those of the current step. fetches: of its loops over data sets, before the last call.
    first: the begin and the end of the first step.
    """

    def __init__(self) -> None:
        self.steps = self.fetches = 0
        self.sites: set[tuple[CodeType, int]] = set()
        self.first = (0, 0)
        self.run: CallsRun | None = None

    def restart(self) -> None:
        """Begin another loop."""
        self.steps, self.run = 0, None
        self.sites.clear()


class BatchCalls:
    """The calls of `train_on_batch` from the user's own code, in one process. A run begins with the
    second step, and has the first one, which compiles."""

    def __init__(self, loops: FoundLoops) -> None:
        self._loops = loops
        self._own = _CallsOfThread()

    def begin(self, frame: FrameType) -> Call | None:
        """Return a call that begins in a frame; None where a `fit` records itself."""
        if not self._loops.may_record():
            return None
        if self._own.run:
            self._own.run.begin_call(frame.f_code)
        return Call((frame.f_code, frame.f_lasti), frame.f_lineno, SYSTEM.now_ns())

    def end_call(self, call: Call, logs: Any) -> None:
        """Record a call that is over. After a fetch it is a sign that a loop over a data set
        trains; else it has a run of its own."""
        end_ns = SYSTEM.now_ns()
        with fails_open(lambda why: warn_user(f"this loop is not recorded: {why}")):
            self._loops.note_sign()
            own, fetches = self._own, self._loops.thread.fetches
            has_fetched, own.fetches = fetches != own.fetches, fetches
            # A tracked loop runs: its fetches are timed.
            if has_fetched or any(
                run.epoch is not None and isinstance(run, TrackedRun) for run in list(all_runs)
            ):
                own.sites.clear()
            else:
                self._count(call, end_ns, _loss_of(logs))

    def end(self) -> None:
        """Forget the loop of this thread, whose run has ended."""
        self._own.restart()

    def _count(self, call: Call, end_ns: int, loss: Any) -> None:
        own = self._own
        is_new = not own.sites or call.site in own.sites
        if is_new:
            own.sites.clear()
            own.steps += 1
        own.sites.add(call.site)
        if own.steps == 1:
            own.first = call.start_ns if is_new else own.first[0], end_ns
            return
        if own.run is None:
            own.run = CallsRun(self._loops.runs_dir, call.site[0], call.line, own.first[0])
            own.run.record(*own.first, None, is_new=True)
        if not own.run.is_over:
            own.run.record(call.start_ns, end_ns, loss, is_new=is_new)


def _loss_of(logs: Any) -> Any:
    """Return the loss: the first value of what `train_on_batch` returned."""
    if isinstance(logs, dict):
        return logs.get("loss")
    return logs[0] if isinstance(logs, (list, tuple)) and logs else logs
