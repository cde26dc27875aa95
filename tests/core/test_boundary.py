"""Telemetry fails open and publishes the error."""

from __future__ import annotations

import pytest

from tfwatch.core.errors import fails_open


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


def test_a_block_that_raises_nothing_publishes_nothing() -> None:
    words: list[str] = []

    with fails_open(words.append):
        pass

    assert words == []


def test_a_block_can_return_a_value() -> None:
    def read() -> int:
        with fails_open(lambda _: None):
            return 7
        return 0

    assert read() == 7


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


def test_an_error_without_text_is_published_by_its_class() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    words: list[str] = []

    with fails_open(words.append):
        _raise(SilentError())

    assert words == ["SilentError"]


def test_one_boundary_serves_blocks_within_blocks() -> None:
    words: list[str] = []
    boundary = fails_open(words.append)

    with boundary:
        with boundary:
            _raise(ValueError("inner"))
        _raise(ValueError("outer"))

    assert words == ["ValueError: inner", "ValueError: outer"]
