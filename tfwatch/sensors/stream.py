"""A tool of the operating system that prints for as long as it is read."""

from __future__ import annotations

import contextlib
import selectors
import subprocess
import threading
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.tool import NotStartedError, start_lasting
from tfwatch.sensors import SensorError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
            self._process = start_lasting(argv)
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
