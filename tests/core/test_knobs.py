"""Knob values and their text."""

from __future__ import annotations

import pytest

from tfwatch.core.knobs import KNOBS, Knobs, as_value, describe, show, stage_value, with_stage


def test_values_are_parsed_from_their_text() -> None:
    assert as_value("prefetch", "4") == 4
    assert as_value("workers", "auto") == "auto"
    assert as_value("latency_ms", "20 ms") == 20.0
    assert as_value("latency_ms", "off") == 0.0


@pytest.mark.parametrize(
    "knobs",
    [Knobs(), Knobs(prefetch=4, workers="auto", latency_ms=2.5, fast_pipeline=True, cache=True)],
)
def test_recorded_knobs_are_parsed_back(knobs: Knobs) -> None:
    assert {name: as_value(name, words) for name, words in describe(knobs).items()} == {
        name: getattr(knobs, name) for name in KNOBS
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4), ("default/4", ("default", 4)), ("4/4", 4), ("off/auto/2", ("off", "auto", 2))],
)
def test_workers_are_one_setting_or_one_for_each_stage(text: str, value: object) -> None:
    assert as_value("workers", text) == value
    assert as_value("workers", show(as_value("workers", text))) == value
    assert Knobs().with_value("workers", as_value("workers", text)).workers == value


@pytest.mark.parametrize("text", ["4/", "/", "4/on", "/".join(["2", "3"] * 33), "4/0"])
def test_settings_of_stages_are_checked(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a setting|settings for the stages"):
        as_value("workers", text)


def test_one_stage_changes_and_the_others_stay() -> None:
    assert with_stage("default", 2, 1, "4") == "default/4"
    assert with_stage("default/4", 2, 0, "4") == "4"
    assert [stage_value("default/4", stage) for stage in (0, 1, None)] == [
        "default",
        "4",
        "default",
    ]
    assert stage_value("auto", 5) == "auto"
