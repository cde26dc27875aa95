"""Readers of the operating system's tools: one runs a tool every few seconds without waiting, one
reads a stream."""

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
#: The time limit of a tool, seconds: the tools here take some milliseconds.
PATIENCE_S = 1.0


class PolledTool(Generic[_T]):
    """Runs a tool at an interval and parses its output, without waiting.

    argv: the tool's absolute path and its arguments. parse: returns None for an output that it
    cannot parse.
    period_s: the interval.
    """

    def __init__(
        self, argv: Sequence[str], parse: Callable[[str], _T | None], period_s: float
    ) -> None:
        self._argv = argv
        self._parse = parse
        self._period_ns = round(period_s * 1e9)
        self._running: RunningTool | None = None
        self._started_ns = -self._period_ns
        self._newest: tuple[int, _T] | None = None

    def available(self, clock: Clock = SYSTEM) -> Availability:
        """Run the tool once, and wait `PATIENCE_S` at most."""
        now_ns = clock.now_ns()
        try:
            self._newest = now_ns, self._read(run(self._argv, PATIENCE_S))
        except SensorError as error:
            return Unavailable(str(error), fix="")
        return Available()

    def newest(self, now_ns: int) -> tuple[int, _T] | None:
        """Return the start and the parsed output of the last run, or None. Start the next run if it
        is due.

        Raises:
            SensorError: the last run failed; the tool runs again in the next period.
        """
        if self._running is None:
            if now_ns - self._started_ns >= self._period_ns:
                self._started_ns = now_ns
                self._running = RunningTool(self._argv, PATIENCE_S, now_ns)
            return self._newest
        if (result := self._running.poll(now_ns)) is not None:
            self._running, self._newest = None, None
            self._newest = self._started_ns, self._read(result)
        return self._newest

    def _read(self, result: Result) -> _T:
        tool = os.path.basename(self._argv[0])
        if why := result.failure:
            raise SensorError(f"{tool}: {why}")
        if (read := self._parse(result.out)) is None:
            words = " ".join(result.out.split())[:100]
            raise SensorError(
                f"{tool} prints {words!r}, which tfwatch cannot parse"
                if words
                else f"{tool} prints nothing"
            )
        return read


_READ_BYTES = 2**16
#: The limit of one document, the same as in `gpu.powermetrics.documents`.
_MAX_BYTES = 2**22
#: The limit of stderr, and the time that a tool may take to end after its output ended.
_STDERR_BYTES = 2000
_END_S = 0.2
#: The delay of a `cancel` from another thread.
_CANCEL_S = 0.2


class ToolStream:
    """The stdout of a running tool, which has no stdin and no shell and is started by its absolute
    path.

    It ends because its pipes close: a tool that belongs to root cannot be killed. Others are
    killed, too.
    """

    def __init__(self, argv: Sequence[str], clock: Clock = SYSTEM) -> None:
        """Raises: SensorError: the tool cannot be started."""
        self._clock = clock
        self._due_ns = 0
        self._error_text = bytearray()
        self._total_bytes = 0
        self._cancelled = threading.Event()
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
        """Limit the following calls of `read`: to this time on the monotonic clock, and to 4
        MiB."""
        self._due_ns = due_ns
        self._total_bytes = 0

    def read(self, size: int = _READ_BYTES) -> bytes:
        """Return the available bytes, at least one; none at the end.

        Raises:
            SensorError: there was no output in time, or too much.
        """
        while self._out in self._open and not self._cancelled.is_set():
            left_s = (self._due_ns - self._clock.now_ns()) / 1e9
            if left_s <= 0:
                raise SensorError(f"it printed nothing readable in time{self._first_error(0)}")
            if piece := self._read_once(min(left_s, _CANCEL_S), size):
                return piece
        return b""

    def why_ended(self) -> str:
        """Return the reason, with the first line of its stderr."""
        code = self._wait(_END_S)
        return (
            "it has closed its output" if code is None else f"it ended with {code}"
        ) + self._first_error(_END_S)

    def cancel(self) -> None:
        """Make a `read` in another thread return soon, as at the end."""
        self._cancelled.set()

    def close(self) -> None:
        """Close the pipes, and kill the tool where that is allowed. A second call does nothing."""
        self._open.clear()
        self._pipes.close()
        self._out.close()
        self._err.close()
        if self._wait(0) is None:
            with contextlib.suppress(OSError):
                self._process.kill()
            self._wait(_END_S)

    def _read_once(self, wait_s: float, size: int = _READ_BYTES) -> bytes:
        """Wait for either pipe and return the bytes of stdout; the beginning of stderr is kept."""
        for pipe in [key.fileobj for key, _ in self._pipes.select(wait_s)]:
            piece: bytes = pipe.read(size)  # type: ignore[union-attr]
            self._total_bytes += len(piece)
            if self._total_bytes > _MAX_BYTES:
                raise SensorError(f"it printed more than {_MAX_BYTES} unreadable bytes")
            if not piece:
                self._pipes.unregister(pipe)
                self._open.discard(pipe)
            elif pipe is self._out:
                return piece
            else:
                self._error_text += piece[: _STDERR_BYTES - len(self._error_text)]
        return b""

    def _wait(self, seconds: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def _first_error(self, wait_s: float) -> str:
        """Return the first line of stderr; wait for its end."""
        due_ns = self._clock.now_ns() + round(wait_s * 1e9)
        while (
            self._out not in self._open
            and self._err in self._open
            and self._clock.now_ns() < due_ns
        ):
            self._read_once(wait_s)
        words = self._error_text.decode(errors="replace").strip().split("\n")[0][:200]
        return f": {words}" if words else ""
