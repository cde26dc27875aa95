"""The table of knobs, and their values."""

import pytest

from tfwatch.core.knobs import CACHE, DEVICE_PREFETCH, PREFETCH, WORKERS, check_value


def test_a_value_has_one_spelling() -> None:
    assert check_value(PREFETCH, "04") == "4"
    assert check_value(WORKERS, "auto") == "auto"
    assert check_value(CACHE, "on") == "on"


@pytest.mark.parametrize(
    ("knob", "text", "sentence"),
    [
        (PREFETCH, "2000", "'2000' is not a setting: give off, default, auto or a number"),
        (WORKERS, "4/4", "'4/4' is not a setting"),
        (DEVICE_PREFETCH, "auto", "'auto' is not a setting: give off or a number"),
        (PREFETCH, "-1", "give off, default, auto or a number from 1 to 1024"),
        (CACHE, "yes", "'yes' is not a setting: give off or on"),
        ("colour", "4", "'colour' is not a knob"),
    ],
)
def test_another_text_is_refused_in_a_sentence(knob: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_value(knob, text)
