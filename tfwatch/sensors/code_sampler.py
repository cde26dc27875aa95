"""Sample the training thread's Python: by callback and line, where its time goes outside compute.

A sample stands for the time since the poll before, so that a poll that Python's lock holds up
counts whole.

A thread that waits for this lock gets it after 5 ms, or once the thread that has it sleeps, reads
or waits for TensorFlow: a poll that is due in a callback of 4 ms of plain Python comes in the data
wait behind it, and one that is due in a generator's loop comes in its `read`. Such a poll is late,
and its time is spread over the places that others see. The next poll asks for the lock after
0.5 ms: for the whole of its wait where no other thread of the training wants it, else for its last
2 ms.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from tfwatch.core.clock import RateLimit
from tfwatch.core.events import CodeSample, CodeSampled, StallLocated
from tfwatch.core.rows import Phase
from tfwatch.sensors.running_code import (
    RunningCode,
    code_of_training,
    codes_of_data,
    is_alone_in_python,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping

    from tfwatch.core.clock import Clock
    from tfwatch.runs.writer import RunWriter, Status

#: The shortest and the longest mean interval of the polls, and the share of a core that they take.
#: A poll wakes in 20 to 100 us of CPU, and a sample takes as much again.
_LEAST_S, _MOST_S = 0.025, 0.2
_SHARE = 0.0022
_POLLS_OF_PACE = 20
#: After how long a poll that follows a late one asks for Python's lock, and for how long at most
#: where other threads want it.
_QUICK_S, _LOOK_S = 0.0005, 0.002
#: A poll is late by so much, and one that asks sooner by so much; in a data wait that is so young
#: it was due in the step before.
_LATE_NS, _QUICK_LATE_NS, _JUST_NS = 200_000, 1_000_000, 1_000_000
#: Python's own interval, with some slack: a poll that is later was held up by a function in C.
_HELD_NS = 7_000_000
#: The interval of the events, and the shortest at the end of an epoch.
_WRITE_NS = 5_000_000_000
_WRITE_EPOCH_NS = 1_000_000_000
_MOST_SAMPLES = 12
_MOST_KNOWN = 50
#: So many late polls without another thread's Python, and the next one is quick for long.
_LEAST_ALONE = 2
BETWEEN_FITS: Final = "BETWEEN_FITS"
FIRST_BATCH: Final = "FIRST_BATCH"
#: In these phases a frame says nothing: TensorFlow computes.
_COMPUTES = (Phase.COMPUTE, Phase.COMPILE, Phase.ENDED)
_BEFORE_EPOCH = (Phase.HOST, Phase.EPOCH_END)
#: A call that lasts longer may hang in Python that TensorFlow calls.
_HANGS_NS = 2_000_000_000
#: The age from which the pulse names the code of a phase.
_NAMED_NS = {
    Phase.HOST: 10_000_000,
    Phase.EPOCH_END: 10_000_000,
    Phase.WAIT: _HANGS_NS,
    Phase.COMPUTE: _HANGS_NS,
}
#: A data wait that lasts longer is a stall, which keeps the line that it waits for. So many events
#: of it in a row, and a second on average.
_STALL_NS = 500_000_000
_STALLS, _STALLS_PER_S = 20, 0.2
#: A phase, `BETWEEN_FITS` or `FIRST_BATCH`, and the code that runs.
Place: TypeAlias = tuple[str, RunningCode]


class CodeSampler:
    """Takes a sample with each call of `poll`, all in one thread, and writes their sums.

    newest: the code of the last sample, and the `since_ns` of its phase.
    """

    def __init__(self, writer: RunWriter) -> None:
        self.newest = (0, RunningCode())
        self._writer = writer
        self._polled_ns = self._written_ns = writer.now_ns()
        self._due_ns = self._late_ns = self._polled_ns
        self._epoch = 0
        self._sums = Sums()
        #: Known to be between two fits once the next one begins.
        self._between: Counter[Place] = Counter()
        self._pace = Pace(writer.clock)
        self._is_late = self._is_quick = False
        self._alone = 0
        self._stalled_ns = 0
        self._stall_limit = RateLimit(_STALLS, _STALLS_PER_S)

    def wait(self, stopping: threading.Event) -> bool:
        """Wait for the next poll; return whether to stop."""
        is_alone = self._alone >= _LEAST_ALONE
        if self._wait(stopping, self._pace.next_s(), self._is_late and is_alone):
            return True
        if self._is_late and not is_alone:
            return self._wait(stopping, self._pace.part(_LOOK_S), True)
        return False

    def _wait(self, stopping: threading.Event, seconds: float, is_quick: bool) -> bool:
        self._due_ns = self._writer.now_ns() + round(seconds * 1e9)
        self._is_quick = is_quick
        self._late_ns = self._due_ns + (_QUICK_LATE_NS if is_quick else _LATE_NS)
        with _quick_lock(is_quick):
            return stopping.wait(seconds)

    def skip(self) -> None:
        """Leave out the time since the last poll: the process was stopped."""
        self._polled_ns = self._writer.now_ns()

    def poll(self) -> None:
        """Take a sample if the phase is one of Python."""
        status, now_ns = self._writer.status, self._writer.now_ns()
        passed_ns, self._polled_ns = now_ns - self._polled_ns, now_ns
        self._sums.count(passed_ns)
        if self._between and not self._writer.is_between_fits:
            self._sums.seen.update(self._between)
            self._between.clear()
        self._is_late = False
        # The body of a loop of the script's own is compute, its Python included.
        is_compute = status[0] is Phase.COMPUTE
        if status[0] is Phase.WAIT:
            self._sample_wait(status, now_ns, passed_ns)
        elif status[0] not in _COMPUTES or (is_compute and self._writer.manifest().loop):
            self._sample(status, now_ns, passed_ns)
        elif is_compute and now_ns - status[1] >= _HANGS_NS:
            self._keep(status, codes_of_data())
        self._name(status, now_ns)
        has_ended, self._epoch = status[3] != self._epoch, status[3]
        if now_ns - self._written_ns >= (_WRITE_EPOCH_NS if has_ended else _WRITE_NS):
            self.write()

    def _sample(self, status: Status, now_ns: int, passed_ns: int) -> None:
        # A validation waits for its data, too, and a long call for the Python that it calls.
        hangs = status[0] is Phase.COMPUTE and now_ns - status[1] >= _HANGS_NS
        codes = codes_of_data() if hangs or status[0] is Phase.VALIDATION else []
        codes = codes or [code_of_training(self._writer.training_thread)]
        # Behind a callback a late poll comes in Keras' own code, unless a function in C held it up.
        is_held = self._late_ns < now_ns < self._due_ns + _HELD_NS
        if is_held and status[0] is Phase.HOST and not codes[0].callback:
            self._note_late()
        if self._keep(status, codes):
            name = self._phase_name(status, codes[0])
            self._add(name, codes, passed_ns, is_hidden=self._is_late)

    def _phase_name(self, status: Status, code: RunningCode) -> str:
        phase, _, _, epoch, _ = status
        if self._writer.is_between_fits:
            return BETWEEN_FITS
        # The status is still that of the epoch before, whose iterator `fit` deletes first.
        if phase in _BEFORE_EPOCH and epoch != self._writer.epoch:
            return FIRST_BATCH
        if phase is Phase.COMPUTE and not (code.in_tensorflow or code.for_data):
            return Phase.HOST.name
        return phase.name

    def _sample_wait(self, status: Status, now_ns: int, passed_ns: int) -> None:
        phase, since_ns, *_ = status
        codes, is_late = codes_of_data(), now_ns > self._late_ns
        if is_late and not codes and self._due_ns < since_ns > now_ns - _JUST_NS:
            self._note_late()
            self._sums.hidden[Phase.HOST.name, RunningCode()] += passed_ns
            return
        if is_late and codes:
            self._is_late, self._alone = True, 0
        codes = codes or [code_of_training(self._writer.training_thread)]
        if self._keep(status, codes):
            self._add(phase.name, codes, passed_ns, is_hidden=self._is_late)
            self._note_stall(status, codes[0])

    def _note_stall(self, status: Status, code: RunningCode) -> None:
        """Write the line that a long data wait waits for, once a wait."""
        _, since_ns, step, *_ = status
        now_ns = self._writer.now_ns()
        # In `fit` the training thread's own line says nothing.
        is_known = code.place and (code.for_data or code.call != "fit")
        if now_ns - since_ns < _STALL_NS or since_ns == self._stalled_ns or not is_known:
            return
        self._stalled_ns = since_ns
        if self._stall_limit.take(now_ns):
            thread = "generator" if code.for_data else "training"
            event = StallLocated(now_ns, step, "", since_ns, code.place, thread)
            self._writer.event(event)

    def _add(self, phase: str, codes: list[RunningCode], ns: int, *, is_hidden: bool) -> None:
        """Add time in which several threads run."""
        for code in codes:
            self._counter(is_hidden)[phase, code] += ns // len(codes)
            if self._is_quick and not is_hidden:
                self._sums.quick[phase, code] += ns // len(codes)

    def _counter(self, is_hidden: bool) -> Counter[Place]:
        if self._writer.is_between_fits:
            return self._between
        return self._sums.hidden if is_hidden else self._sums.seen

    def _note_late(self) -> None:
        """Note that the training thread held the lock as this poll was due."""
        self._is_late = True
        is_alone = is_alone_in_python(self._writer.training_thread)
        self._alone = self._alone + 1 if is_alone else 0

    def _keep(self, status: Status, codes: list[RunningCode]) -> bool:
        """Return False where the training went on: the frames may belong to another phase."""
        if self._writer.status is not status:
            return False
        self.newest = status[1], codes[0] if codes else RunningCode()
        return True

    def _name(self, status: Status, now_ns: int) -> None:
        """Name a long phase's callback, or the Python that TensorFlow calls, in the pulse."""
        phase, since_ns, *_ = status
        sampled_ns, code = self.newest
        if sampled_ns == since_ns and now_ns - since_ns >= _NAMED_NS.get(phase, now_ns + 1):
            between = phase in (Phase.HOST, Phase.EPOCH_END)
            text = code.callback if between else code.function if code.for_data else ""
            self._writer.current_code = since_ns, text

    def write(self) -> None:
        """Write the sums since the last event; any thread may call it."""
        sums = self._sums
        self._sums = Sums(sums)
        self._written_ns = self._writer.now_ns()
        if samples := sums.samples():
            self._writer.event(CodeSampled(self._written_ns, sums.every_ms, samples))


