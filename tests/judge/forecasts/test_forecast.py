"""Forecasts of switches, over steps that were made by the formulas of a pipeline."""

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.evidences import KNOBS, evidence, stages, step_ms_of
from tests.judge.step_rows import make_steps
from tfwatch.core.events import ExperimentEnded, PipelineSwitched
from tfwatch.core.knobs import NotTimed
from tfwatch.judge.effects.comparison import Comparison
from tfwatch.judge.forecasts.evidence import Evidence
from tfwatch.judge.forecasts.forecast import choices, forecast, forecasts
from tfwatch.judge.stages import Stage, StageTable
from tfwatch.judge.steps.steady_steps import breakdown

#: A script's pipeline as it is written.
OWN: dict[str, Any] = {
    "knobs": {"prefetch": "default", "workers": "default"},
    "switchable": ("prefetch",),
}

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
    assert step_ms_of(forecast(evidence(data_ms), {"prefetch": "4"})) == pytest.approx(
        step_ms, rel=0.03
    )


@pytest.mark.parametrize("delay_ms", [5.0, 10.0, 20.0, 40.0])
def test_it_foretells_what_an_h200_did(delay_ms: float) -> None:
    came = {5.0: 13.3, 10.0: 13.5, 20.0: 20.2, 40.0: 40.2}[delay_ms]  # docs/developers/results.md
    off = {5.0: 18.4, 10.0: 23.8, 20.0: 33.9, 40.0: 54.2}[delay_ms]

    found = forecast(evidence(off - 13.3, compute=13.2, host=0.1), {"prefetch": "4"})

    assert step_ms_of(found) == pytest.approx(came, rel=0.05)
    assert found.low_ms <= came <= found.high_ms


def test_a_pipeline_that_starves_behind_a_prefetch_shows_what_a_batch_takes() -> None:
    known = evidence(26.2, knobs={"prefetch": "4"})

    assert step_ms_of(forecast(known, {"prefetch": "off"})) == pytest.approx(40.0 + 13.8)
    assert step_ms_of(forecast(known, {"prefetch": "8"})) == pytest.approx(40.0)


def test_of_bursts_the_mean_is_forecast_and_no_gain_is_sure() -> None:
    every_eighth = np.resize([80.0, *[0.0] * 7], 200)
    found = forecast(evidence(every_eighth, compute=11.5, host=0.5), {"prefetch": "4"})

    assert (found.now_ms, step_ms_of(found)) == pytest.approx((22.0, 12.0), rel=0.01)
    assert found.high_ms > 12 + (80 - 4 * 12) / 8


def test_to_a_scripts_own_pipeline_prefetch_is_only_added() -> None:
    ahead = evidence(9.6, stages=stages(Map=20.0, Prefetch=0.1), **OWN)
    alone = evidence(9.6, stages=stages(Map=9.5), **OWN)

    assert (
        step_ms_of(forecast(alone, {"prefetch": "off"}))
        == step_ms_of(forecast(alone, {"prefetch": "default"}))
        == pytest.approx(23.4)
    )
    assert step_ms_of(forecast(alone, {"prefetch": "8"})) == pytest.approx(13.8, rel=0.03)
    assert step_ms_of(forecast(ahead, {"prefetch": "8"})) == pytest.approx(23.4, rel=0.03)


# -- the other knobs -------------------------------------------------------------------------------


def test_workers_share_what_is_a_map_and_the_serial_rest_stays() -> None:
    table = stages(Range=0.5, Map=35.0, BatchV2=4.5)
    known = evidence(26.2, knobs={"prefetch": "4"}, stages=table, batch_size=32)

    assert step_ms_of(forecast(known, {"workers": "2"})) == pytest.approx(17.5, rel=0.05)
    assert step_ms_of(forecast(known, {"workers": "8"})) == pytest.approx(13.8, rel=0.05)


