"""The table of knobs, and their values."""

from __future__ import annotations

import pytest

from tfwatch.core.knobs import (
    CACHE,
    PREFETCH,
    WORKERS,
    Knobs,
    check_value,
    stage_value,
    with_stage,
)


def test_a_value_has_one_spelling() -> None:
    assert check_value(PREFETCH, "04") == "4"
    assert check_value(WORKERS, "auto") == "auto"
    assert check_value(CACHE, "on") == "on"
    assert Knobs().with_value(WORKERS, "4/4").workers == "4"


@pytest.mark.parametrize(
    ("knob", "text", "sentence"),
    [
        (PREFETCH, "2000", "'2000' is not a setting: give off, default, auto or a number"),
        (PREFETCH, "-1", "give off, default, auto or a number from 1 to 1024"),
        (CACHE, "yes", "'yes' is not a setting: give off or on"),
        ("colour", "4", "'colour' is not a knob"),
    ],
)
def test_another_text_is_refused_in_a_sentence(knob: str, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_value(knob, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", "4"), ("default/4", "default/4"), ("4/4", "4"), ("off/auto/02", "off/auto/2")],
)
def test_workers_are_one_setting_or_one_for_each_stage(text: str, value: str) -> None:
    assert check_value(WORKERS, text) == value


@pytest.mark.parametrize("text", ["4/", "/", "4/on", "/".join(["2", "3"] * 33), "4/0"])
def test_settings_of_stages_are_checked(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a setting|settings for the stages"):
        check_value(WORKERS, text)


def test_one_stage_changes_and_the_others_stay() -> None:
    assert with_stage("default", 2, 1, "4") == "default/4"
    assert with_stage("default/4", 2, 0, "4") == "4"
    assert [stage_value("default/4", stage) for stage in (0, 1, None)] == [
        "default",
        "4",
        "default",
    ]
    assert stage_value("auto", 5) == "auto"
