"""Forecasts of switches, over steps that were made by the formulas of a pipeline."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.judge.evidences import evidence, stages, step_ms_of
from tests.judge.step_rows import make_steps
from tfwatch.judge.effects.comparison import Comparison
from tfwatch.judge.forecasts.forecast import forecast
from tfwatch.judge.stages import Stage, StageTable
from tfwatch.judge.steps.steady_steps import breakdown

if TYPE_CHECKING:
    from tfwatch.judge.forecasts.evidence import Evidence

# -- prefetch --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data_ms", "step_ms"),
    [
        pytest.param(9.6, 13.8, id="all of it hidden"),
        pytest.param(40.0, 40.0, id="more than can be hidden"),
    ],
)
def test_prefetch_hides_what_a_batch_takes_behind_compute_and_host(
    data_ms: float, step_ms: float
) -> None:
    assert step_ms_of(forecast(evidence(data_ms), "prefetch", "4")) == pytest.approx(
        step_ms, rel=0.03
    )


@pytest.mark.parametrize("delay_ms", [5.0, 10.0, 20.0, 40.0])
def test_it_foretells_what_an_h200_did(delay_ms: float) -> None:
    came = {5.0: 13.3, 10.0: 13.5, 20.0: 20.2, 40.0: 40.2}[delay_ms]  # docs/results.md, prefetch 4
    off = {5.0: 18.4, 10.0: 23.8, 20.0: 33.9, 40.0: 54.2}[delay_ms]

    found = forecast(evidence(off - 13.3, compute=13.2, host=0.1), "prefetch", "4")

    assert step_ms_of(found) == pytest.approx(came, rel=0.05)
    assert found.low_ms <= came <= found.high_ms


def test_a_pipeline_that_starves_behind_a_prefetch_shows_what_a_batch_takes() -> None:
    known = evidence(26.2, knobs={"prefetch": "4"})

    assert step_ms_of(forecast(known, "prefetch", "off")) == pytest.approx(40.0 + 13.8)
    assert step_ms_of(forecast(known, "prefetch", "8")) == pytest.approx(40.0)


def test_bursts_take_depth_and_the_mean_tells_it() -> None:
    every_eighth = np.resize([80.0, *[0.0] * 7], 200)
    known = evidence(every_eighth, compute=11.5, host=0.5)
    shallow, deep = (forecast(known, "prefetch", depth) for depth in ("1", "8"))

    assert step_ms_of(shallow) == pytest.approx(12.0, rel=0.03)
    assert shallow.mean_ms == pytest.approx(12 + 68 / 8, rel=0.03)
    assert deep.mean_ms == pytest.approx(12.0, rel=0.05)
    assert deep.ratio == pytest.approx(22 / 12, rel=0.05)


def test_a_deeper_buffer_hides_the_rest_of_a_burst() -> None:
    behind_four = np.resize([32.0, *[0.0] * 7], 200)
    known = evidence(behind_four, compute=11.5, host=0.5, knobs={"prefetch": "4"})

    assert forecast(known, "prefetch", "8").mean_ms == pytest.approx(12.0, rel=0.05)
    assert forecast(known, "prefetch", "2").mean_ms == pytest.approx(12 + 56 / 8, rel=0.05)


def test_to_a_scripts_own_pipeline_prefetch_is_only_added() -> None:
    own: dict[str, Any] = {
        "knobs": {"prefetch": "default", "workers": "default"},
        "switchable": ("prefetch",),
    }
    ahead = evidence(9.6, stages=stages(Map=20.0, Prefetch=0.1), **own)
    alone = evidence(9.6, stages=stages(Map=9.5), **own)

    assert (
        step_ms_of(forecast(alone, "prefetch", "off"))
        == step_ms_of(forecast(alone, "prefetch", "default"))
        == pytest.approx(23.4)
    )
    assert step_ms_of(forecast(alone, "prefetch", "8")) == pytest.approx(13.8, rel=0.03)
    assert step_ms_of(forecast(ahead, "prefetch", "8")) == pytest.approx(23.4, rel=0.03)


# -- the other knobs -------------------------------------------------------------------------------


def test_workers_share_what_is_a_map_and_the_serial_rest_stays() -> None:
    table = stages(Range=0.5, Map=35.0, BatchV2=4.5)
    known = evidence(26.2, knobs={"prefetch": "4"}, stages=table, batch_size=32)

    assert step_ms_of(forecast(known, "workers", "2")) == pytest.approx(17.5, rel=0.05)
    assert step_ms_of(forecast(known, "workers", "8")) == pytest.approx(13.8, rel=0.05)


def test_a_cache_takes_memory_and_helps() -> None:
    found = forecast(evidence(20.0, knobs={"cache": "off"}, cache_bytes=2e9), "cache", "on")

    assert step_ms_of(found) < 33.8
    assert found.needs_bytes == 2e9


def test_a_cache_after_a_known_stage_leaves_the_work_above_it() -> None:
    costs = (("map(decode)", "Map", 4.0), ("map(flip)", "Map", 12.0), ("batch(32)", "Batch", 4.0))
    table, off = StageTable(0, tuple(Stage(*one) for one in costs)), {"cache": "off"}
    first, both = (
        step_ms_of(
            forecast(evidence(20.0, knobs=off, stages=table, cache_after=after), "cache", "on")
        )
        for after in ("map(decode)", "map(flip)")
    )
    assert first == pytest.approx(13.8 + 16.0, abs=0.5)
    assert both == pytest.approx(13.8 + 4.0, abs=0.5)


def test_a_cache_that_would_be_refused_promises_nothing() -> None:
    found = forecast(
        evidence(20.0, knobs={"cache": "off"}, cache_bytes=4.1 * 2**30, memory_free=6.2 * 2**30),
        "cache",
        "on",
    )

    assert not found.is_known
    assert found.why == "no forecast: a cache needs 4.1 GB, 6.2 GB are free"


def test_a_forecast_names_the_bytes_that_its_batches_take() -> None:
    known = evidence(20.0, knobs={"prefetch": "4"}, batch_bytes=1e6)

    assert forecast(evidence(20.0, batch_bytes=1e6), "prefetch", "4").needs_bytes == 4e6
    assert [forecast(known, "workers", calls).needs_bytes for calls in ("4", "8")] == [4e6, 8e6]


def test_a_cache_leaves_the_last_map_which_is_the_random_one() -> None:
    table = StageTable(
        0,
        tuple(
            Stage(kind, kind, ms) for kind, ms in (("Map", 14.0), ("Map", 4.0), ("BatchV2", 2.0))
        ),
    )
    known = evidence(20.0, knobs={"cache": "off"}, stages=table)

    assert step_ms_of(forecast(known, "cache", "on")) == pytest.approx(13.8 + 6.0, rel=0.05)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(stages(Map=math.nan, BatchV2=4.5), id="the maps are not told of"),
        pytest.param(stages(Map=1.5, BatchV2=11.0), id="another stage has their time"),
    ],
)
def test_where_stages_mislead_the_range_still_holds_what_an_h200s_host_did(
    table: StageTable,
) -> None:
    """Steps of 12.5 ms became 7.7 with workers, where a batch stage seemed to be the limit."""
    known = evidence(
        5.3, compute=7.0, host=0.2, knobs={"prefetch": "4"}, stages=table, batch_size=32
    )

    found = forecast(known, "workers", "auto")

    assert step_ms_of(found) <= 12.5
    assert found.low_ms <= 7.7 <= found.high_ms


def test_short_waits_behind_a_prefetch_may_be_those_of_fetching_alone() -> None:
    """Steps of 2.3 ms became 3.0 without it on an H200's host."""
    known = evidence(
        0.9, compute=1.3, host=0.1, knobs={"prefetch": "4"}, stages=stages(Map=0.6, Prefetch=0.05)
    )

    found = forecast(known, "prefetch", "off")

    assert step_ms_of(found) == pytest.approx(3.0, rel=0.15)
    assert found.low_ms <= 3.0 <= found.high_ms


