"""Errors as text, text without control characters, sentences on stderr, and the boundary where telemetry fails open."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class BadInputError(ValueError):
    """The user's input cannot be used; the message is one sentence for the user."""


def reason(error: BaseException) -> str:
    """Return `ValueError: no`; the class alone where the error has no message."""
    return f"{type(error).__name__}: {message_of(error)}".removesuffix(": ")


def message_of(error: BaseException) -> str:
    """Return the message, e.g. `no`; empty where there is none, or where the error's own `__str__` raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  the exception may be the user's, and its __str__ may raise anything
        return ""


def printable(text: str) -> str:
    """Return the text in one line, with a space in place of each control character."""
    return "".join(c if c.isprintable() else " " for c in text)


def name_of_signal(number: int) -> str:
    """Return the name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def warn_user(sentence: str) -> None:
    """Print a sentence on stderr, if there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"tfwatch: {sentence}\n")


@functools.cache
def warn_once(sentence: str) -> None:
    """Print a sentence on stderr, only the first time that this process has it: for what fails with each step."""
    warn_user(sentence)


class fails_open:
    """A context manager that ends its block at the first exception, publishes it, and continues after the block.

    Use it where a thread begins, and where tfwatch's work meets a training, a plug-in or a user's object; catch by name
    elsewhere. An exception that is not an `Exception`, such as KeyboardInterrupt, passes through.

    publish: takes the exception as text; what it raises itself is lost. words: converts the exception to text, e.g.
    `ValueError: no`.
    """

    __slots__ = ("_publish", "_words")

    def __init__(
        self, publish: Callable[[str], object], words: Callable[[Exception], str] = reason
    ) -> None:
        self._publish = publish
        self._words = words

    def __enter__(self) -> None:
        """Begin a block; one object serves any number of blocks, in any number of threads."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Publish the exception."""
        if not isinstance(error, Exception):
            return False
        with contextlib.suppress(
            Exception
        ):  # nothing is left to publish it, and the block fails open
            self._publish(self._words(error))
        return True
