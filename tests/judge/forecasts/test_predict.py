"""The step after a switch that a run has not seen: each guess by its formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.judge.evidences import evidence, stages
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


def test_a_cache_that_was_never_off_has_no_forecast() -> None:
    known = evidence(1.0, knobs={"cache": "on"})
    assert known.breakdown is not None

    why = "the time of a batch without a cache has not been measured in this run"
    assert predict(known, known.breakdown, "cache", "off", {}) == why


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