class Sums:
    """Nanoseconds by place since the last event.

    seen: of polls in time. hidden: of late ones, by the place where they came. quick: of those that
    asked for the lock sooner, since the run began: they show what the late ones do not.
    """

    def __init__(self, before: Sums | None = None) -> None:
        self.seen: Counter[Place] = Counter()
        self.hidden: Counter[Place] = Counter()
        self.quick: Counter[Place] = Counter()
        if before:
            self.quick.update(dict(before.quick.most_common(_MOST_KNOWN)))
        self._polls = self._covered_ns = 0

    def count(self, passed_ns: int) -> None:
        """Count a poll, and the time since the one before."""
        self._polls += 1
        self._covered_ns += passed_ns

    @property
    def every_ms(self) -> float:
        """The mean interval of the polls."""
        return self._covered_ns / 1e6 / max(self._polls, 1)

    def samples(self) -> list[CodeSample]:
        """Return the most frequent places."""
        every_ns = self.every_ms * 1e6
        found = (
            CodeSample(phase, code.callback, code.call, code.place, round(ns / every_ns))
            for (phase, code), ns in self._total().most_common(_MOST_SAMPLES)
        )
        return [sample for sample in found if sample.samples]

    def _total(self) -> Counter[Place]:
        """Spread hidden time over the places that were seen in the same phase."""
        total = Counter(self.seen)
        for place, ns in self.hidden.items():
            like = _like(place, self.quick) or _like(place, self.seen) or {place: 1}
            whole_ns = sum(like.values()) or 1
            total.update({one: ns * part // whole_ns for one, part in like.items()})
        return total


def _like(place: Place, sums: Mapping[Place, int]) -> dict[Place, int]:
    """Return the sums of the same phase, and of the same kind of thread."""
    phase, code = place
    return {
        other: ns
        for other, ns in sums.items()
        if other[0] == phase and other[1].for_data == code.for_data
    }


class Pace:
    """The intervals of the polls, by what they cost.

    Even intervals would meet steps of that length always in the same part: they vary.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jitter = random.Random()
        self._mean_s = _LEAST_S
        self._spent_ns: int | None = None

    def next_s(self) -> float:
        """Return the seconds to the next poll; called once a poll, in its thread."""
        before_ns, self._spent_ns = self._spent_ns, self._clock.thread_ns()
        if before_ns is not None:
            mean_s = (self._spent_ns - before_ns) / 1e9 / _SHARE
            self._mean_s += (min(max(mean_s, _LEAST_S), _MOST_S) - self._mean_s) / _POLLS_OF_PACE
        return self._mean_s * self._jitter.uniform(0.5, 1.5)

    def part(self, seconds: float) -> float:
        """Return up to so many seconds."""
        return self._jitter.uniform(0.0, seconds)


#: The usual interval of Python's lock, while it is another one.
_usual_s: list[float] = []


@contextmanager
def _quick_lock(is_needed: bool) -> Iterator[None]:
    """Have threads that wait for Python's lock ask for it sooner."""
    usual_s = sys.getswitchinterval()
    if not is_needed or usual_s <= _QUICK_S:
        yield
        return
    _usual_s[:] = [usual_s]
    sys.setswitchinterval(_QUICK_S)
    try:
        yield
    finally:
        _restore()


def _restore() -> None:
    """Set the usual interval again, unless the training has set another one."""
    if _usual_s and sys.getswitchinterval() == _QUICK_S:
        sys.setswitchinterval(_usual_s[0])
    _usual_s.clear()


os.register_at_fork(after_in_child=_restore)
