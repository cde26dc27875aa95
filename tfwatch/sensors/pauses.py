"""Pauses of the training thread: callbacks, garbage collections, and stops of the whole process.

Why the training thread pauses: the callback it is in, and garbage collections.

Keras has no hook around a callback, so the training thread's frame is looked at from a thread of its own, and only
while what follows a step lasts longer than usual Python does.

Whether the process was stopped for a while: by SIGSTOP or ctrl+z, or with its virtual machine.
"""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.events import Paused, SensorMissing
from tfwatch.core.rows import Phase
from tfwatch.core.threads import thread_frames

if TYPE_CHECKING:
    from types import FrameType

    from tfwatch.runs.writer import RunWriter

#: How often the thread looks, and how long a phase has lasted by then: a spike of 30 ms is seen at least once. At 10 ms
#: the looking took 0.6 % of a core, more than all sensors.
LOOK_S = 0.016
_LASTS_NS = 10_000_000
#: Shorter pauses are no spikes.
LEAST_MS = 15.0
#: Pauses of one name: so many are told in a row and one a second from then on, besides those that are this many
#: times as long as the last one told.
_IN_A_ROW = 20.0
_LONGER = 2.0
_LOOKED_AT = (Phase.HOST, Phase.EPOCH_END)
_SAVERS = ("Checkpoint", "BackupAndRestore")


class Pauses:
    """The thread that looks, from `start` to `stop`."""

    def __init__(self, writer: RunWriter, clock: Clock = SYSTEM) -> None:
        self.cpu_ns = 0
        self._writer = writer
        self._clock = clock
        self._callbacks = CallbackTimes(writer)
        self._collections = Collections(writer)
        self._stops = Stops(writer, clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-pauses", daemon=True)

    def start(self) -> None:
        """Begin to look. Where the system gives no more threads, the run says so."""
        gc.callbacks.append(self._collections)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._tell(f"nobody reads it: {error}")

    def stop(self) -> None:
        """End the thread. A second call does nothing."""
        if self._collections in gc.callbacks:
            gc.callbacks.remove(self._collections)
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _run(self) -> None:
        with fails_open(self._tell):
            while not self._stopping.wait(LOOK_S):
                self._callbacks.look()
                self._stops.look()
                self.cpu_ns = self._clock.thread_ns()

    def _tell(self, why: str) -> None:
        self._writer.event(SensorMissing(self._writer.now_ns(), "callbacks", why, "the next run tries again"))


class CallbackTimes:
    """Tells, from one `look` to the next, which callback the training thread is in and how long it took."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._told = Told(writer)
        self._since_ns = -1
        self._name = ""
        self._begin_ns = 0

    def look(self) -> None:
        """Look once."""
        phase, since_ns, *_ = self._writer.status
        now_ns = self._writer.now_ns()
        lasts = phase in _LOOKED_AT and now_ns - since_ns >= _LASTS_NS
        name = callback_name(self._writer.training_thread) if lasts else ""
        if self._writer.status[1] != since_ns:
            return  # the training went on meanwhile: the frame may be of what followed
        if (since_ns, name) == (self._since_ns, self._name):
            return
        self._close(now_ns if since_ns == self._since_ns else since_ns)
        self._begin_ns = now_ns if since_ns == self._since_ns and self._name else since_ns
        self._since_ns, self._name = since_ns, name
        self._writer.current_callback = (since_ns, name)

    def _close(self, end_ns: int) -> None:
        if self._name:
            cause = "checkpoint" if any(word in self._name for word in _SAVERS) else "callback"
            self._told.tell(Paused(end_ns, cause, (end_ns - self._begin_ns) / 1e6, self._name))


class Collections:
    """A `gc.callbacks` entry that times the collections. The youngest generation is too small to pause anything."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._told = Told(writer)
        self._begin_ns = 0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if not info.get("generation"):
            return
        if phase == "start":
            self._begin_ns = self._writer.now_ns()
        elif self._begin_ns:
            now_ns = self._writer.now_ns()
            took_ms = (now_ns - self._begin_ns) / 1e6
            self._told.tell(Paused(now_ns, "garbage collection", took_ms, f"generation {info['generation']}"))


class Told:
    """Keeps a pause that comes with every step from filling the disk."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._last: dict[str, tuple[Paused, float]] = {}

    def tell(self, pause: Paused) -> None:
        """Write it, where it is long enough and news."""
        if pause.took_ms < LEAST_MS:
            return
        last, left = self._last.get(pause.detail, (pause, _IN_A_ROW))
        left = min(left + (pause.at_ns - last.at_ns) / 1e9, _IN_A_ROW)
        if left < 1 and pause.took_ms < _LONGER * last.took_ms:
            return
        self._last[pause.detail] = pause, max(left - 1, 0.0)
        self._writer.event(pause)


def callback_name(thread: int) -> str:
    """The class of the Keras callback that a thread is in; empty where it is in none, or in tfwatch's own."""
    frame: FrameType | None = thread_frames().get(thread)
    name = ""
    while frame is not None:  # the outermost list is the training's: a callback may evaluate with callbacks
        if frame.f_code.co_filename.endswith("callback_list.py"):
            callback = frame.f_locals.get("callback")
            name = type(callback).__name__ if callback is not None else name
        frame = frame.f_back
    return "" if name == "Watch" else name


#: Looks lie a sixtieth of a second apart. One that comes so late was held up, by a stop or by Python's lock;
LEAST_NS = 500_000_000
#: and while a process is stopped, none of its threads gets the CPU. What it took in waking up is less than this share.
_CPU_SHARE = 0.02
#: Where the training thread was, in words.
_WHERE = {Phase.WAIT: "in data wait", Phase.COMPUTE: "in compute", Phase.HOST: "in host"}


class Stops:
    """Tells, from one `look` to the next, of stops as `Paused` events; `detail` says what the training thread did."""

    def __init__(self, writer: RunWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._now_ns, self._cpu_ns = clock.now_ns(), clock.process_ns()

    def look(self) -> None:
        """Look once."""
        now_ns, cpu_ns = self._clock.now_ns(), self._clock.process_ns()
        gap_ns, used_ns = now_ns - self._now_ns, cpu_ns - self._cpu_ns
        self._now_ns, self._cpu_ns = now_ns, cpu_ns
        if gap_ns >= LEAST_NS and used_ns < _CPU_SHARE * gap_ns:
            where = _WHERE.get(self._writer.status[0], "")
            self._writer.event(Paused(self._writer.now_ns(), "process stopped", gap_ns / 1e6, where))