def test_parallel_calls_of_a_map_that_draws_random_numbers_share_its_work() -> None:
    """Seen on an H200: 72.2 ms/step became 8.2."""
    costs = (("map(augment), batch(64)", "MapAndBatch", 66.0, 1.0),)
    table = StageTable(0, tuple(Stage(*one) for one in costs))
    asks: dict[str, Any] = {"random_maps": "map(augment) draws random numbers", "workers_ask": True}
    known = evidence(52.0, stages=table, batch_size=64, cores=16, **OWN, **asks)

    (found,) = (one for one in forecasts(known) if one.knob == "workers")

    assert found.value == "auto"
    assert step_ms_of(found) == pytest.approx(13.8, rel=0.1)
    parallel = StageTable(0, (replace(table.stages[0], parallelism=2.0),))
    assert not forecast(replace(known, stages=parallel), {"workers": "auto"}).has_gain


def test_a_map_that_is_joined_with_its_batch_makes_one_call_at_a_time() -> None:
    """Seen: 35 ms a step, of which 33 the map, became 19; the key said that it gains nothing."""
    costs = (("map(decode), batch(32)", "MapAndBatch", 33.3, 1.0), ("prefetch", "Prefetch", 0.0))
    table = StageTable(0, tuple(Stage(*one) for one in costs))
    known = evidence(30.9, stages=table, batch_size=32, cores=2, **OWN)

    assert forecast(known, {"workers": "auto"}).has_gain


@pytest.mark.parametrize("kinds", [(), ("MapAndBatch",), ("MapAndBatch files",)])
def test_a_random_map_that_works_ahead_gains_nothing_by_a_deeper_prefetch(
    kinds: tuple[str, ...],
) -> None:
    """Seen: 14.6 ms/step stayed 14.6, and 8.6 were promised for one that reads files."""
    table = StageTable(0, tuple(Stage("map(load), batch(32)", one, 14.9, 1.0) for one in kinds))
    knobs = {"prefetch": "default", "workers": "default"}
    draws = "map(load) draws random numbers"
    known = evidence(14.6, knobs=knobs, stages=table if kinds else None, random_maps=draws)

    assert not forecast(known, {"prefetch": "8"}).has_gain


def test_a_cache_after_a_known_stage_leaves_the_work_above_it() -> None:
    costs = (("map(decode)", "Map", 4.0), ("map(flip)", "Map", 12.0), ("batch(32)", "Batch", 4.0))
    table, off = StageTable(0, tuple(Stage(*one) for one in costs)), {"cache": "off"}
    first, both = (
        step_ms_of(
            forecast(evidence(20.0, knobs=off, stages=table, cache_after=after), {"cache": "on"})
        )
        for after in ("map(decode)", "map(flip)")
    )
    assert first == pytest.approx(13.8 + 16.0, abs=0.5)
    assert both == pytest.approx(13.8 + 4.0, abs=0.5)


def test_a_cache_that_would_be_refused_promises_nothing() -> None:
    found = forecast(
        evidence(20.0, knobs={"cache": "off"}, cache_bytes=4.1 * 2**30, memory_free=6.2 * 2**30),
        {"cache": "on"},
    )

    assert not found.is_known
    assert found.why == "no forecast: a cache needs 4.1 GB, 6.2 GB are free"


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
        evidence(0.3, knobs={"prefetch": "4"}, comparisons=(there,)), {"prefetch": "off"}
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
        evidence(0.0), rows=rows, breakdown=breakdown(rows), knobs={"device_prefetch": "off"}
    )


@pytest.mark.parametrize("drain", [0.1, 0.59, 0.61, 3.0])
def test_a_copy_ahead_is_forecast_within_the_share_that_the_race_decides_on(drain: float) -> None:
    found = forecast(copied_by_the_step(2.8, 1.5, drain), {"device_prefetch": "2"})

    assert step_ms_of(found) == pytest.approx(2.8 + 1.5 + drain + 0.3 - 0.45)
    assert found.low_ms <= 2.8 + drain <= 2.8 + 1.8 + drain <= found.high_ms
    assert found.may_be_slower


def copied_within_the_call(wait: float, copy_ms: float | None = 1.2) -> Evidence:
    """Return the evidence of steps whose call copies 37 MB from pinned memory."""
    rows = make_steps(np.full(100, wait), compute=6.5, host=0.3, dispatch=2.0)
    known = replace(
        evidence(0.0), rows=rows, breakdown=breakdown(rows), knobs={"device_prefetch": "off"}
    )
    in_call: dict[str, Any] = {
        "copied_bytes": {"float32": 37_000_000},
        "copy_not_timed": NotTimed.PINNED.value,
    }
    run = msgspec.structs.replace(known.run, copy_ms=copy_ms, **in_call)
    return replace(known, run=run)


