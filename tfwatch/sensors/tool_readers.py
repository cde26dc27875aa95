"""Reads a tool of the operating system: every few seconds without waiting for it, or as a stream.

A tool that is asked every few seconds, and for which nobody waits.

A tool of the operating system that prints for as long as it is read.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.system_tool import NotStartedError, Result, RunningTool, run, start_long_running
from tfwatch.sensors.protocol import Availability, Available, SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")
#: How long a tool may take, seconds: those asked here take some milliseconds.
PATIENCE_S = 1.0


class Asked(Generic[_T]):
    """What `parse` makes of the output of a tool; None is an output that it does not know.

    argv: the tool's absolute path and its arguments. period_s: how often it is asked.
    """

    def __init__(self, argv: Sequence[str], parse: Callable[[str], _T | None], period_s: float) -> None:
        self._argv = argv
        self._parse = parse
        self._period_ns = round(period_s * 1e9)
        self._running: RunningTool | None = None
        self._asked_ns = -self._period_ns
        self._newest: tuple[int, _T] | None = None

    def available(self, clock: Clock = SYSTEM) -> Availability:
        """Ask once, and wait `PATIENCE_S` at most."""
        now_ns = clock.now_ns()
        try:
            self._newest = now_ns, self._read(run(self._argv, PATIENCE_S))
        except SensorError as error:
            return Unavailable(str(error), fix="")
        return Available()

    def newest(self, now_ns: int) -> tuple[int, _T] | None:
        """The newest answer and when it was asked for; None before there is one. Asks again where that is due.

        Raises:
            SensorError: the newest answer is none; the tool is asked again in the next period.
        """
        if self._running is None:
            if now_ns - self._asked_ns >= self._period_ns:
                self._asked_ns = now_ns
                self._running = RunningTool(self._argv, PATIENCE_S, now_ns)
            return self._newest
        if (result := self._running.poll(now_ns)) is not None:
            self._running, self._newest = None, None
            self._newest = self._asked_ns, self._read(result)
        return self._newest

    def _read(self, result: Result) -> _T:
        tool = os.path.basename(self._argv[0])
        if why := result.failure:
            raise SensorError(f"{tool}: {why}")
        if (read := self._parse(result.out)) is None:
            words = " ".join(result.out.split())[:100]
            raise SensorError(f"{tool} prints {words!r}, which says nothing" if words else f"{tool} prints nothing")
        return read


_PIECE = 2**16
#: What one document may have; the limit of `gpu_powermetrics.documents` is as high.
_MOST_BYTES = 2**22
#: What is kept of stderr, and how long a tool whose output has ended may take to end itself.
_WORDS_BYTES = 2000
_END_S = 0.2
#: How soon a `leave` from another thread is noticed.
_LOOK_S = 0.2


class Stream:
    """A running tool's stdout. It has no stdin and no shell, and is found by its absolute path.

    It is ended by closing its pipes, since one that belongs to root cannot be killed; others are killed, too.
    """

    def __init__(self, argv: Sequence[str], clock: Clock = SYSTEM) -> None:
        """Raises: SensorError: it cannot be started."""
        self._clock = clock
        self._due_ns = 0
        self._words = bytearray()
        self._taken = 0
        self._left = threading.Event()
        try:
            self._process = start_long_running(argv)
        except NotStartedError as error:
            raise SensorError(str(error)) from error
        assert self._process.stdout
        assert self._process.stderr
        self._out, self._err = self._process.stdout, self._process.stderr
        self._open: set[object] = {self._out, self._err}
        self._pipes = selectors.DefaultSelector()
        self._pipes.register(self._out, selectors.EVENT_READ)
        self._pipes.register(self._err, selectors.EVENT_READ)

    def wait_until(self, due_ns: int) -> None:
        """From now on `read` waits until then, on the monotonic clock, and takes 4 MiB at most."""
        self._due_ns = due_ns
        self._taken = 0

    def read(self, size: int = _PIECE) -> bytes:
        """What is there, at least one byte; nothing at its end.

        Raises:
            SensorError: nothing came in time, or too much.
        """
        while self._out in self._open and not self._left.is_set():
            left_s = (self._due_ns - self._clock.now_ns()) / 1e9
            if left_s <= 0:
                raise SensorError(f"it has printed nothing that can be read in time{self._told(0)}")
            if piece := self._take(min(left_s, _LOOK_S), size):
                return piece
        return b""

    @property
    def ended_well(self) -> bool:
        """Whether it came to its end by itself, and with exit code 0."""
        return self._wait(_END_S) == 0

    def why_ended(self) -> str:
        """In words, with the first of its own."""
        code = self._wait(_END_S)
        return ("it has closed its output" if code is None else f"it ended with {code}") + self._told(_END_S)

    def leave(self) -> None:
        """Let a `read` in another thread return soon, as at the end."""
        self._left.set()

    def close(self) -> None:
        """Close its pipes, and end it where that is allowed. A second call does nothing."""
        self._open.clear()
        self._pipes.close()
        self._out.close()
        self._err.close()
        if self._wait(0) is None:
            with contextlib.suppress(OSError):
                self._process.kill()
            self._wait(_END_S)

    def _take(self, wait_s: float, size: int = _PIECE) -> bytes:
        """Wait for either pipe: what came through stdout; the first words of stderr are kept."""
        for pipe in [key.fileobj for key, _ in self._pipes.select(wait_s)]:
            piece: bytes = pipe.read(size)  # type: ignore[union-attr]
            self._taken += len(piece)
            if self._taken > _MOST_BYTES:
                raise SensorError(f"it has printed more than {_MOST_BYTES} bytes that cannot be read")
            if not piece:
                self._pipes.unregister(pipe)
                self._open.discard(pipe)
            elif pipe is self._out:
                return piece
            else:
                self._words += piece[: _WORDS_BYTES - len(self._words)]
        return b""

    def _wait(self, seconds: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def _told(self, wait_s: float) -> str:
        """The first line of stderr, for whose end it waits."""
        due_ns = self._clock.now_ns() + round(wait_s * 1e9)
        while self._out not in self._open and self._err in self._open and self._clock.now_ns() < due_ns:
            self._take(wait_s)
        words = self._words.decode(errors="replace").strip().split("\n")[0][:200]
        return f": {words}" if words else ""