# -- what was measured -----------------------------------------------------------------------------


def switched(knob: str, old: str, new: str, step: int, before: float, after: float) -> Comparison:
    old_side, new_side = (
        breakdown(make_steps(np.full(100, wait), compute=13.0, host=0.8))
        for wait in (before, after)
    )
    return Comparison(knob, old, new, "key", step - 1, step, old_side, new_side, settled=True)


def test_a_setting_that_was_measured_is_its_own_forecast() -> None:
    there = switched("prefetch", "off", "4", 101, before=9.6, after=0.3)
    found = forecast(
        evidence(0.3, knobs={"prefetch": "4"}, comparisons=(there,)), "prefetch", "off"
    )

    assert found.measured
    assert step_ms_of(found) == pytest.approx(23.4)


# -- device prefetch -------------------------------------------------------------------------------


def copied_by_the_step(copy: float, dispatch: float, drain: float, host: float = 0.3) -> Evidence:
    """Return the evidence of steps that copy their batches themselves."""
    rows = make_steps(
        np.zeros(100), compute=copy + dispatch + drain, host=host, dispatch=dispatch, copy=copy
    )
    return replace(
        evidence(0.0),
        rows=rows,
        breakdown=breakdown(rows),
        knobs={"device_prefetch": "off"},
    )


@pytest.mark.parametrize("drain", [0.1, 0.59, 0.61, 3.0])
def test_a_copy_ahead_is_forecast_within_the_share_that_the_race_decides_on(drain: float) -> None:
    found = forecast(copied_by_the_step(2.8, 1.5, drain), "device_prefetch", "2")

    assert step_ms_of(found) == pytest.approx(2.8 + 1.5 + drain + 0.3 - 0.45)
    assert found.low_ms <= 2.8 + drain <= 2.8 + 1.8 + drain <= found.high_ms


def test_a_step_is_never_forecast_to_be_shorter_than_its_copy() -> None:
    assert step_ms_of(forecast(copied_by_the_step(10.0, 0.2, 0.0), "device_prefetch", "2")) >= 10.0
