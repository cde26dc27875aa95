"""Pauses of the training thread: callbacks, and stops of the whole process.

Keras has no hook around a callback: its name is that of the samples. A process is stopped by
SIGSTOP, by ctrl+z, or with its virtual machine.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock, RateLimit
from tfwatch.core.errors import fails_open
from tfwatch.core.events import Paused, SensorMissing
from tfwatch.core.rows import Phase
from tfwatch.sensors.code_sampler import CodeSampler

if TYPE_CHECKING:
    from tfwatch.runs.writer import RunWriter

#: The age from which the callback of a phase is a pause.
_LASTS_NS = 10_000_000
#: Shorter pauses are not spikes.
LEAST_MS = 15.0
#: Pauses of one name: this many are reported in a row, then one a second, and those that are this
#: many times as long as the last reported one.
_IN_A_ROW = 20.0
_LONGER = 2.0
_POLLED = (Phase.HOST, Phase.EPOCH_END)
_SAVERS = ("Checkpoint", "BackupAndRestore")


class PauseDetector:
    """The thread that samples the training's Python and detects pauses, from `start` to `stop`."""

    def __init__(self, writer: RunWriter, clock: Clock = SYSTEM) -> None:
        self._writer = writer
        self._clock = clock
        self._code = CodeSampler(writer)
        self._callbacks = CallbackTimes(writer, self._code)
        self._stops = StopDetector(writer, clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfwatch-pauses", daemon=True)

    def start(self) -> None:
        """Start the thread; an event reports where the system cannot start one."""
        self._writer.before_end = self._code.write
        try:
            self._thread.start()
        except RuntimeError as error:
            self._report(f"the thread cannot start: {error}")

    def stop(self) -> None:
        """End the thread. A second call does nothing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _run(self) -> None:
        with fails_open(self._report):
            while not self._code.wait(self._stopping):
                if self._stops.poll():
                    self._code.skip()
                self._code.poll()
                self._callbacks.poll()

    def _report(self, why: str) -> None:
        self._writer.event(
            SensorMissing(self._writer.now_ns(), "callbacks", why, "the next run tries again")
        )


class CallbackTimes:
    """Times the callbacks that the sampler sees, between calls of `poll`."""

    def __init__(self, writer: RunWriter, sampler: CodeSampler) -> None:
        self._writer = writer
        self._sampler = sampler
        self._last: dict[str, tuple[Paused, RateLimit]] = {}
        self._since_ns = -1
        self._name = ""
        #: The user's line that it ran last; empty where none was seen.
        self._place = ""
        self._begin_ns = 0

    def poll(self) -> None:
        """Check once, after the sampler's poll."""
        phase, since_ns, *_ = self._writer.status
        now_ns = self._writer.now_ns()
        sampled_ns, code = self._sampler.newest
        is_seen = phase in _POLLED and sampled_ns == since_ns
        name = code.callback if is_seen and now_ns - since_ns >= _LASTS_NS else ""
        if (since_ns, name) == (self._since_ns, self._name):
            self._place = (code.place if name else "") or self._place
            return
        self._close(now_ns if since_ns == self._since_ns else since_ns)
        self._begin_ns = now_ns if since_ns == self._since_ns and self._name else since_ns
        self._since_ns, self._name = since_ns, name
        self._place = code.place if name else ""

    def _close(self, end_ns: int) -> None:
        """Write the pause if it is long enough and the limit of its name allows it."""
        took_ms = (end_ns - self._begin_ns) / 1e6
        if not self._name or took_ms < LEAST_MS:
            return
        cause = "checkpoint" if any(word in self._name for word in _SAVERS) else "callback"
        pause = Paused(end_ns, cause, took_ms, self._name, self._place)
        last, limit = self._last.get(self._name, (pause, RateLimit(_IN_A_ROW, per_s=1.0)))
        if limit.take(end_ns) or took_ms >= _LONGER * last.took_ms:
            self._last[self._name] = pause, limit
            self._writer.event(pause)


#: A poll that comes so long after the one before was held up by a stop or by Python's lock.
LEAST_NS = 500_000_000
#: A stopped process uses no CPU: its share after a stop, from waking up, is less than this.
_CPU_SHARE = 0.02
#: The part of the step, as text.
_WHERE = {Phase.WAIT: "in data wait", Phase.COMPUTE: "in compute", Phase.HOST: "in host"}


class StopDetector:
    """Detects stops between calls of `poll` and writes `Paused` events; `detail` is the part of the
    step."""

    def __init__(self, writer: RunWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._now_ns, self._cpu_ns = clock.now_ns(), clock.process_ns()

    def poll(self) -> bool:
        """Return whether the process was stopped since the last call."""
        now_ns, cpu_ns = self._clock.now_ns(), self._clock.process_ns()
        gap_ns, used_ns = now_ns - self._now_ns, cpu_ns - self._cpu_ns
        self._now_ns, self._cpu_ns = now_ns, cpu_ns
        was_stopped = gap_ns >= LEAST_NS and used_ns < _CPU_SHARE * gap_ns
        if was_stopped:
            where = _WHERE.get(self._writer.status[0], "")
            self._writer.event(
                Paused(self._writer.now_ns(), "process stopped", gap_ns / 1e6, where)
            )
        return was_stopped
