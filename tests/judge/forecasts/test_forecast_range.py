"""The interval of a forecast, and the switches that have a forecast."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judge.evidences import KNOBS, evidence, stages
from tests.judge.step_rows import make_steps
from tfwatch.core.events import PipelineSwitched
from tfwatch.judge.forecasts.forecast import choices, forecast, forecasts
from tfwatch.judge.steps.steady_steps import breakdown

if TYPE_CHECKING:
    from tfwatch.judge.stages import StageTable


def test_on_shared_cores_the_range_reaches_to_no_gain() -> None:
    shared = {"cores": 2, "accelerated": False}
    busy = forecast(evidence(20.0, cores_used=1.9, cores_free=0.1, **shared), "prefetch", "4")
    idle = forecast(evidence(20.0, cores_used=0.5, cores_free=1.5, **shared), "prefetch", "4")
    unknown = forecast(evidence(20.0, **shared), "prefetch", "4")

    assert busy.high_ms >= 1.9 * 33.8 / 2
    assert busy.why == "compute and data share the cores"
    assert idle.high_ms < 26.0
    assert unknown.high_ms >= 33.8


def test_beside_other_programs_the_range_is_wider() -> None:
    alone = forecast(evidence(9.6, cores=16, cores_used=2.0, cores_free=14.0), "prefetch", "4")
    beside = forecast(evidence(9.6, cores=16, cores_used=2.0, cores_free=4.0), "prefetch", "4")

    assert beside.step_ms == alone.step_ms
    assert beside.low_ms < alone.low_ms
    assert beside.high_ms > alone.high_ms


def test_there_is_no_forecast_while_stalled_or_before_twenty_steps() -> None:
    stalled = forecast(evidence(20.0, no_forecast_reason="stalled"), "prefetch", "4")
    few = make_steps(np.full(12, 9.6))
    early = forecast(replace(evidence(20.0), breakdown=breakdown(few), rows=few), "prefetch", "4")

    assert math.isnan(stalled.step_ms)
    assert stalled.why == "no forecast while stalled"
    assert early.why == "no forecast yet: 12 of 20 steps"


#: Of a step, and where the knobs stand that any pipeline has.
AS_IT_STANDS: dict[str, Any] = {
    "wait": st.floats(0.0, 60.0),
    "compute": st.floats(0.5, 60.0),
    "prefetch": st.sampled_from(["off", "default", "auto", "1", "8"]),
    "workers": st.sampled_from(["off", "auto", "4"]),
}


@settings(deadline=None)
@given(**AS_IT_STANDS)
def test_the_forecast_of_the_present_setting_is_the_present_step(
    wait: float, compute: float, prefetch: str, workers: str
) -> None:
    knobs = {"prefetch": prefetch, "workers": workers}
    known = evidence(wait, compute=compute, knobs=knobs)
    assert known.breakdown

    for knob, value in knobs.items():
        found = forecast(known, knob, value)
        assert found.step_ms == known.breakdown.step.median
        assert found.low_ms <= found.step_ms <= found.high_ms


@settings(deadline=None)
@given(
    **AS_IT_STANDS,
    accelerated=st.booleans(),
    used=st.sampled_from([math.nan, 0.5, 2.0]),
    table=st.sampled_from([None, stages(Map=20.0, BatchV2=1.0), stages(Map=math.nan)]),
)
def test_every_possible_switch_has_a_forecast_or_a_reason(
    wait: float,
    compute: float,
    prefetch: str,
    workers: str,
    accelerated: bool,
    used: float,
    table: StageTable | None,
) -> None:
    known = evidence(
        wait,
        compute=compute,
        knobs={"prefetch": prefetch, "workers": workers},
        accelerated=accelerated,
        cores=2,
        cores_used=used,
        cores_free=2 - used,
        stages=table,
    )
    found = forecasts(known)

    assert {one.knob for one in found} == set(KNOBS)
    for one in found:
        assert one.why
        if one.is_known:
            assert 0 < one.low_ms <= one.step_ms <= one.high_ms < math.inf
            assert one.mean_ms > 0


def test_a_knob_that_is_turned_on_again_takes_its_last_value() -> None:
    by_key = PipelineSwitched(0, "prefetch", "16", "off", 100, 101, 1.0, "key")
    by_experiment = PipelineSwitched(0, "workers", "2", "off", 200, 201, 1.0, "experiment")
    at_off = evidence(20.0, switches=(by_key, by_experiment))

    assert choices(at_off, "prefetch")[0] == "16"
    assert choices(at_off, "workers") == ("2",)
