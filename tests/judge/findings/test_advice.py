"""The finding and the knobs' rows agree: where a switch is forecast to gain, it is the advice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.judge.situations import RUNNING, banner, changed, judged
from tests.judge.step_rows import make_steps
from tfwatch.core import units
from tfwatch.core.events import StallLocated
from tfwatch.judge.findings.advice import stall_sentence, wait_sentence
from tfwatch.judge.findings.situation import BatchSource, Situation, SourceKind
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.stages import Stage, StageTable
from tfwatch.judge.steps.steady_steps import breakdown

CACHE = Forecast(
    "cache",
    "on",
    18.0,
    16.5,
    19.5,
    "compute and data share the cores",
    None,
    18.0,
    23.4,
    23.4,
)
NO_GAIN = changed(CACHE, step_ms=23.0, mean_ms=23.0)
FULL = Stage("prefetch", "Prefetch", math.nan, buffered=4.0, buffer_size=4.0, filled=1.0)
#: Batches wait in a full buffer: the data wait is the fetch itself.
READY = StageTable(0, (Stage("map", "Map", 0.1), FULL)).with_bottleneck(8, 0.0, 0.1, 0.9)


STARVING = {
    "judgement": judged(0.4, 0.8, 0.1),
    "stages": READY,
    "knobs": {"prefetch": "4", "workers": "auto", "cache": "off"},
}
WELL_FED = {"judgement": judged(0.0, 13.0, 0.1), "knobs": {"cache": "off"}}


def situation(changes: dict[str, Any], **more: Any) -> Situation:
    values = {
        "switchable": ("prefetch", "workers", "cache"),
        "origin": BatchSource(SourceKind.TF_DATA),
    }
    return changed(RUNNING, **{**values, **changes, **more})


LIMITS = [
    pytest.param(STARVING, "larger batches", id="the wait is the fetch"),
    pytest.param(WELL_FED, "not the limit", id="compute"),
]


@pytest.mark.parametrize(("changes", "otherwise"), LIMITS)
def test_a_cache_that_is_forecast_to_gain_is_the_advice(
    changes: dict[str, Any], otherwise: str
) -> None:
    found = banner(situation(changes, forecasts={("cache", "on"): CACHE}))
    assert (
        "c cache on: 23.4 so far to about 18.0 ms, 1.3 x (compute and data share the cores)"
        in found.advice
    )
    assert otherwise not in found.advice
    assert "dataset = dataset.cache()" in found.edit


@pytest.mark.parametrize(("changes", "otherwise"), LIMITS)
def test_without_a_gain_the_limit_is(changes: dict[str, Any], otherwise: str) -> None:
    assert otherwise in banner(situation(changes, forecasts={("cache", "on"): NO_GAIN})).advice


def test_the_summary_names_the_call_in_place_of_the_key() -> None:
    found = banner(situation(WELL_FED, forecasts={("cache", "on"): CACHE}, live=False))
    assert (
        found.advice == ".cache(): 23.4 to about 18.0 ms, 1.3 x (compute and data share the cores)"
    )


def test_a_switch_of_another_knob_than_prefetch_is_named_too() -> None:
    ahead = changed(CACHE, knob="device_prefetch", value="2")
    now = situation(
        STARVING, switchable=["device_prefetch"], forecasts={("device_prefetch", "2"): ahead}
    )
    found = banner(changed(now, stages=None, origin=BatchSource(SourceKind.ARRAYS)))
    assert "g device prefetch 2: 23.4 so far to about 18.0 ms" in found.advice
    assert "cannot be switched" not in found.advice


def test_the_ratio_of_the_figures_in_the_sentence_is_the_share() -> None:
    """Every fourth batch is slow: the median step waits for nothing."""
    split = breakdown(make_steps(np.tile([0.0, 0.0, 0.0, 40.0], 10), compute=10.0, host=0.0))
    assert split

    assert wait_sentence(RUNNING, split) == "each step waits 10.0 of 20.0 ms for data"
    assert units.percent(split.wait_share) == "50 %"


def located(stage: str, place: str = "", thread: str = "") -> StallLocated:
    return StallLocated(23 * 10**9, 412, stage, 20 * 10**9, place, thread)


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        pytest.param(
            located("map(read)", "train.py:9 in <module>", "training"),
            "Step 412 waits in map(read): no output for 20.3 s.",
            id="a stage of tf.data's: the training only fetches",
        ),
        pytest.param(
            located("from_generator(rows)", "feed.py:41 in rows", "generator"),
            "Step 412 waits in from_generator(rows), at feed.py:41 in rows: no output for 20.3 s.",
            id="a generator",
        ),
        pytest.param(
            located("", "feed.py:41 in rows", "training"),
            "Step 412 waits for its batch: the training is at feed.py:41 in rows.",
            id="no stages",
        ),
        pytest.param(
            None,
            "Step 412 waits for its batch: the input pipeline has delivered none.",
            id="not located yet",
        ),
    ],
)
def test_a_stall_names_the_stage_and_the_line(where: StallLocated | None, sentence: str) -> None:
    assert stall_sentence(changed(RUNNING, step=412, now_s=40.3, located=where)) == sentence


def test_a_shuffle_buffer_that_fills_comes_first() -> None:
    now = changed(RUNNING, step=412, now_s=40.3, shuffle=(4298, 50_000), located=located("range"))

    assert stall_sentence(now) == "Step 412 waits: filling the shuffle buffer, 4 298 of 50 000."
