import math

import pytest

from tfwatch.core import units


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param((23.44, 9.06), "23.4 to 9.1 ms", id="short"),
        pytest.param((429.2, 429.0), "429 to 429 ms", id="long: one precision"),
        pytest.param((412.3, 9.06), "412.3 to 9.1 ms", id="a short one keeps its decimal"),
        pytest.param((12_000.0, 1500.0), "12.0 to 1.5 s", id="one unit"),
        pytest.param((0.0, 20_300.0), "0.0 to 20.3 s", id="nothing of a long one"),
        pytest.param((12_000.0, 40.0), "12.0 s to 40.0 ms", id="too far apart for one unit"),
        pytest.param((None, 9.0), "n/a to 9.0 ms", id="missing"),
        pytest.param((9.0, math.nan), "9.0 ms to n/a", id="missing at the end"),
    ],
)
def test_joined_milliseconds_have_one_unit_and_precision(
    values: tuple[float | None, ...], words: str
) -> None:
    assert " to ".join(units.in_one_unit(*values)) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, "n/a"),
        (0.0, "0.0 MB"),
        (9, "1 kB"),
        (48 * 1024, "48 kB"),
        (0.2e6, "0.2 MB"),
        (16 * 2**20, "16 MB"),
        (2**30, "1.0 GB"),
    ],
)
def test_memory_has_a_readable_unit(size: float | None, words: str) -> None:
    assert units.memory(size) == words


@pytest.mark.parametrize(("value", "text"), [(0, "0 steps"), (1, "1 step"), (3477, "3 477 steps")])
def test_a_count_has_a_singular_and_a_plural(value: int, text: str) -> None:
    assert units.counted(value, "step") == text


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.684, "1.68"), (9.994, "9.99"), (9.996, "10"), (20.11, "20"), (0.97, "0.97"), (None, "n/a")],
)
def test_a_ratio_has_no_more_precision_than_its_parts(ratio: float | None, words: str) -> None:
    assert units.times(ratio) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "now"), (60.0, "1 min"), (7300.0, "2 h"), (86_400.0, "1 day"), (200_000.0, "2 days")],
)
def test_an_age_has_one_unit(seconds: float, words: str) -> None:
    assert units.age(seconds) == words
