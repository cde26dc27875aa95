import pytest

from tfwatch.core.errors import reason


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
