"""Progress of a training without a screen: one line that is redrawn, or in a file a line every two seconds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from tfwatch.core.errors import fails_open, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.clock import Clock
    from tfwatch.runs.reading.reader import RunReader, Snapshot

_LIVE_S = 0.5
_LOGGED_S = 2.0


class Progress:
    """Writes progress lines to `stream`. A failure is reported once and ends the lines, never the training.

    line: formats a snapshot in at most so many cells; None is any length.
    """

    def __init__(
        self, stream: TextIO, reader: RunReader, line: Callable[[Snapshot, int | None], str], clock: Clock
    ) -> None:
        self._stream = stream
        self._reader = reader
        self._line = line
        self._clock = clock
        self._live = stream.isatty()
        self._due_ns = 0
        self._failed = False

    def show(self) -> None:
        """Write a line if one is due."""
        now = self._clock.now_ns()
        if self._failed or now < self._due_ns:
            return
        self._due_ns = now + int((_LIVE_S if self._live else _LOGGED_S) * 1e9)
        with fails_open(self._fail):
            snapshot = self._reader.in_time(self._reader.tail)
            if snapshot is not None:
                self._write(self._line(snapshot, self._width() - 1 if self._live else None))

    def _fail(self, why: str) -> None:
        self._failed = True
        self.notify(f"no more progress is shown: {why}")

    def notify(self, sentence: str) -> None:
        """Write a sentence on a line of its own."""
        self.finish()
        self._stream.write(f"tfwatch: {printable(sentence)}\n")
        self._stream.flush()

    def finish(self) -> None:
        """Erase the line that is redrawn."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _write(self, line: str) -> None:
        if not line:
            return
        self._stream.write(f"\r{line[: self._width() - 1]}\x1b[K" if self._live else f"{line}\n")
        self._stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80
