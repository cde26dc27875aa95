"""How long the GPU starves in a loop that runs ahead of it.

How long the GPU starves in a loop that runs ahead of it.

A loop of the user's own need not pull metrics: its thread fetches the next batch while the GPU still computes, and a
fetch that blocks is no starving until the GPU has run dry. So a thread of its own asks, at every fetch, when the work
launched before it has landed. The training thread never waits for the GPU.

Asks a GPU when the work that was launched so far is done.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.python.eager import context

from tfwatch.core.errors import fails_open
from tfwatch.watch.fused_steps import find_clock, offset_ns
from tfwatch.watch.session import at_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch.runs.writer import RunWriter

#: Readings of an idle GPU at the start, and which of them counts: work of the user's may hold some up.
_READINGS, _COUNTS = 12, 3
#: A landing that takes longer than twice that of an idle GPU and this was held up by work.
_SLACK_NS = 100_000
#: A fetch that follows one shorter than this is asked about once it lasts as long, and every eighth at once.
SHORT_NS = 300_000
_EVERY = 8
#: That work has landed is read later than that an idle GPU answers, by so much. Seen on an H200 against its device
#: trace, in 40 loops of 10 to 60 ms a step: what is told then is 1.3 points of wall clock too little to 2.5 too much.
_LATER_NS = 300_000
#: Steps that wait for word of the GPU at most.
_PARKED = 4096
_JOIN_S = 1.0
#: Seconds that a process' end waits for the thread to leave TensorFlow: of 7 processes that ended while a thread ran a
#: function of TensorFlow's that went on, on two CPU cores, 5 died of a segmentation fault.
_LEAVE_S = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """One step: its fetch from `start_ns` to `got_ns`, and its body until `end_ns`."""

    step: int
    epoch: int
    flags: int
    start_ns: int
    got_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Landing:
    """Of the fetch of `step` that began at `start_ns`: asked at `asked_ns`, the work before was done by `landed_ns`."""

    step: int
    start_ns: int
    asked_ns: int
    landed_ns: int


class Split:
    """Puts steps and landings together; steps come out in order, each with the nanoseconds that the GPU starved.

    A GPU starves while a fetch blocks and nothing that was launched is left to do. That it idles on until the batch is
    there and launched is not data wait: it is the launching that follows.

    Args:
        idle_ns: after so long an idle GPU answers.
    """

    def __init__(self, idle_ns: int) -> None:
        self.late_ns = idle_ns + _LATER_NS
        self._idle_ns = idle_ns
        self._steps: deque[Fetched] = deque()
        self._dry = True

    def add(self, step: Fetched) -> None:
        """A step is over."""
        self._steps.append(step)

    def take(self, landing: Landing) -> Iterator[tuple[Fetched, int]]:
        """The GPU landed: the steps up to this one."""
        while self._steps and self._steps[0].step < landing.step:
            yield self._unasked()
        if not self._steps or self._steps[0].start_ns != landing.start_ns:
            return  # of a fetch that gave no batch
        step = self._steps.popleft()
        self._dry = landing.landed_ns - landing.asked_ns <= 2 * self._idle_ns + _SLACK_NS
        dry_ns = step.start_ns if self._dry else landing.landed_ns - self.late_ns
        yield step, max(0, step.got_ns - max(step.start_ns, dry_ns))

    def rest(self, keep: int = 0) -> Iterator[tuple[Fetched, int]]:
        """The steps for which no landing came, but for the newest `keep`."""
        while len(self._steps) > keep:
            yield self._unasked()

    def _unasked(self) -> tuple[Fetched, int]:
        """A step that was not asked about: its fetch was short, or over before the GPU was done with earlier work."""
        step = self._steps.popleft()
        return step, step.got_ns - step.start_ns if self._dry else 0


class Ahead:
    """The thread that asks, and the steps that wait for its answers.

    make_probe: called on the thread, gives what waits for the GPU and returns when its work was done, on `now_ns`.
    note: is told, once, what was found. failed: the GPU cannot be asked; a fetch that blocks counts as wait then.
    """

    def __init__(
        self, make_probe: Callable[[], Callable[[], int]], now_ns: Callable[[], int], note: Callable[[str], None]
    ) -> None:
        self.failed = False
        self._make_probe = make_probe
        self._now_ns = now_ns
        self._note = note
        self._fetching: tuple[int, int] | None = None
        self._fed = False
        self._split: Split | None = None
        self._new: deque[Fetched] = deque()
        self._landed: deque[Landing] = deque()
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-landing", daemon=True)
        self._forget: Callable[[], None] = lambda: None

    # -- the training thread ----------------------------------------------------------------------

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()
        self._forget = at_exit(lambda: self._leave(_LEAVE_S))

    def fetch(self, step: int, start_ns: int) -> None:
        """The fetch of a step's batch begins."""
        self._fetching = step, start_ns
        if not self.failed:
            self._asked.put(True)

    def got(self, got_ns: int) -> None:
        """The batch is there."""
        fetching, self._fetching = self._fetching, None
        self._fed = fetching is not None and got_ns - fetching[1] < SHORT_NS

    def settle(self, step: Fetched) -> Iterator[tuple[Fetched, int]]:
        """A step is over: the steps of which is known by now how many nanoseconds the GPU starved."""
        self._new.append(step)
        if self._split or self.failed or len(self._new) > _PARKED:
            yield from self._settled(_PARKED)

    def rest(self) -> Iterator[tuple[Fetched, int]]:
        """The steps that are left, by what is known now: the loop is over."""
        self._fetching = None
        return self._settled(0)

    def stop(self) -> Iterator[tuple[Fetched, int]]:
        """End the thread: the steps that are left. For a GPU that has much to do yet only the process' end waits."""
        self._leave(_JOIN_S)
        yield from self._settled(0)

    def _leave(self, timeout_s: float) -> None:
        self._stopping.set()
        self._asked.put(False)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._forget()

    def _settled(self, keep: int) -> Iterator[tuple[Fetched, int]]:
        split, failed = self._split, self.failed
        while split and self._new and not failed:
            split.add(self._new.popleft())
        while split and self._landed:
            yield from split.take(self._landed.popleft())
        if split:
            yield from split.rest(0 if failed else keep)
        while self._new:
            step = self._new.popleft()
            yield step, step.got_ns - step.start_ns

    # -- the thread that asks -----------------------------------------------------------------------

    def _run(self) -> None:
        with fails_open(self._without_gpu):
            probe = self._make_probe()
            readings = sorted(self._read(probe) for _ in range(_READINGS))
            idle_ns = readings[_COUNTS]
            self._note(f"an idle GPU answers after {idle_ns / 1e6:.2f} ms")
            self._split = Split(idle_ns)
            while self._asked.get():
                while not self._asked.empty():
                    self._asked.get()
                if not self._stopping.is_set():
                    self._ask(probe)

    def _without_gpu(self, why: str) -> None:
        self.failed = True
        self._note(f"the GPU cannot be asked ({why}): a fetch that blocks counts as data wait")

    def _read(self, probe: Callable[[], int]) -> int:
        asked_ns = self._now_ns()
        return probe() - asked_ns

    def _ask(self, probe: Callable[[], int]) -> None:
        fetching = self._fetching
        if self._fed and fetching and fetching[0] % _EVERY:
            self._stopping.wait(SHORT_NS / 1e9)
        if fetching is None or self._fetching is not fetching:
            return
        asked_ns = self._now_ns()
        self._landed.append(Landing(*fetching, asked_ns, probe()))


