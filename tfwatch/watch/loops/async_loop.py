"""Measure the data wait of a loop that launches GPU work asynchronously.

A custom loop need not pull metrics: its thread fetches the next batch while the GPU still computes,
and a fetch that blocks is data wait only once the GPU has no work left. So at every fetch another
thread probes when the work launched before it is done. The training thread never waits for the GPU.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open
from tfwatch.watch.session import call_at_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import tensorflow as tf

    from tfwatch.runs.writer import RunWriter

#: Probes of an idle GPU at the start, and the index of the one that counts: the user's work may
#: delay some.
_IDLE_PROBES, _IDLE_INDEX = 12, 3
#: A probe that takes longer than two of an idle GPU plus this waited for work.
_SLACK_NS = 100_000
#: After a fetch shorter than this, the next is probed once it lasts as long; every eighth is probed
#: at once.
SHORT_NS = 300_000
_EVERY = 8
#: A probe reports the end of work later than it returns from an idle GPU, by so much. On an H200,
#: in 40 loops of 10 to 60 ms/step, the data wait is then 1.3 points of wall clock below to 2.5
#: above that of the device trace.
_READ_DELAY_NS = 300_000
#: The largest number of steps that wait for a probe.
_MAX_WAITING = 4096
_JOIN_S = 1.0
#: Seconds that the end of the process waits for the thread to leave TensorFlow: of 7 processes that
#: ended while it still ran a TensorFlow function, on two CPU cores, 5 crashed with a segmentation
#: fault.
_LEAVE_S = 60.0


@dataclass(slots=True, eq=False)
class LoopStep:
    """A step: its fetch from `start_ns` to `got_ns`, and its body until `end_ns`.

    probed_ns: the start of the probe of its fetch. completed_ns: the end of the work launched
    before, as the probe reports it; None where it was not probed.
    """

    step: int
    start_ns: int
    got_ns: int = 0
    end_ns: int = 0
    epoch: int = 0
    flags: int = 0
    probed_ns: int = 0
    completed_ns: int | None = None


class GpuProbe:
    """The thread that probes the GPU, and the steps that wait for its probes. It gives them back in
    order, each with its data wait in nanoseconds.

    The GPU starves while a fetch blocks and no launched work is left. The idle time after the batch
    is there, until it is launched, is not data wait.

    make_probe: called on the thread, returns a function that waits for the GPU and returns when its
    work was done, on the clock of `now_ns`. note: receives one sentence. failed: the GPU cannot be
    probed, and a fetch that blocks counts as data wait. idle_ns: the duration of a probe of an idle
    GPU; None until it is known.
    """

    def __init__(
        self,
        make_probe: Callable[[], Callable[[], int]],
        now_ns: Callable[[], int],
        note: Callable[[str], None],
    ) -> None:
        self.failed = False
        self.idle_ns: int | None = None
        self._make_probe = make_probe
        self._now_ns = now_ns
        self._note = note
        self._fetching: LoopStep | None = None
        self._was_last_fetch_short = False
        self._is_idle = True
        self._waiting: deque[LoopStep] = deque()
        self._probed_ns = -1
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-gpu-probe", daemon=True)
        self._forget: Callable[[], None] = lambda: None

    # -- the training thread ----------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._forget = call_at_exit(lambda: self._leave(_LEAVE_S))

    def begin_fetch(self, step: LoopStep) -> None:
        """Record that the fetch of a step's batch begins."""
        self._fetching = step
        if not self.failed:
            self._requests.put(True)

    def end_fetch(self, step: LoopStep) -> None:
        """Record that the batch is there."""
        self._fetching = None
        self._was_last_fetch_short = step.got_ns - step.start_ns < SHORT_NS

    def finish_step(self, step: LoopStep) -> Iterator[tuple[LoopStep, int]]:
        """Add a finished step; return the steps whose data wait is known by now: those up to the
        newest probe."""
        self._waiting.append(step)
        return self._steps_ready(_MAX_WAITING)

    def rest(self) -> Iterator[tuple[LoopStep, int]]:
        """Return the remaining steps by the probes so far, at the end of a loop."""
        self._fetching = None
        return self._steps_ready(0)

    def stop(self) -> Iterator[tuple[LoopStep, int]]:
        """End the thread; return the remaining steps. Only the end of the process waits for a busy
        GPU."""
        self._leave(_JOIN_S)
        yield from self._steps_ready(0)

    def _leave(self, timeout_s: float) -> None:
        self._stopping.set()
        self._requests.put(False)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._forget()

    def _steps_ready(self, keep: int) -> Iterator[tuple[LoopStep, int]]:
        waiting, until_ns = self._waiting, self._probed_ns
        while waiting and (waiting[0].start_ns <= until_ns or len(waiting) > keep or self.failed):
            step = waiting.popleft()
            yield step, self._wait_ns(step)

    def _wait_ns(self, step: LoopStep) -> int:
        """Return the data wait. A step that was not probed had a short fetch, or its fetch ended
        before the GPU finished earlier work: it is as the last probe found the GPU."""
        if self.failed or self.idle_ns is None:
            return step.got_ns - step.start_ns
        if step.completed_ns is not None:
            took_ns = step.completed_ns - step.probed_ns
            self._is_idle = took_ns <= 2 * self.idle_ns + _SLACK_NS
            if not self._is_idle:
                idle_from_ns = step.completed_ns - self.idle_ns - _READ_DELAY_NS
                return max(0, step.got_ns - max(step.start_ns, idle_from_ns))
        return step.got_ns - step.start_ns if self._is_idle else 0

    # -- the probing thread -----------------------------------------------------------------------

    def _run(self) -> None:
        with fails_open(self._without_gpu):
            probe = self._make_probe()
            readings = []
            for _ in range(_IDLE_PROBES):
                probed_ns = self._now_ns()
                readings.append(probe() - probed_ns)
            self.idle_ns = sorted(readings)[_IDLE_INDEX]
            self._note(f"a probe of an idle GPU takes {self.idle_ns / 1e6:.2f} ms")
            while self._requests.get():
                while not self._requests.empty():
                    self._requests.get()
                if not self._stopping.is_set():
                    self._probe(probe)

    def _without_gpu(self, why: str) -> None:
        self.failed = True
        self._note(f"the GPU cannot be probed ({why}): every fetch that blocks counts as data wait")

    def _probe(self, probe: Callable[[], int]) -> None:
        step = self._fetching
        if self._was_last_fetch_short and step and step.step % _EVERY:
            self._stopping.wait(SHORT_NS / 1e9)
        if step is not None and self._fetching is step:
            probed_ns = self._now_ns()
            self.complete(step, probed_ns, probe())

    def complete(self, step: LoopStep, probed_ns: int, completed_ns: int) -> None:
        """Record a probe of the fetch of a step."""
        step.probed_ns, step.completed_ns = probed_ns, completed_ns
        self._probed_ns = step.start_ns


