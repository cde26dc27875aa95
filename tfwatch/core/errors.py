"""Errors: as one sentence, as harmless text, and the boundary where telemetry fails open.

Errors in words.

Text from outside, made harmless for a terminal.

The boundary of tfwatch: telemetry fails open, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


def reason(error: BaseException) -> str:
    """`ValueError: no`; the class alone where the error says nothing."""
    return f"{type(error).__name__}: {said(error)}".removesuffix(": ")


def said(error: BaseException) -> str:
    """`no`; empty where the error says nothing, or raises when it is asked."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  the exception may be the user's, and its text raise anything
        return ""


def printable(text: str) -> str:
    """In one line and without what a terminal would obey: a space stands for each such character."""
    return "".join(c if c.isprintable() else " " for c in text)


class fails_open:
    """Ends a block at the first exception, publishes that in words, and goes on behind the block.

    It stands where a thread begins, and where tfwatch's work meets a training, a plug-in or a user's object. Elsewhere
    exceptions are caught by name. What is no `Exception`, a KeyboardInterrupt above all, goes through.

    publish: takes what was caught, in words. words: puts it in words, e.g. `ValueError: no`.
    """

    __slots__ = ("_publish", "_words")

    def __init__(self, publish: Callable[[str], object], words: Callable[[Exception], str] = reason) -> None:
        self._publish = publish
        self._words = words

    def __enter__(self) -> None:
        """Begin the block; one object serves any number of them, in any number of threads."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Publish what was raised."""
        if not isinstance(error, Exception):
            return False
        self._publish(self._words(error))
        return True