def test_a_copy_ahead_hides_that_of_batches_in_pinned_memory() -> None:
    found = forecast(copied_within_the_call(0.2), {"device_prefetch": "2"})
    assert step_ms_of(found) == pytest.approx(7.0 - 1.2 + 0.3)
    assert found.has_gain
    assert not found.may_be_slower

    knob = replace(copied_by_the_step(1.0, 1.5, 4.0), knobs={"pinned": "on"})
    found = forecast(knob, {"device_prefetch": "2"})
    assert step_ms_of(found) == pytest.approx(1.0 + 1.5 + 4.0 + 0.3 - 1.0 + 0.3)
    assert not found.may_be_slower


@pytest.mark.parametrize(
    ("epochs", "steps", "more_ms"),
    [
        pytest.param(9, 25, 3.2, id="short"),
        pytest.param(9, 800, 0.1, id="long"),
        pytest.param(1, 25, 0.0, id="one"),
        pytest.param(9, None, 0.0, id="of unknown length"),
    ],
)
def test_epochs_that_begin_later_take_back_what_a_copy_ahead_hides(
    epochs: int, steps: int | None, more_ms: float
) -> None:
    known = copied_within_the_call(0.2)
    run = msgspec.structs.replace(known.run, epochs=epochs, steps_per_epoch=steps)
    found = forecast(replace(known, run=run), {"device_prefetch": "2"})
    assert step_ms_of(found) == pytest.approx(7.0 - 1.2 + 0.3 + more_ms)
    assert found.has_gain == (more_ms < 3)
    assert (found.why == "it takes long as epochs begin") == (more_ms > 3)


def test_a_copy_ahead_of_late_batches_may_hide_nothing() -> None:
    soon, late = (
        forecast(copied_within_the_call(wait), {"device_prefetch": "2"}) for wait in (0.2, 2.0)
    )
    assert soon.high_ms - soon.now_ms < late.high_ms - late.now_ms - 0.4


def test_without_workers_batches_are_in_ordinary_memory() -> None:
    known = copied_within_the_call(0.2)
    known = replace(known, knobs={**known.knobs, "workers": "off"})
    found = forecast(known, {"device_prefetch": "2"})
    assert found.why == "no forecast: the copy of batches is not timed"


def test_a_copy_of_an_earlier_fit_is_none_within_the_call() -> None:
    known = copied_within_the_call(0.2).run
    assert known.copy_in_call_ms({}) == 1.2
    for why in (NotTimed.IN_GRAPH, NotTimed.DRAWS):
        later = msgspec.structs.replace(known, copy_not_timed=why.value)
        assert later.copy_in_call_ms({}) is None


def test_batches_in_pinned_memory_are_not_put_there_again() -> None:
    found = forecast(copied_within_the_call(0.2), {"pinned": "on"})
    assert found.why == "no forecast: batches are small, or in pinned memory already"

    found = forecast(copied_within_the_call(0.2, None), {"device_prefetch": "2"})
    assert found.why == "no forecast: the copy of batches is not timed"


def test_a_setting_that_an_ab_test_measured_is_its_own_forecast() -> None:
    """Else the banner would advise what the test has just refuted."""
    test = ExperimentEnded(
        0, "prefetch", ("off", "4"), 100, 400, "clear", "slower", 8, 160, "off", step_ms=TESTED
    )
    found = forecast(evidence(9.6, test=test), {"prefetch": "4"})

    assert (found.measured, step_ms_of(found)) == (True, 24.9)
    assert found.low_ms < found.now_ms < found.high_ms
    assert found.is_sure  # it is proved: no "loss not sure" beside the key
    unclear = msgspec.structs.replace(test, answer="unclear")
    assert not forecast(evidence(9.6, test=unclear), {"prefetch": "4"}).is_sure


TESTED = {"off": 23.4, "4": 24.9}


def test_no_step_is_forecast_below_its_copy_compute_and_host() -> None:
    rows = make_steps(np.full(100, 0.25), compute=16.0, host=0.5, copy=5.0)
    known = replace(evidence(0.0), rows=rows, breakdown=breakdown(rows))

    assert step_ms_of(forecast(known, {"prefetch": "4"})) >= 16.5
    assert not forecast(known, {"prefetch": "4"}).differs


