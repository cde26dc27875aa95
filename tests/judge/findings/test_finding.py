"""A finding names the settings that it advises."""

import pytest

from tfwatch.core.knobs import KNOBS
from tfwatch.judge.findings.finding import Finding


@pytest.mark.parametrize(
    ("advice", "knobs"),
    [
        pytest.param("w, from the next epoch: workers=4", {"workers"}, id="a key"),
        pytest.param("w and m, from the next epoch: ...", {"workers", "multiprocessing"}, id="two"),
        pytest.param("a GPU or a smaller model would shorten the step", set(), id="none"),
    ],
)
def test_the_keys_that_begin_an_advice_are_advised(advice: str, knobs: set[str]) -> None:
    found = Finding("input-bound", "STARVING 41 %", "", advice)

    assert {name for name, knob in KNOBS.items() if found.advises(knob)} == knobs