def may_ask() -> bool:
    """Whether asking is safe and would tell.

    TensorFlow must have taken its devices already: to ask would take them, and the user may not want that yet. With
    asynchronous eager execution a thread's work is queued out of sight of every other thread.
    """
    ready = getattr(context.context(), "_initialized", False)
    return bool(ready) and tf.executing_eagerly() and bool(tf.config.experimental.get_synchronous_execution())


def make_marker(writer: RunWriter, device: str = "/GPU:0") -> Callable[[], int]:
    """A function that waits until the work on a device is done, and says when that was, nanoseconds on the run's clock.

    It copies four bytes to the host, on a stream of its own: TensorFlow does that once all is done that was launched
    before. Call it on a thread of its own, where neither a graph nor a device scope of the user's is open.
    """
    clock = find_clock(writer)
    with tf.device(device):
        value = tf.zeros(())

    def read(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(device):
            there = tf.identity(value)
        with tf.device("/CPU:0"):
            # No identity: the optimizer would take it away, and with it what the clock waits for.
            here = tf.raw_ops.DeepCopy(x=there)
            with tf.control_dependencies([here]):
                return clock.read(), here

    # The clock is read in the graph: Python's lock, which a generator may hold, is not waited for.
    landed = tf.function(read, autograph=False).get_concrete_function(value)

    def mark() -> int:
        at_s = landed(value)[0].numpy()
        return int(at_s * 1e9) + offset_ns(writer.now_ns, clock.now_ns)

    mark()
    return mark
