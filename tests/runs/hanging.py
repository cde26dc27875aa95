"""A disk that does not respond."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest


class Hanging:
    """Replaces a function that accesses the disk: its caller waits until `answers` is set."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.answers = threading.Event()
        self.asked = threading.Event()
        self._function = function

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.asked.set()
        assert self.answers.wait(30)
        return self._function(*args, **named)


@contextlib.contextmanager
def hang(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[Hanging]:
    """Make a function hang until the end of the block, or until `answers` is set."""
    hanging = Hanging(getattr(owner, name))
    monkeypatch.setattr(owner, name, lambda *args, **named: hanging(*args, **named))
    try:
        yield hanging
    finally:
        hanging.answers.set()