# -- cores, and the interval -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "used", "free", "step_ms", "high_ms"),
    [
        pytest.param(2, 1.5, 0.5, 1.5 * 23.8 / 2, 1.5 * 23.8 / 2, id="all of two cores"),
        pytest.param(4, 1.5, 0, 1.5 * 23.8 / 2, 23.8, id="others yield up to a half"),
        pytest.param(6, 3, 1, 3 * 23.8 / 4, 3 * 23.8 / 4, id="it has its half"),
        pytest.param(8, 1.0, 7.0, 13.8, 13.8, id="cores enough"),
    ],
)
def test_compute_and_data_share_the_cores_of_a_cpu(
    cores: int, used: float, free: float, step_ms: float, high_ms: float
) -> None:
    known = evidence(10.0, accelerated=False, cores=cores, cores_used=used, cores_free=free)
    found = forecast(known, {"prefetch": "4"})

    assert step_ms_of(found) == pytest.approx(step_ms, rel=0.01)
    assert high_ms <= found.high_ms < 1.25 * high_ms
    assert ("share the cores" in found.why) is (high_ms > 14)


def test_more_threads_on_a_cpu_may_make_a_step_longer() -> None:
    found = forecast(evidence(0.0, accelerated=False, cores=2), {"workers": "2"})

    assert step_ms_of(found) == pytest.approx(13.8)
    assert found.high_ms > 1.4 * 13.8


def test_on_shared_cores_the_range_reaches_to_no_gain() -> None:
    shared = {"cores": 2, "accelerated": False}
    busy = forecast(evidence(20.0, cores_used=1.9, cores_free=0.1, **shared), {"prefetch": "4"})
    idle = forecast(evidence(20.0, cores_used=0.5, cores_free=1.5, **shared), {"prefetch": "4"})
    unknown = forecast(evidence(20.0, **shared), {"prefetch": "4"})

    assert busy.high_ms >= 1.9 * 33.8 / 2
    assert busy.why == "compute and data share the cores"
    assert idle.high_ms < 26.0
    assert unknown.high_ms >= 33.8


def test_there_is_no_forecast_while_stalled_or_before_twenty_steps() -> None:
    stalled = forecast(evidence(20.0, no_forecast_reason="stalled"), {"prefetch": "4"})
    few = make_steps(np.full(12, 9.6))
    early = forecast(replace(evidence(20.0), breakdown=breakdown(few), rows=few), {"prefetch": "4"})

    assert math.isnan(stalled.step_ms)
    assert stalled.why == "no forecast: stalled"
    assert early.why == "no forecast yet: 12 of 20 steps"


#: Of a step, and where the knobs stand that any pipeline has.
AS_IT_STANDS: dict[str, Any] = {
    "wait": st.floats(0.0, 60.0),
    "compute": st.floats(0.5, 60.0),
    "prefetch": st.sampled_from(["off", "default", "auto", "1", "8"]),
    "workers": st.sampled_from(["off", "auto", "4"]),
}


@given(**AS_IT_STANDS)
def test_the_forecast_of_the_present_setting_is_the_present_step(
    wait: float, compute: float, prefetch: str, workers: str
) -> None:
    knobs = {"prefetch": prefetch, "workers": workers}
    known = evidence(wait, compute=compute, knobs=knobs)
    assert known.breakdown

    for knob, value in knobs.items():
        found = forecast(known, {knob: value})
        assert found.step_ms == known.breakdown.typical_ms(known.breakdown.step)
        assert found.low_ms <= found.step_ms <= found.high_ms


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


def test_a_knob_that_is_turned_on_again_takes_its_last_value() -> None:
    by_key = PipelineSwitched(0, "prefetch", "16", "off", 100, 101, 1.0, "key")
    by_experiment = PipelineSwitched(0, "workers", "2", "off", 200, 201, 1.0, "experiment")
    at_off = evidence(20.0, switches=(by_key, by_experiment))

    assert choices(at_off, "prefetch")[0] == "16"
    assert choices(at_off, "workers") == ("2",)