def can_probe_gpu() -> bool:
    """Return whether a probe is safe and sees the work.

    TensorFlow must have initialized its devices: a probe would initialize them, maybe too early for
    the user. With asynchronous eager execution the work of a thread is in a queue that no other
    thread sees.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    ready = getattr(context.context(), "_initialized", False)
    return (
        bool(ready)
        and tf.executing_eagerly()
        and bool(tf.config.experimental.get_synchronous_execution())
    )


def make_completion_probe(writer: RunWriter, device: str = "/GPU:0") -> Callable[[], int]:
    """Return a function that waits for the work on a device and returns its end, nanoseconds on the
    run's clock.

    It copies four bytes to the host on another stream, which TensorFlow does after all work
    launched before. Call it on a thread of its own, where no graph or device scope of the user is
    open.
    """
    import tensorflow as tf

    from tfwatch.watch.fit.stepping.fused_steps import clock_offset_ns, find_clock

    clock = find_clock(writer.clock)
    with tf.device(device):
        value = tf.zeros(())

    def read(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(device):
            there = tf.identity(value)
        with tf.device("/CPU:0"):
            # Not an identity: the optimizer would remove it, and the clock would not wait.
            here = tf.raw_ops.DeepCopy(x=there)
            with tf.control_dependencies([here]):
                return clock.read(), here

    # The graph reads the clock: it does not wait for the GIL, which a generator may hold.
    probed = tf.function(read, autograph=False).get_concrete_function(value)

    def probe() -> int:
        at_s = probed(value)[0].numpy()
        return int(at_s * 1e9) + clock_offset_ns(writer.now_ns, clock.now_ns)

    probe()
    return probe
