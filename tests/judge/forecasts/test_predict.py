"""The step after a switch that a run has not seen: each guess by its formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.evidences import evidence, stages
from tfwatch.judge.findings.bottleneck import Stage, StageTable
from tfwatch.judge.forecasts.predict import Prediction, predict

if TYPE_CHECKING:
    from tfwatch.judge.forecasts.evidence import Evidence

#: Compute and host of `evidence`, milliseconds.
WORK = 13.8


def after(known: Evidence, knob: str, value: str, **together_with: str) -> Prediction:
    assert known.breakdown is not None
    found = predict(known, known.breakdown, knob, value, together_with)
    assert isinstance(found, Prediction), found
    return found


def within(found: Prediction) -> tuple[float, float, float]:
    return found.low_ms, found.step_ms, found.high_ms


@pytest.mark.parametrize("knobs", [{}, {"prefetch": "4"}, {"workers": "2"}])
def test_where_nothing_is_turned_the_step_stays(knobs: dict[str, str]) -> None:
    known = evidence(9.6, knobs=knobs)
    knob, value = next(iter(knobs.items()), ("workers", "off"))

    assert within(after(known, knob, value)) == pytest.approx((WORK + 9.6,) * 3, rel=0.03)


def test_what_a_prefetch_hides_lies_a_tenth_around_what_the_stages_tell() -> None:
    known = evidence(0.1, knobs={"prefetch": "4"}, stages=stages(Map=8.0))

    assert within(after(known, "prefetch", "off")) == pytest.approx(
        (WORK + 0.9 * 8 - 0.1, WORK + 8 - 0.1, WORK + 1.1 * 8 - 0.1)
    )


def test_of_maps_that_ran_in_parallel_the_stages_tell_too_much() -> None:
    known = evidence(
        0.1, knobs={"prefetch": "4", "workers": "16"}, stages=stages(Map=100.0), cores=16
    )

    assert within(after(known, "workers", "off")) == pytest.approx((30, 70, 110), rel=0.03)


def test_a_cache_is_told_by_what_it_leaves() -> None:
    found = after(evidence(20.0, knobs={"cache": "off"}), "cache", "on")

    assert within(found) == pytest.approx((WORK + 0.4, WORK + 6, WORK + 18))


def test_a_cache_that_was_never_off_has_no_forecast() -> None:
    known = evidence(1.0, knobs={"cache": "on"})
    assert known.breakdown is not None

    why = "the time of a batch without a cache has not been measured in this run"
    assert predict(known, known.breakdown, "cache", "off", {}) == why


def test_batches_made_under_pythons_lock_may_hold_a_launch_up() -> None:
    table = StageTable(0, (Stage("generator", "python", 9.6),))
    free, held = (after(evidence(9.6, stages=one), "prefetch", "4") for one in (None, table))

    assert held.step_ms == free.step_ms
    assert held.high_ms - free.high_ms == pytest.approx(2.0)  # what a launch took


@pytest.mark.parametrize(
    ("cores", "used", "free", "step_ms", "high_ms"),
    [
        pytest.param(2, 1.5, 0.5, 1.5 * 23.8 / 2, 1.5 * 23.8 / 2, id="all of two cores"),
        pytest.param(
            6, 3.0, 1.0, 3 * 23.8 / 5, 3 * 23.8 / 4, id="others yield half of what they use"
        ),
        pytest.param(8, 1.0, 7.0, WORK, WORK, id="cores enough"),
    ],
)
def test_compute_and_data_share_the_cores_of_a_cpu(
    cores: int, used: float, free: float, step_ms: float, high_ms: float
) -> None:
    known = evidence(10.0, accelerated=False, cores=cores, cores_used=used, cores_free=free)
    found = after(known, "prefetch", "4")

    assert (found.step_ms, found.high_ms) == pytest.approx((step_ms, high_ms), rel=0.01)
    assert ("share the cores" in found.why) is (high_ms > WORK)


def test_more_threads_on_a_cpu_may_make_a_step_longer() -> None:
    found = after(evidence(0.0, accelerated=False, cores=2), "workers", "2")

    assert (found.step_ms, found.high_ms) == pytest.approx((WORK, 1.4 * WORK))
    assert after(evidence(0.0), "workers", "2").high_ms == pytest.approx(WORK)


MAPS = StageTable(
    0,
    (Stage("range", "Range", 0.0), Stage("map(read)", "Map", 6.0), Stage("map(turn)", "Map", 2.0)),
)
NAMES = ("map(read)", "map(turn)")


def staged(**known: Any) -> Evidence:
    """Two serial maps of 6 and 2 ms of single elements, as a script writes them."""
    given = {
        "knobs": {"workers": "default"},
        "stages": MAPS,
        "parallel_stages": NAMES,
        "batch_size": 1,
        **known,
    }
    return evidence(8.0, **given)


@pytest.mark.parametrize(
    ("value", "prefetch", "step_ms"),
    [
        pytest.param(
            "default/4",
            "off",
            WORK,
            id="the last stage works while the step runs, and with it all below",
        ),
        pytest.param(
            "4/default", "off", WORK + 2, id="a serial stage at the end works after the step"
        ),
        pytest.param("4/4", "4", WORK + 0.2, id="all of it behind a prefetch"),
        pytest.param("4/default", "4", WORK + 0.2, id="one of them behind a prefetch"),
    ],
)
def test_a_stage_with_calls_of_its_own_leaves_the_work_of_the_others(
    value: str, prefetch: str, step_ms: float
) -> None:
    found = after(staged(), "workers", value, prefetch=prefetch)

    assert found.step_ms == pytest.approx(step_ms, abs=0.6)


def test_two_maps_of_one_name_are_told_by_their_order() -> None:
    table = StageTable(
        0, (Stage("range", "Range", 0.0), Stage("map", "Map", 6.0), Stage("map", "Map", 2.0))
    )
    known = staged(stages=table, parallel_stages=("map", "map"))

    assert after(known, "workers", "4/default") == after(staged(), "workers", "4/default")


def test_a_map_fused_with_its_batch_is_known_and_loses_what_it_worked_ahead_to_a_prefetch() -> None:
    fused = StageTable(
        0, (Stage("map(read)", "Map", 6.0), Stage("map(turn), batch(8)", "MapAndBatch", 2.0, 2.0))
    )
    known = staged(stages=fused, knobs={"workers": "default", "prefetch": "default"})

    assert after(known, "workers", "off").step_ms == pytest.approx(WORK + 8, abs=0.3)


def test_a_single_call_waits_for_the_stages_below_it() -> None:
    table = StageTable(
        0, (Stage("map(read)", "Map", 60.0), Stage("map(turn)", "ParallelMapV2", 20.0, 2.0))
    )
    known = staged(stages=table, knobs={"workers": "default", "prefetch": "4"})
    one, two = (after(known, "workers", value) for value in ("default/1", "default/2"))

    assert one.step_ms - two.step_ms == pytest.approx(
        0.7 * 20.0
    )  # what ran beside each other took less alone


def test_the_slowest_stage_limits_what_a_prefetch_hides() -> None:
    slow = StageTable(0, (Stage("map(read)", "Map", 60.0), Stage("map(turn)", "Map", 20.0)))
    known = evidence(
        80.0, knobs={"workers": "default"}, stages=slow, parallel_stages=NAMES, batch_size=1
    )
    alone, both = (
        after(known, "workers", value, prefetch="4").step_ms for value in ("2/default", "2/2")
    )

    assert [alone, both] == pytest.approx([60 * 1.05 / 2] * 2, rel=0.02)
    assert after(known, "workers", "default/2", prefetch="4").step_ms == pytest.approx(60, rel=0.02)


@pytest.mark.parametrize(
    ("known", "value", "why"),
    [
        pytest.param(
            {"stages": None}, "4/off", "tf.data does not show the work of each stage", id="unread"
        ),
        pytest.param(
            {"parallel_stages": ("map(read)", "map(read)")},
            "4/off",
            "tf.data does not show the work of each stage",
            id="two of one name",
        ),
        pytest.param(
            {"knobs": {"workers": "4/4"}},
            "default/4",
            "the stage as the script writes it has not run yet in this run",
            id="back to the script's own",
        ),
    ],
)
def test_a_stage_that_is_not_known_has_no_forecast(
    known: dict[str, Any], value: str, why: str
) -> None:
    made = staged(**known)

    assert made.breakdown is not None
    assert predict(made, made.breakdown, "workers", value, {}) == why
