import pytest

from tfwatch.core.errors import reason


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(ValueError("no"), "ValueError: no", id="a sentence"),
        pytest.param(OSError(), "OSError", id="without a word"),
        pytest.param(Mute(), "Mute", id="raises when it is asked"),
    ],
)
def test_an_error_is_said_with_what_it_is(error: Exception, words: str) -> None:
    assert reason(error) == words
