"""Sample the training thread's Python: by callback and line, where its time goes outside compute.

A sample stands for the time since the poll before, so that a poll that Python's lock holds up
counts whole. A thread that waits for this lock gets it after 5 ms, or once another one waits for
TensorFlow: so a poll that is due in a callback of 4 ms of plain Python comes in the data wait
behind it, and is blind. The poll after a blind one asks for the lock after 0.5 ms.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tfwatch.core.events import CodeSample, CodeSampled
from tfwatch.core.rows import Phase
from tfwatch.sensors.running_code import RunningCode, code_of_training, codes_of_data

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from tfwatch.runs.writer import RunWriter, Status

#: The mean interval of the polls. One wakes in 80 us of CPU, and a sample takes half of that: more
#: of them would cost over 0.3 % of a core.
EVERY_MS: Final = 40.0
#: After how long a poll that follows a blind one asks for Python's lock.
_QUICK_S = 0.0005
#: A poll is blind if it is so late, and the training began to wait for data so shortly before it.
_LATE_NS, _JUST_NS = 500_000, 1_000_000
#: The interval of the events, and the shortest at the end of an epoch.
_WRITE_NS = 5_000_000_000
_WRITE_EPOCH_NS = 1_000_000_000
_MOST_SAMPLES = 12
BETWEEN_FITS: Final = "BETWEEN_FITS"
#: In these phases a frame says nothing: TensorFlow computes.
_COMPUTES = (Phase.COMPUTE, Phase.COMPILE, Phase.ENDED)
#: A call that lasts longer may hang in Python that TensorFlow calls.
_HANGS_NS = 2_000_000_000
#: The age from which the pulse names the code of a phase.
_NAMED_NS = {
    Phase.HOST: 10_000_000,
    Phase.EPOCH_END: 10_000_000,
    Phase.WAIT: _HANGS_NS,
    Phase.COMPUTE: _HANGS_NS,
}


#: Of blind polls.
_BLIND = ("", RunningCode())


class CodeSampler:
    """Takes a sample with each call of `poll`, all in one thread, and writes their sums.

    newest: the code of the last sample, and the `since_ns` of its phase.
    """

    def __init__(self, writer: RunWriter) -> None:
        self.newest = (0, RunningCode())
        self._writer = writer
        self._polled_ns = self._written_ns = writer.now_ns()
        self._epoch = 0
        self._spent_ns: Counter[tuple[str, RunningCode]] = Counter()
        self._due_ns = self._polled_ns
        self._is_blind = False
        self._jitter = random.Random()

    def wait(self, stopping: threading.Event) -> bool:
        """Wait for the next poll; return whether to stop.

        Polls at even intervals would meet steps of that length always in the same part.
        """
        seconds = self._jitter.uniform(0.5, 1.5) * EVERY_MS / 1e3
        self._due_ns = self._writer.now_ns() + round(seconds * 1e9)
        with _quick_lock(self._is_blind):
            return stopping.wait(seconds)

    def skip(self) -> None:
        """Leave out the time since the last poll: the process was stopped."""
        self._polled_ns = self._writer.now_ns()

    def poll(self) -> None:
        """Take a sample if the phase is one of Python."""
        status, now_ns = self._writer.status, self._writer.now_ns()
        passed_ns, self._polled_ns = now_ns - self._polled_ns, now_ns
        self._is_blind = self._came_after_python(status, now_ns)
        if self._is_blind:
            self._spent_ns[_BLIND] += passed_ns
        elif status[0] not in _COMPUTES:
            self._sample(status, passed_ns)
        elif status[0] is Phase.COMPUTE and now_ns - status[1] >= _HANGS_NS:
            self._keep(status, codes_of_data())
        self._name(status, now_ns)
        self._write_if_due(now_ns, status[3])

    def _came_after_python(self, status: Status, now_ns: int) -> bool:
        """Return whether the training held Python's lock as the poll was due, and waits now."""
        phase, since_ns, *_ = status
        is_late = now_ns - self._due_ns > _LATE_NS
        return is_late and phase is Phase.WAIT and self._due_ns < since_ns > now_ns - _JUST_NS

    def _sample(self, status: Status, passed_ns: int) -> None:
        name = BETWEEN_FITS if self._writer.is_between_fits else status[0].name
        codes = codes_of_data() if status[0] is Phase.WAIT else []
        codes = codes or [code_of_training(self._writer.training_thread)]
        if self._keep(status, codes):
            for code in codes:
                self._spent_ns[name, code] += passed_ns // len(codes)

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

    def _write_if_due(self, now_ns: int, epoch: int) -> None:
        has_ended, self._epoch = epoch != self._epoch, epoch
        if now_ns - self._written_ns >= (_WRITE_EPOCH_NS if has_ended else _WRITE_NS):
            self.write()

    def write(self) -> None:
        """Write the sums since the last event; any thread may call it."""
        spent_ns, self._spent_ns = self._spent_ns, Counter()
        _spread_blind(spent_ns)
        self._written_ns = self._writer.now_ns()
        samples = [
            CodeSample(phase, code.callback, code.call, code.place, round(ns / 1e6 / EVERY_MS))
            for (phase, code), ns in spent_ns.most_common(_MOST_SAMPLES)
        ]
        samples = [sample for sample in samples if sample.samples]
        if samples:
            self._writer.event(CodeSampled(self._written_ns, EVERY_MS, samples))


def _spread_blind(spent_ns: Counter[tuple[str, RunningCode]]) -> None:
    """Spread the time of blind polls over the places that were seen in host time."""
    blind_ns = spent_ns.pop(_BLIND, 0)
    seen = {key: ns for key, ns in spent_ns.items() if key[0] == Phase.HOST.name}
    seen = seen or {(Phase.HOST.name, RunningCode()): 1}
    total_ns = sum(seen.values())
    spent_ns.update({key: round(blind_ns * ns / total_ns) for key, ns in seen.items()})


@contextmanager
def _quick_lock(is_needed: bool) -> Iterator[None]:
    """Have threads that wait for Python's lock ask for it sooner."""
    usual_s = sys.getswitchinterval()
    if not is_needed or usual_s <= _QUICK_S:
        yield
        return
    sys.setswitchinterval(_QUICK_S)
    try:
        yield
    finally:
        if sys.getswitchinterval() == _QUICK_S:  # else the training has set another one
            sys.setswitchinterval(usual_s)
