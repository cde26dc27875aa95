"""Telemetry fails open and publishes the error."""

import contextlib
import ctypes
import functools
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tfwatch.core.errors import fails_open, reason


def _raise(error: BaseException) -> None:
    raise error


def test_an_exception_is_published_as_text_and_stops_there() -> None:
    words: list[str] = []
    after = []

    with fails_open(words.append):
        _raise(ValueError("no"))
        after.append("in the block")
    after.append("after it")

    assert words == ["ValueError: no"]
    assert after == ["after it"]


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), SystemExit(3), GeneratorExit()],
    ids=lambda one: type(one).__name__,
)
def test_a_request_to_stop_passes_through(error: BaseException) -> None:
    words: list[str] = []

    with pytest.raises(type(error)), fails_open(words.append):
        _raise(error)

    assert words == []


class _TooLateError(Exception):
    """A time limit of the user's."""


class _Limit:
    def on_signal(self, number: int, _: Any) -> None:
        raise _TooLateError(number)

    def __call__(self, *arguments: Any) -> None:
        raise TimeoutError(arguments[0])


def _on_signal(number: int, frame: Any) -> None:
    _Limit().on_signal(number, None)


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        pytest.param(_on_signal, _TooLateError, id="function"),
        pytest.param(_Limit().on_signal, _TooLateError, id="method"),
        pytest.param(_Limit(), TimeoutError, id="object"),
        pytest.param(lambda *_: 1 / 0, ZeroDivisionError, id="any arguments"),
        pytest.param(functools.partial(_on_signal), _TooLateError, id="partial"),
    ],
)
def test_an_exception_of_a_signal_handler_passes_through_every_boundary(
    handler: Callable[..., None], error: type[Exception]
) -> None:
    words: list[str] = []
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(error), fails_open(words.append), fails_open(words.append):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not words


def test_an_exception_of_a_signal_handler_passes_where_a_library_raises_another_one_from_it() -> (
    None
):
    """TensorFlow does, where it binds the arguments of a function."""

    def bind() -> None:
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Exception as error:
            raise TypeError("cannot bind") from error

    words: list[str] = []
    before = signal.signal(signal.SIGUSR1, _on_signal)
    try:
        with pytest.raises(_TooLateError), fails_open(words.append), fails_open(words.append):
            bind()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not words


def test_an_exception_of_a_signal_handler_passes_while_another_one_is_published() -> None:
    before = signal.signal(signal.SIGUSR1, _on_signal)
    try:
        with (
            pytest.raises(_TooLateError),
            fails_open(lambda _: signal.raise_signal(signal.SIGUSR1)),
        ):
            _raise(ValueError("no"))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_exception_of_a_trace_function_passes_through() -> None:
    def trace(frame: Any, event: str, _: Any) -> None:
        if frame.f_code is _raise.__code__:
            raise _TooLateError

    words: list[str] = []
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(_TooLateError), fails_open(words.append):
            _raise(ValueError("never raised"))
    finally:
        sys.settrace(before)
    assert not words


def test_an_exception_that_another_thread_sets_passes_through() -> None:
    words: list[str] = []
    this = ctypes.c_ulong(threading.get_ident())
    arrive = ctypes.pythonapi.PyThreadState_SetAsyncExc
    with (
        pytest.raises(_TooLateError),
        fails_open(words.append),
        contextlib.ExitStack() as frames_of_pythons_own,
    ):
        frames_of_pythons_own.callback(arrive, this, ctypes.py_object(_TooLateError))
    assert not words


def test_an_exception_of_what_the_user_gave_is_published_also_if_its_class_is_the_users() -> None:
    words: list[str] = []
    with fails_open(words.append):
        _raise(_TooLateError("a length that raises"))
    assert words == ["_TooLateError: a length that raises"]


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(ValueError("no"), "ValueError: no", id="a sentence"),
        pytest.param(OSError(), "OSError", id="without a message"),
        pytest.param(Mute(), "Mute", id="its text raises"),
    ],
)
def test_an_error_is_described_by_class_and_message(error: Exception, words: str) -> None:
    assert reason(error) == words


def test_an_error_of_the_reader_of_files_is_no_interrupt() -> None:
    """Its class is of a package, and no code of the user's runs where it is raised."""
    words: list[str] = []
    with fails_open(words.append):
        try:
            msgspec.json.decode(b"{")
        except msgspec.DecodeError as error:
            raise ValueError("cannot be read") from error
    assert words
