"""The lines of a log that grows: the first ones, where a start-up is told, and the last ones."""

from __future__ import annotations

from collections import deque

#: Lines kept of a log's end, and of its beginning.
LOG_LINES = 2000
HEAD_LINES = 500
#: A line is cut here: a progress bar that never ends its line would be kept whole.
_LONGEST_LINE = 64 * 2**10


class Lines:
    """Cuts bytes that come piece by piece into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that end in `data`; one that has no end yet waits for it."""
        *whole, rest = (self._rest + data).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            whole.append(rest)
            rest = b""
        self._rest = rest
        return whole


class LogLines:
    """Takes a log's bytes in their order.

    head: its first `HEAD_LINES` lines; total: how many there were in all.
    """

    def __init__(self) -> None:
        self.head: tuple[str, ...] = ()
        self.total = 0
        self._tail: deque[str] = deque(maxlen=LOG_LINES)
        self._lines = Lines()

    @property
    def tail(self) -> tuple[str, ...]:
        """Its last `LOG_LINES` lines, which may be among the first."""
        return tuple(self._tail)

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        whole = self._lines.cut(data)
        self.head += tuple(map(_text, whole[: HEAD_LINES - len(self.head)]))
        self.total += len(whole)
        self._tail.extend(map(_text, whole[-LOG_LINES:]))


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
