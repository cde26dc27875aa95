from __future__ import annotations

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain
from tfwatch.core.rows import Flag
from tfwatch.judge.steps.verdict import breakdown, steady


def test_the_parts_of_a_stretch_are_summed_up() -> None:
    rows = make_steps(np.arange(101.0), compute=10.0, host=1.0, dispatch=4.0)

    split = breakdown(rows)

    assert split is not None
    assert split.steps == 101
    assert (split.wait.median, split.wait.mean, split.wait.p95) == pytest.approx((50, 50, 95))
    assert (split.step.median, split.step.mean, split.step.p95) == pytest.approx((61, 61, 106))
    assert split.dispatch.mean == pytest.approx(4)
    assert split.compute.mean == pytest.approx(10)
    assert split.host_share == pytest.approx(1 / 61)
    assert split.wait_share == pytest.approx(50 / 61)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 64, 1001])
def test_the_quantiles_are_numpys(count: int) -> None:
    waits = np.random.default_rng(count).gamma(2.0, 5.0, count).astype(np.float32)

    split = breakdown(make_steps(waits, compute=0.0, host=0.0))

    assert split is not None
    assert split.wait.median == pytest.approx(float(np.percentile(waits, 50)), rel=1e-5)
    assert split.wait.p95 == pytest.approx(float(np.percentile(waits, 95)), rel=1e-5)


def test_no_steps_are_no_breakdown() -> None:
    assert breakdown(plain(0)) is None


def test_steps_of_no_time_share_nothing() -> None:
    split = breakdown(make_steps(np.zeros(3), compute=0.0, host=0.0))

    assert split is not None
    assert (split.wait_share, split.host_share) == (0.0, 0.0)


def test_flagged_steps_are_not_steady() -> None:
    rows = plain(100)
    rows["flags"][[0, 50]] = Flag.COMPILE, Flag.EPOCH_START

    assert steady(rows)["step"].tolist() == [*range(2, 51), *range(52, 101)]


def test_a_single_unexplained_spike_is_not_steady() -> None:
    rows = plain(100)
    rows["wait_ms"][40] = 900

    assert 41 not in steady(rows)["step"]
    assert len(steady(rows)) == 99


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(slice(None, None, 2), id="every second step"),
        pytest.param(slice(None, None, 8), id="every eighth step"),
        pytest.param(slice(10, None, 40), id="every fortieth step"),
        pytest.param(slice(60, 70), id="a stretch of ten"),
        pytest.param(slice(150, None), id="from the middle to the end"),
    ],
)
def test_a_slow_regime_is_steady(slow: slice) -> None:
    rows = plain(300)
    rows["wait_ms"][slow] = 400

    assert len(steady(rows)) == 300


def test_steady_of_nothing_and_of_flagged_steps_only_is_nothing() -> None:
    rows = plain(5)
    rows["flags"] = Flag.EPOCH_START

    assert len(steady(plain(0))) == 0
    assert len(steady(rows)) == 0


def test_the_copy_is_a_part_of_its_own_and_the_parts_sum_to_the_step() -> None:
    split = breakdown(make_steps(np.ones(10), compute=10.0, host=1.0, dispatch=2.0, copy=4.0))

    assert split is not None
    assert split.copy is not None
    assert (split.copy.mean, split.compute.mean) == (4.0, 6.0)
    assert (
        split.wait.mean + split.copy.mean + split.compute.mean + split.host.mean == split.step.mean
    )
    assert split.copying_share(None) == pytest.approx(4 / 12)
    assert split.work_mean_ms == 11.0


def test_a_copy_that_is_not_timed_is_missing_and_stays_in_compute() -> None:
    split = breakdown(make_steps(np.ones(10), compute=10.0, host=1.0))

    assert split is not None
    assert (split.copy, split.compute.mean, split.copying_share(3.0)) == (None, 10.0, 0.0)
