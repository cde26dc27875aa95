"""Profile a few steps of the training with TensorFlow's own profiler, when that is asked for.

The training thread starts the profiler between two steps and marks the end; a thread of its own
stops it beside the training and has a process read what it recorded, and the writer's thread finds
the layers. A profiler of the user's has precedence: where one runs there is no profile, and one
that begins ends ours.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open
from tfwatch.core.events import AUTOMATIC, StepProfiled
from tfwatch.core.rows import Flag
from tfwatch.core.temporary_files import TemporaryFolder
from tfwatch.tfdata.disposal import start_awaited
from tfwatch.watch.profile.operations import Recording, beside_a_training, profile_of
from tfwatch.watch.profile.origins import records_much
from tfwatch.watch.profile.recorded import END, read_apart

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter
    from tfwatch.watch.profile.recorded import Recorded

#: A profile ends after so many nanoseconds, but not before the first number of steps and not after
#: the second, which are fewer where a loop or a hundred layers record thousands of events a step.
#: Of steps of a millisecond on a busy machine three gave shares 18 points off those of fifty. On a
#: GPU each kernel costs: a recurrent layer's step took an H200 53 ms in place of 36, ResNet50's 150
#: in place of 90, a transformer's 24 in place of 14. Its kernels take as long in each step: the
#: shares of one step of the transformer are within 1.2 points of those of two.
_LENGTH, _LENGTH_OF_MANY = (30_000_000, 3, 10), (30_000_000, 3, 3)
_LENGTH_ON_GPU = (15_000_000, 1, 10)
#: The first steps of a run trace, fill buffers and warm up.
_WARM_UP = 20
_PROFILED = int(Flag.PROFILED)
#: At its end a training waits so long, seconds, for a profiler that stops, 0.6 at most on an H200,
#: and is read (`recorded.LONGEST_S`).
_STOPS_S = 10.0
_UNREAD = "the profile cannot be read"


class StepProfiler:
    """The profiles of one run.

    Any thread asks; the training thread calls `after_step`, the writer's thread `write`.
    """

    def __init__(self, writer: RunWriter, *, at_begin: bool = False) -> None:
        """at_begin: profile once after the first steps, as the command asked."""
        self._writer = writer
        self._is_asked = self._was_asked = at_begin
        self._by = "command"
        self._is_repeated = False
        self._not_before = _WARM_UP if at_begin else 0
        self._taken = 0
        self._length: tuple[int, int, int] | None = None
        self._begin_ns = self._cost_ns = 0
        self._folder: TemporaryFolder | None = None
        self._stopping: threading.Thread | None = None
        self._done: tuple[Recording, Recorded] | None = None
        self._model: Callable[[], Any] = lambda: None
        self._step: Callable[[], Any] = lambda: None
        self._guard: _GivesWay | None = None

    def ask(self, by: str) -> None:
        """Ask for a profile of the next steps; a second request before it is done is the same.

        by: as of `StepProfiled`; an automatic one is for a run that was not profiled yet.
        """
        if by == AUTOMATIC and self._was_asked:
            return
        self._by, self._was_asked = by, True
        with beside_a_training():  # 50 ms with ResNet50: not between two steps
            self._length = self._choose_length() if self._graph is not None else None
        self._not_before = 0
        self._is_repeated = False
        self._is_asked = True

    def use(self, model: Any, step: Any = None) -> None:
        """Know the model that trains, for the names of operations. step: it has the `graph` of its
        trace; None where the step has none."""
        with fails_open(lambda _: None):
            self._model = weakref.ref(model)
            self._step = weakref.ref(step) if step is not None else lambda: None

    def _choose_length(self) -> tuple[int, int, int]:
        if self._writer.manifest().accelerated:
            return _LENGTH_ON_GPU
        return _LENGTH_OF_MANY if records_much(self._graph) else _LENGTH

    @property
    def _graph(self) -> Any:
        return getattr(self._step(), "graph", None)

    # -- in the training thread -------------------------------------------------------------------

    def after_step(self, steps: int, in_call: int = 1) -> int:
        """Start or stop the profiler after so many steps; return the flag of the last one.

        in_call: the steps of the last call.
        """
        if not (self._is_asked or self._folder or self._stopping or self._done):
            return 0
        with fails_open(lambda why: self._abandon(why, steps)):
            return self._after_step(steps, in_call)
        return _PROFILED

    def _after_step(self, steps: int, in_call: int) -> int:
        # What reads it takes cores, and what finds the layers holds Python's lock.
        if self._done or (self._stopping and self._stopping.is_alive()):
            return _PROFILED
        self._stopping = None
        if self._folder is None:
            if not self._is_asked or steps < self._not_before:
                return 0
            self._begin()
            return _PROFILED
        self._taken += in_call
        long_ns, least, most = self._length or _LENGTH
        is_long = self._writer.now_ns() - self._begin_ns >= long_ns
        if self._taken >= most or (is_long and self._taken >= least):
            self._end(steps)
        return _PROFILED

    def end_steps(self, steps: int) -> None:
        """End with the steps of an epoch, so that no operation of its end is recorded; a profile
        that has no step yet begins again with the next epoch."""
        if self._folder is None:
            return
        with fails_open(lambda why: self._abandon(why, steps)):
            if self._taken:
                self._end(steps)
            elif self._is_repeated:
                self._abandon("an epoch of one step cannot be profiled", steps)
            else:
                self._discard()
                self._is_asked = self._is_repeated = True

    def _begin(self) -> None:
        self._is_asked, before_ns = False, self._writer.now_ns()
        folder = TemporaryFolder("profile-")
        api = _profiler_api()
        self._folder, self._taken = folder, 0
        self._length = self._length or self._choose_length()
        guard = _GivesWay(lambda: self._abandon("another profiler began", self._writer.status[2]))
        if guard.is_taken:
            self._abandon("another profiler runs", self._writer.status[2])
            return
        # It records what it does by default: TensorFlow 2.21 takes no levels, and warns of each.
        api.start(str(folder.path))
        self._guard = guard
        guard.begin()
        self._begin_ns = self._writer.now_ns()
        self._cost_ns = self._begin_ns - before_ns

    def _end(self, steps: int) -> None:
        guard, folder, done_ns = self._guard, self._folder, self._writer.now_ns()
        if guard is None or folder is None:
            return
        with _profiler_api().Trace(END):
            pass
        times_ms = (done_ns - self._begin_ns) / 1e6 / self._taken, self._cost_ns / 1e6
        of_model = self._model(), self._graph
        done = Recording(steps, self._taken, *times_ms, self._by, *of_model)
        self._stopping = start_awaited("profile", self._stop_beside, guard, folder, done)
        self._guard = self._folder = None

    def _stop_beside(self, guard: _GivesWay, folder: TemporaryFolder, done: Recording) -> None:
        """Stop the profiler in a thread of its own, and read what it has recorded: stopping takes
        an H200's host 10 to 30 ms after steps of a small model, 0.1 to 0.6 s after those of a deep
        one."""
        is_ours = False
        with fails_open(lambda why: self._report(why, done.step)):
            is_ours = guard.stop()
        if is_ours:
            with fails_open(lambda why: self._report(f"{_UNREAD}: {why}", done.step)):
                self._done = done, read_apart(folder.path)
        folder.close()

    def _abandon(self, why: str, steps: int) -> None:
        with fails_open(lambda _: None):
            self._discard()
        self._is_asked = False
        self._report(why, steps)

    def _discard(self) -> None:
        """Stop the profiler, and drop what it has recorded."""
        folder, self._folder = self._folder, None
        guard, self._guard = self._guard, None
        try:
            if guard is not None:
                guard.end()
                _profiler_api().stop(save=False)
        finally:
            if folder is not None:
                folder.close()

    def close(self) -> None:
        """End with the training: a profile that is not done is given up."""
        if self._folder is not None:
            self._abandon("the training ended", self._writer.status[2])

    # -- in the writer's thread -------------------------------------------------------------------

    def write(self) -> None:
        """Write the profile that the training thread has ended, if there is one."""
        if self._done is None:
            return
        done, recorded = self._done
        with fails_open(lambda why: self._report(f"{_UNREAD}: {why}", done.step)):
            now_ns, on_gpu = self._writer.now_ns(), self._writer.manifest().accelerated
            self._writer.event(profile_of(done, recorded, now_ns, accelerated=on_gpu))
        self._done = None

    def finish(self) -> None:
        """End with the run: write what is done, or why nothing is."""
        if stopping := self._stopping:
            stopping.join(_STOPS_S)
            if stopping.is_alive():
                self._report("the run ended before it was read", self._writer.status[2])
        self.write()
        if self._is_asked:
            self._report("the run ended before its steps could be profiled", self._writer.status[2])

    def _report(self, why: str, steps: int) -> None:
        now_ns = self._writer.now_ns()
        self._writer.event(StepProfiled(now_ns, steps, 0, 0.0, 0.0, missing=why, by=self._by))


def _profiler_api() -> Any:
    import tensorflow as tf

    return tf.profiler.experimental


class _GivesWay:
    """TensorFlow's lock of its profiler while ours runs: whoever takes it, to start a profiler by
    any of its names, ends ours first, or waits where ours is being stopped."""

    def __init__(self, end: Callable[[], None]) -> None:
        from tensorflow.python.profiler import profiler_v2

        self._module: Any = profiler_v2
        self._lock = profiler_v2._profiler_lock
        self._end = end
        self._stopper: threading.Thread | None = None
        self._has_stopped = threading.Event()

    @property
    def is_taken(self) -> bool:
        """True where somebody else's profiler runs."""
        return self._module._profiler is not None

    def begin(self) -> None:
        """Take the place of the lock."""
        self._module._profiler_lock = self

    def end(self) -> None:
        """Put the lock back; a second call does nothing."""
        if self._module._profiler_lock is self:
            self._module._profiler_lock = self._lock

    def stop(self) -> bool:
        """Stop our profiler, which writes its file; return False where it has given way."""
        self._stopper = threading.current_thread()
        try:
            with self._lock:
                if self._module._profiler_lock is not self:
                    return False
                try:
                    self._module.stop()
                finally:
                    self.end()
            return True
        finally:
            self._has_stopped.set()

    def __enter__(self) -> None:
        if threading.current_thread() is self._stopper:
            return  # `stop` holds the lock
        if self._stopper is None:
            self.end()
            self._end()
        else:
            self._has_stopped.wait()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not self._stopper:
            self._lock.release()
