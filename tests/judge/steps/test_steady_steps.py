from __future__ import annotations

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain, spike_steps
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.steps import steady_steps
from tfwatch.judge.steps.steady_steps import NEEDED, Breakdown, Verdict, breakdown, steady

NOT, MODERATELY, HIGHLY = Verdict


def judge(rows: Rows) -> Breakdown:
    """Split the newest steps."""
    split = steady_steps.judge(rows)
    assert split
    return split


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        (0.0, NOT),
        (0.049, NOT),
        (0.0501, MODERATELY),
        (0.199, MODERATELY),
        (0.2001, HIGHLY),
        (0.9, HIGHLY),
    ],
)
def test_the_lines_are_5_and_20_percent(share: float, verdict: Verdict) -> None:
    split = judge(plain(100, share))

    assert split.verdict is verdict
    assert split.wait_share == pytest.approx(share)


@pytest.mark.parametrize("count", [1, NEEDED - 1])
def test_below_20_steady_steps_nothing_is_judged(count: int) -> None:
    split = judge(plain(count, 0.5))

    assert (split.verdict, split.steps) == (None, count)
    assert steady_steps.judge(plain(0)) is None


def test_flagged_steps_do_not_count() -> None:
    rows = plain(100, 0.01)
    rows["flags"][::2] = Flag.EPOCH_START
    rows["wait_ms"][::2] = 500

    assert (judge(rows).verdict, judge(rows).steps) == (NOT, 50)


def test_the_window_is_two_seconds_of_steps() -> None:
    rows = np.concatenate([plain(500, 0.5), plain(100, 0.0)])

    assert (judge(rows).verdict, judge(rows).steps) == (NOT, 100)


def test_of_short_steps_the_window_is_two_seconds_too() -> None:
    rows = make_steps(np.full(5000, 0.1), compute=0.9, host=0.0)
    rows["wait_ms"][:4000] = 5.0
    assert judge(rows).steps == 1000 + 169  # a second of steps of 1 ms, and one of 5.9 ms
    assert judge(rows).verdict is HIGHLY
    assert judge(rows[4000:]).verdict is MODERATELY


def test_of_slow_steps_the_window_is_twenty() -> None:
    rows = make_steps(np.repeat([900.0, 0.0], [50, 20]), compute=1000.0, host=0.0)

    assert (judge(rows).verdict, judge(rows).steps) == (NOT, 20)


def test_steps_before_a_switch_are_of_another_setting() -> None:
    rows = np.concatenate([plain(50, 0.5), plain(15, 0.0)])
    rows["flags"][50] = Flag.SWITCH

    split = judge(rows)

    assert (split.verdict, split.steps) == (None, 14)
    assert split.wait_share == 0


def test_a_single_long_wait_changes_no_verdict() -> None:
    rows = plain(300, 0.01)
    rows["wait_ms"][290] = 20_000

    assert judge(rows).verdict is NOT


def test_long_waits_that_come_back_do() -> None:
    rows = plain(300, 0.01)
    rows["wait_ms"][::40] = 400

    assert judge(rows).verdict is HIGHLY


def in_epochs(steps: int, calls: int = 1) -> Rows:
    """Return 210 steps of 12 ms, some in each call, in epochs whose ends take 28 ms more."""
    numbers = np.arange(1, 211)
    ends = numbers % steps == 0
    hosts = np.where(numbers % calls == 0, 1.0 * calls, 0.0)
    rows = make_steps(np.full(210, 1.0), compute=10.0, host=hosts + 28.0 * ends)
    rows["flags"][1:][ends[:-1]] = Flag.EPOCH_START
    return rows


@pytest.mark.parametrize("calls", [1, 5])
def test_the_ends_of_epochs_are_no_steps(calls: int) -> None:
    kept = steady(in_epochs(25, calls))
    assert len(kept) == 210 - 8 * (calls + 1)
    assert kept["host_ms"].max() < 1.5
    assert judge(in_epochs(25, calls)).host.mean < 2.0


