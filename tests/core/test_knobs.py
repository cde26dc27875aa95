"""Settings, and the words that stand for them."""

from __future__ import annotations

import pytest

from tfwatch.core.knobs import KNOBS, Knobs, as_value, describe


def test_values_are_read_back_from_their_words() -> None:
    assert as_value("prefetch", "4") == 4
    assert as_value("workers", "auto") == "auto"
    assert as_value("latency_ms", "20 ms") == 20.0
    assert as_value("latency_ms", "off") == 0.0


@pytest.mark.parametrize(
    "knobs", [Knobs(), Knobs(prefetch=4, workers="auto", latency_ms=2.5, fast_form=True, cache=True)]
)
def test_what_a_run_records_of_its_knobs_is_read_back(knobs: Knobs) -> None:
    assert {name: as_value(name, words) for name, words in describe(knobs).items()} == {
        name: getattr(knobs, name) for name in KNOBS
    }
