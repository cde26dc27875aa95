"""Forecasts in the words of the screen."""

import math

import pytest

from tests.judge.situations import RUNNING, changed
from tfwatch.judge.effects.wording import expected_gain_text, forecast_note
from tfwatch.judge.findings.situation import Situation
from tfwatch.judge.findings.switch_lines import advise_gain, key_text
from tfwatch.judge.forecasts.forecast import Forecast, best
from tfwatch.judge.machine import MachineFigures

ON = Forecast("prefetch", "4", 13.8, 13.2, 14.4, "the rest is compute", 23.4)
WORKERS = Forecast("workers", "auto", 13.9, 13.0, 15.0, "the rest is compute", 22.3)
NONE = Forecast(
    "cache", "off", math.nan, math.nan, math.nan, "no forecast: not seen without a cache"
)


def now(*forecasts: Forecast, **knobs: str) -> Situation:
    known = {(one.knob, one.value): one for one in forecasts}
    return changed(RUNNING, forecasts=known, knobs={**RUNNING.knobs, **knobs})


def test_a_switch_whose_gain_a_race_decides_on_is_not_advised() -> None:
    ahead = Forecast("device_prefetch", "2", 1.9, 1.5, 2.7, "", 2.3)

    assert best([ahead]) is ahead
    assert best([changed(ahead, may_be_slower=True)]) is None


def test_a_deeper_buffer_is_named_by_both_depths() -> None:
    deeper = changed(ON, value="4", step_ms=14.1, now_ms=15.7)

    advice = advise_gain(now(deeper, prefetch="2"), deeper)
    assert advice.sentence.startswith("+ depth 2 → 4: 15.7 to about 14.1 ms, 1.1 x")


def test_a_cache_is_proposed_with_what_it_needs_and_from_when_on() -> None:
    cache = changed(ON, knob="cache", value="on")
    room = MachineFigures({"memory_available_bytes": 9.2 * 2**30})
    advice = advise_gain(
        changed(now(cache), machine=room, epoch=0, cache_bytes=round(4.1 * 2**30)), cache
    )

    assert advice.sentence.endswith(
        "1.7 x (the rest is compute); from epoch 3, needs 4.1 GB of 9.2 GB free"
    )


def test_a_wide_range_is_told_beside_the_number() -> None:
    wide = changed(ON, high_ms=23.4, why="compute and data share the cores")

    assert (
        expected_gain_text(wide)
        == "23.4 to about 13.8 ms (13.2 to 23.4), 1.7 x (compute and data share the cores)"
    )
    assert expected_gain_text(wide, shown_ms=23.0) == expected_gain_text(wide), (
        "nearly the same mean needs no word"
    )
    assert expected_gain_text(wide, shown_ms=17.0).startswith(
        "23.4 so far to about 13.8 ms (13.2 to 23.4), 1.7 x ("
    )


@pytest.mark.parametrize(
    ("known", "words"),
    [
        pytest.param(ON, "about 13.8 ms  1.7 x", id="a gain"),
        pytest.param(
            changed(changed(ON, value="off", now_ms=13.9, low_ms=21.0, high_ms=26.0), step_ms=23.4),
            "about 23.4 ms  1.7 x slower",
            id="a loss",
        ),
        pytest.param(changed(ON, high_ms=30.0), "gain not sure", id="an interval that holds 1"),
        pytest.param(changed(WORKERS, now_ms=14.1), "about 13.9 ms  no gain", id="no gain"),
        pytest.param(
            changed(ON, step_ms=5.5, now_ms=5.9),
            "about 5.5 ms  1.1 x",
            id="the gain is of what is told: of medians",
        ),
        pytest.param(NONE, "no forecast: not seen without a cache", id="unknown"),
    ],
)
def test_beside_a_knob_stands_the_step_and_what_it_gains(known: Forecast, words: str) -> None:
    assert forecast_note(known) == words


def test_of_equals_the_one_that_costs_least_is_proposed() -> None:
    workers = changed(WORKERS, step_ms=13.7, now_ms=23.4)
    much_better = changed(workers, step_ms=9.0)

    assert best([workers, ON, NONE]) is ON
    assert best([ON, much_better]) is much_better
    assert best([NONE]) is None
    assert not NONE.has_gain


def test_keys_are_named_as_they_are_pressed() -> None:
    assert key_text(ON, "off") == "p prefetch on"
    assert (
        key_text(changed(ON, value="1"), "off") == "+ depth off → 1"
    )  # p requests the last depth, not 1
    assert key_text(changed(ON, value="off"), "4") == "p prefetch off"
    assert key_text(changed(ON, value="2"), "4") == "- depth 4 → 2"
    assert key_text(changed(ON, value="auto"), "4") == "+ depth 4 → auto"
    device = changed(WORKERS, knob="device_prefetch", value="2")
    assert key_text(device, "off") == "g device prefetch 2"
