"""Knob values and their text."""

from __future__ import annotations

import pytest

from tfwatch.core.knobs import KNOBS, Knobs, as_value, describe


def test_values_are_parsed_from_their_text() -> None:
    assert as_value("prefetch", "4") == 4
    assert as_value("workers", "auto") == "auto"
    assert as_value("latency_ms", "20 ms") == 20.0
    assert as_value("latency_ms", "off") == 0.0


@pytest.mark.parametrize(
    "knobs", [Knobs(), Knobs(prefetch=4, workers="auto", latency_ms=2.5, fast_pipeline=True, cache=True)]
)
def test_recorded_knobs_are_parsed_back(knobs: Knobs) -> None:
    assert {name: as_value(name, words) for name, words in describe(knobs).items()} == {
        name: getattr(knobs, name) for name in KNOBS
    }