@pytest.mark.parametrize("first", range(5))
def test_stretches_of_one_training_keep_the_same_steps_wherever_they_are_cut(first: int) -> None:
    kept = steady(in_epochs(5)[first : first + 60])
    assert kept["host_ms"][:-1].max() < 1.5  # the last one may end an epoch: nothing shows that


def test_the_ends_of_epochs_of_a_few_steps_stay() -> None:
    kept = steady(in_epochs(4))
    assert len(kept) == 210 - 52
    assert kept["host_ms"].max() == 29.0


def test_the_parts_of_a_stretch_are_summed_up() -> None:
    rows = make_steps(np.arange(101.0), compute=10.0, host=1.0, dispatch=4.0)

    split = breakdown(rows)

    assert split is not None
    assert split.steps == 101
    assert (split.wait.median, split.wait.mean, split.wait.p95) == pytest.approx((50, 50, 95))
    assert (split.step.median, split.step.mean, split.step.p95) == pytest.approx((61, 61, 106))
    assert split.dispatch.mean == pytest.approx(4)
    assert split.compute.mean == pytest.approx(10)
    assert split.wait_share == pytest.approx(50 / 61)


def test_steps_of_no_time_share_nothing() -> None:
    split = breakdown(make_steps(np.zeros(3), compute=0.0, host=0.0))

    assert split is not None
    assert split.wait_share == 0.0


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


def test_the_copy_is_a_part_of_its_own_and_the_parts_sum_to_the_step() -> None:
    split = breakdown(make_steps(np.ones(10), compute=10.0, host=1.0, dispatch=2.0, copy=4.0))

    assert split is not None
    assert split.copy is not None
    assert (split.copy.mean, split.compute.mean) == (4.0, 6.0)
    assert (
        split.wait.mean + split.copy.mean + split.compute.mean + split.host.mean == split.step.mean
    )
    assert split.work_mean_ms == 11.0


def test_a_copy_that_is_not_timed_is_missing_and_stays_in_compute() -> None:
    split = breakdown(make_steps(np.ones(10), compute=10.0, host=1.0))

    assert split is not None
    assert (split.copy, split.compute.mean, split.copying_ms(3.0)) == (None, 10.0, 0.0)


# -- single spikes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step_ms", "extra_ms", "found"),
    [
        pytest.param(2.0, 24.0, [], id="below 25 ms"),
        pytest.param(2.0, 26.0, [51], id="above 25 ms"),
        pytest.param(50.0, 49.0, [], id="below the median"),
        pytest.param(50.0, 51.0, [51], id="above the median"),
    ],
)
def test_an_unflagged_step_stands_out_by_25_ms_and_the_median(
    step_ms: float, extra_ms: float, found: list[int]
) -> None:
    rows = make_steps(np.zeros(100), compute=step_ms, host=0.0)
    rows["host_ms"][50] = extra_ms

    assert spike_steps(rows) == found


def test_the_median_is_that_of_the_unflagged_steps_around() -> None:
    rows = make_steps(np.zeros(600), compute=np.repeat([10.0, 400.0], 300), host=0.0)
    rows["host_ms"][100] = 100
    rows["flags"][80:120:2], rows["wait_ms"][80:120:2] = Flag.EPOCH_START, 2000.0
    rows["flags"][100] = 0
    rows["wait_ms"][100] = 0.0

    assert spike_steps(rows) == [101]


def test_three_slow_steps_in_two_hundred_are_no_spikes() -> None:
    rows = plain(1000)
    rows["wait_ms"][[100, 900]] = 500
    rows["wait_ms"][[400, 450, 500]] = 500

    assert spike_steps(rows) == [101, 901]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_steps_and_flagged_ones_have_no_spikes(count: int) -> None:
    rows = plain(count)
    assert spike_steps(rows) == []
    rows["flags"] = Flag.COMPILE
    assert spike_steps(rows) == []


def test_a_long_run_is_searched_in_parts() -> None:
    rows = plain(400_000)
    rows["wait_ms"][[10, 300_000, 399_999]] = 5000

    assert spike_steps(rows) == [11, 300_001, 400_000]
