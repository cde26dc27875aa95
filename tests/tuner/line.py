"""The requests of a tuner and a user to a simulated training, in memory: what a run folder's file
is for a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tests.runs.folders import folder_of
from tfwatch.core.clock import Clock
from tfwatch.runs.control import Control, RequestTaker
from tfwatch.runs.requests import Request, RequestFile, StopRequest, SwitchRequest, encode_request
from tfwatch.runs.writer import RunWriter
from tfwatch.tuner.client import Driver


class _Memory(RequestFile):
    """The lines of a `Line`."""

    def __init__(self, line: Line) -> None:
        super().__init__(Path("/nowhere"))
        self._line = line

    def _read_new(self, *, is_skipped: bool = False) -> bytes:
        if is_skipped:
            self.offset = len(self._line.data)
        return bytes(self._line.data[self.offset :])


class Line:
    """Takes each request at once, as the writer of a real training does ten times a second.

    cancelled: ends the job of the tuner. refused: the requests of the tuner that a user's came
    before.
    """

    def __init__(self, writer: RunWriter, control: Control) -> None:
        self.data = bytearray()
        self.cancelled = threading.Event()
        self._writer = writer
        self._taker = RequestTaker(writer, control)

    def driver(self, clock: Clock, pause: Callable[[], object] | None) -> Driver:
        """Return a tuner's view of the run."""
        return Driver(
            folder_of(self._writer),
            _Memory(self),
            self.send,
            self.cancelled,
            clock,
            pause,
        )

    def send(self, request: Request) -> None:
        """Append a request, and take it."""
        self.data += encode_request(request)
        self._taker.accept(request, len(self.data))

    def press(self, knob: str, value: str) -> None:
        """Switch a knob as a user does."""
        self.send(SwitchRequest(knob, value, "key"))

    def stop(self) -> None:
        """Stop the training as a user does."""
        self.send(StopRequest("key"))
