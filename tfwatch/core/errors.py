"""Errors as text, text without control characters, sentences on stderr, and the boundary where
telemetry fails open."""

from __future__ import annotations

import contextlib
import functools
import inspect
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType


#: Characters of a file's text in a sentence.
_LONGEST_QUOTE = 200


class BadInputError(ValueError):
    """The user's input cannot be used; the message is one sentence for the user."""


def reason(error: BaseException) -> str:
    """Return `ValueError: no`; the class alone where the error has no message."""
    return f"{type(error).__name__}: {message_of(error)}".removesuffix(": ")


def message_of(error: BaseException) -> str:
    """Return the message, e.g. `no`; empty where there is none, or where the error's own `__str__`
    raises."""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001  the exception may be the user's, and its __str__ may raise anything
        raise_interrupt(failure)
        return ""


def printable(text: str) -> str:
    """Return the text in one line, with a space in place of each control character."""
    return "".join(c if c.isprintable() else " " for c in text)


def quoted(value: object) -> str:
    """Return a value of a file, or an error about it, for a sentence."""
    return printable(str(value))[:_LONGEST_QUOTE]


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
    """Print a sentence on stderr, only the first time that this process has it: for what fails with
    each step."""
    warn_user(sentence)


#: Packages whose code runs in tfwatch's own work, beside what the user gives it.
_OWN_WORK = {
    "absl", "builtins", "google", "keras", "msgspec", "numpy", "psutil", "pynvml", "tensorflow",
    "tfwatch",
}  # fmt: skip


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception was raised into running code: by a handler of the user's, or by
    another thread.

    Python gives a signal handler, a trace and a profile function the frame that it interrupts,
    which no other function gets. An exception that another thread sets has no frame of its own: it
    is known by its class, of the user's code. Not known is one of a class of Python's own or of
    tfwatch's packages, and a handler that takes no arguments from C.
    """
    interrupted, trace = None, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if interrupted is not None and any(one is interrupted for one in _arguments(frame)):
            return True
        interrupted, trace = frame, trace.tb_next
    return interrupted is not None and _is_set_by_thread(type(error), interrupted)


def _arguments(frame: FrameType) -> Iterator[object]:
    """Yield the arguments of a function's frame."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[: count + bool(code.co_flags & inspect.CO_VARARGS)]
    for name in names:
        value = values.get(name)
        if type(value) is tuple:
            yield from value
        else:
            yield value


def _is_set_by_thread(kind: type[BaseException], innermost: FrameType) -> bool:
    """Return whether an exception of the user's own class was raised where no code of the user's
    runs."""
    module = sys.modules.get(kind.__module__)
    is_python = module is not None and (getattr(module, "__file__", None) or ".py").endswith(".py")
    return (
        is_python
        and not _is_own_work(kind.__module__)
        and _is_own_work(innermost.f_globals.get("__name__", ""))
    )


def _is_own_work(module: str) -> bool:
    package = module.partition(".")[0]
    return package in _OWN_WORK or package in sys.stdlib_module_names


#: TensorFlow raises a TypeError of its own from whatever is raised while it binds arguments.
_MOST_CAUSES = 8


def find_interrupt(error: BaseException) -> BaseException | None:
    """Return an error, or the cause that it was raised from, which is an interrupt; None where
    neither is."""
    one: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if one is None or is_interrupt(one):
            return one
        one = one.__cause__
    return None


def raise_interrupt(error: Exception) -> None:
    """Raise an exception again that is not of the code that caught it (see `is_interrupt`)."""
    if interrupt := find_interrupt(error):
        raise interrupt


class fails_open:
    """A context manager that ends its block at the first exception, publishes it, and continues
    after the block.

    Use it where a thread begins, and where tfwatch's work meets a training, a plug-in or a user's
    object; catch by name elsewhere. An exception that is not an `Exception`, such as
    KeyboardInterrupt, passes through, and so does one that a handler of the user's raises (see
    `is_interrupt`).

    publish: takes the exception as text; what it raises itself is lost. words: converts the
    exception to text, e.g. `ValueError: no`.
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
        if interrupt := find_interrupt(error):
            if interrupt is error:
                return False
            raise interrupt
        try:
            self._publish(self._words(error))
        except Exception as failure:  # noqa: BLE001  nothing is left to publish it, and the block fails open
            raise_interrupt(failure)
        return True
