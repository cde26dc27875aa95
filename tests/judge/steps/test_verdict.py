from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain
from tfwatch.core.rows import PROGRESS, Flag, Rows
from tfwatch.judge.steps.verdict import (
    NEEDED,
    Bound,
    Conditions,
    Judgement,
    Verdict,
    breakdown,
    judge,
    left_s,
    steady,
)

UNKNOWN, NOT, MODERATELY, HIGHLY = Verdict
INPUT, HOST, COPY, LAUNCH, COMPUTE = Bound


def judged(
    rows: Rows, before: Verdict = Verdict.UNKNOWN, bound: Bound | None = None, **conditions: Any
) -> Judgement:
    return judge(rows, Conditions(**conditions), Judgement(before, 0, 0, None, bound))


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
    judgement = judged(plain(100, share))

    assert judgement.verdict is verdict
    assert judgement.breakdown is not None
    assert judgement.breakdown.wait_share == pytest.approx(share)


@pytest.mark.parametrize(
    ("before", "share", "verdict"),
    [
        (NOT, 0.069, NOT),
        (NOT, 0.071, MODERATELY),
        (NOT, 0.219, MODERATELY),
        (NOT, 0.221, HIGHLY),
        (MODERATELY, 0.031, MODERATELY),
        (MODERATELY, 0.029, NOT),
        (MODERATELY, 0.219, MODERATELY),
        (MODERATELY, 0.221, HIGHLY),
        (HIGHLY, 0.181, HIGHLY),
        (HIGHLY, 0.179, MODERATELY),
        (HIGHLY, 0.031, MODERATELY),
        (HIGHLY, 0.029, NOT),
    ],
)
def test_a_verdict_changes_two_points_past_the_line(
    before: Verdict, share: float, verdict: Verdict
) -> None:
    assert judged(plain(100, share), before).verdict is verdict


@pytest.mark.parametrize(
    ("before", "host", "bound"),
    [
        (None, 0.19, COMPUTE),
        (None, 0.21, HOST),
        (COMPUTE, 0.21, COMPUTE),
        (COMPUTE, 0.23, HOST),
        (HOST, 0.19, HOST),
        (HOST, 0.17, COMPUTE),
    ],
)
def test_host_bound_is_a_fifth_lost_between_the_steps(
    before: Bound | None, host: float, bound: Bound
) -> None:
    rows = make_steps(np.zeros(100), compute=20 * (1 - host), host=20 * host)

    assert (judged(rows, bound=before).verdict, judged(rows, bound=before).bound) == (NOT, bound)


@pytest.mark.parametrize(
    ("before", "dispatch", "bound"),
    [
        (None, 9.9, COMPUTE),
        (None, 10.1, LAUNCH),
        (COMPUTE, 10.3, COMPUTE),
        (COMPUTE, 10.5, LAUNCH),
        (LAUNCH, 9.7, LAUNCH),
        (LAUNCH, 9.5, COMPUTE),
        (HOST, 10.3, COMPUTE),
    ],
)
def test_launch_bound_is_more_dispatch_than_drain(
    before: Bound | None, dispatch: float, bound: Bound
) -> None:
    rows = make_steps(np.zeros(100), compute=20.0, host=0.5, dispatch=dispatch)

    assert judged(rows, accelerated=True, bound=before).bound is bound


def test_on_a_cpu_dispatch_is_the_compute() -> None:
    rows = make_steps(np.zeros(100), compute=20.0, host=0.5, dispatch=19.9)

    assert judged(rows, accelerated=False).bound is COMPUTE
    assert judged(rows, accelerated=False, bound=LAUNCH).bound is COMPUTE


@pytest.mark.parametrize(
    ("before", "python", "bound"),
    [
        (None, 3.9, COMPUTE),
        (None, 4.1, LAUNCH),
        (COMPUTE, 4.3, COMPUTE),
        (COMPUTE, 4.5, LAUNCH),
        (LAUNCH, 3.7, LAUNCH),
        (LAUNCH, 3.5, COMPUTE),
    ],
)
def test_op_by_op_on_a_cpu_a_fifth_in_python_is_launch_bound(
    before: Bound | None, python: float, bound: Bound
) -> None:
    rows = make_steps(np.zeros(100), compute=19.5, host=0.5, dispatch=python)

    assert judged(rows, op_by_op=True, bound=before).bound is bound


def test_op_by_op_on_a_gpu_is_judged_as_any_step_there() -> None:
    rows = make_steps(np.zeros(100), compute=19.5, host=0.5, dispatch=9.0)

    assert judged(rows, accelerated=True, op_by_op=True).bound is COMPUTE


def test_callbacks_come_before_launching() -> None:
    rows = make_steps(np.zeros(100), compute=10.0, host=9.0, dispatch=9.0)

    assert judged(rows, accelerated=True).bound is HOST


def test_an_input_bound_run_is_never_called_anything_else() -> None:
    rows = make_steps(np.full(100, 2.0), compute=8.0, host=10.0, dispatch=8.0)

    assert (judged(rows, accelerated=True).verdict, judged(rows, accelerated=True).bound) == (
        MODERATELY,
        INPUT,
    )


def test_without_enough_data_nothing_is_named() -> None:
    assert judged(plain(NEEDED - 1, 0.5), bound=HOST).bound is None


@pytest.mark.parametrize("count", [0, 1, NEEDED - 1])
def test_below_20_steady_steps_nothing_is_judged(count: int) -> None:
    judgement = judged(plain(count, 0.5), before=HIGHLY)

    assert (judgement.verdict, judgement.steps, judgement.needed) == (UNKNOWN, count, 20)


def test_20_steady_steps_are_enough() -> None:
    rows = plain(21, 0.5)
    rows["flags"][0] = Flag.COMPILE

    assert (judged(rows).verdict, judged(rows).steps) == (HIGHLY, 20)


def test_flagged_steps_do_not_count() -> None:
    rows = plain(100, 0.01)
    rows["flags"][::2] = Flag.EPOCH_START
    rows["wait_ms"][::2] = 500

    assert (judged(rows).verdict, judged(rows).steps) == (NOT, 50)


def test_the_window_is_two_seconds_of_steps() -> None:
    rows = np.concatenate([plain(500, 0.5), plain(100, 0.0)])

    assert (judged(rows).verdict, judged(rows).steps) == (NOT, 100)


def test_of_short_steps_the_window_is_two_seconds_too() -> None:
    rows = make_steps(np.full(5000, 0.1), compute=0.9, host=0.0)
    rows["wait_ms"][:4000] = 5.0
    assert judged(rows).steps == 1000 + 169  # a second of steps of 1 ms, and one of 5.9 ms
    assert judged(rows).verdict is Verdict.HIGHLY
    assert judged(rows[4000:]).verdict is Verdict.MODERATELY


def test_of_slow_steps_the_window_is_twenty() -> None:
    rows = make_steps(np.repeat([900.0, 0.0], [50, 20]), compute=1000.0, host=0.0)

    assert (judged(rows).verdict, judged(rows).steps) == (NOT, 20)


def test_steps_before_a_switch_are_of_another_setting() -> None:
    rows = np.concatenate([plain(50, 0.5), plain(15, 0.0)])
    rows["flags"][50] = Flag.SWITCH

    judgement = judged(rows, HIGHLY)

    assert (judgement.verdict, judgement.steps) == (UNKNOWN, 14)
    assert judgement.breakdown is not None
    assert judgement.breakdown.wait_share == 0


def test_a_single_long_wait_changes_no_verdict() -> None:
    rows = plain(300, 0.01)
    rows["wait_ms"][290] = 20_000

    assert judged(rows).verdict is NOT


def test_long_waits_that_come_back_do() -> None:
    rows = plain(300, 0.01)
    rows["wait_ms"][::40] = 400

    assert judged(rows).verdict is HIGHLY


@pytest.mark.parametrize(
    ("before", "copy", "bound"),
    [
        (None, 3.9, COMPUTE),
        (None, 4.1, COPY),
        (COMPUTE, 4.3, COMPUTE),
        (COPY, 3.7, COPY),
        (COPY, 3.5, COMPUTE),
    ],
)
def test_a_fifth_of_the_step_in_copying_is_copy_bound(
    before: Bound | None, copy: float, bound: Bound
) -> None:
    rows = make_steps(np.zeros(100), compute=19.5, host=0.5, dispatch=1.0, copy=copy)

    assert judged(rows, accelerated=True, bound=before).bound is bound


def test_a_run_that_copies_is_not_launch_bound() -> None:
    copies = make_steps(np.zeros(100), compute=16.5, host=0.2, dispatch=1.0, copy=14.5)
    hidden = make_steps(np.zeros(100), compute=16.5, host=0.2, dispatch=15.5)

    assert (judged(copies, accelerated=True).bound, judged(hidden, accelerated=True).bound) == (
        COPY,
        LAUNCH,
    )


def test_of_copy_and_host_the_larger_is_the_limit() -> None:
    host = make_steps(np.zeros(100), compute=12.0, host=8.0, dispatch=1.0, copy=5.0)
    copy = make_steps(np.zeros(100), compute=15.0, host=5.0, dispatch=1.0, copy=8.0)

    assert (judged(host, accelerated=True).bound, judged(copy, accelerated=True).bound) == (
        HOST,
        COPY,
    )


def test_launching_that_waits_for_copies_ahead_is_not_launch_bound() -> None:
    rows = make_steps(np.zeros(100), compute=11.0, host=0.3, dispatch=10.0, copy=0.0)

    assert judged(rows, accelerated=True, copy_ahead_ms=10.4).bound is COPY
    assert judged(rows, accelerated=True, copy_ahead_ms=0.2).bound is LAUNCH


@pytest.mark.parametrize(
    ("wait_ms", "copy_ms", "bound"),
    [
        pytest.param(0.2, 8.0, Bound.COPY, id="the fetch waits for the copy"),
        pytest.param(0.2, 1.0, Bound.COPY, id="launching waits for the rest of it"),
        pytest.param(8.0, 0.2, Bound.INPUT, id="the fetch waits for the pipeline"),
    ],
)
def test_a_wait_for_the_copy_ahead_is_copy_bound(
    wait_ms: float, copy_ms: float, bound: Bound
) -> None:
    rows = make_steps(
        np.full(200, wait_ms), compute=4.0 + copy_ms, dispatch=3.0, host=0.5, copy=copy_ms
    )
    found = judged(rows, accelerated=True, copy_ahead_ms=9.0)
    assert found.bound is bound
    assert (found.verdict is Verdict.NOT) == (bound is Bound.COPY)


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


def progress(seconds: int, steps_s: int) -> Rows:
    rows = np.zeros(2 * seconds + 1, dtype=PROGRESS)
    rows["at_ns"] = np.arange(len(rows)) * 500_000_000
    rows["step"] = np.arange(len(rows)) * steps_s // 2
    return rows


def test_the_remaining_time_is_estimated_at_the_pace_of_the_last_minute() -> None:
    assert left_s(progress(10, 50), 1500) == pytest.approx(20.0)
    assert left_s(progress(10, 50), 100) == 0.0


def test_without_progress_there_is_no_estimate() -> None:
    assert left_s(progress(10, 50), None) is None
    assert left_s(progress(10, 0), 1500) is None
    assert left_s(progress(0, 50), 1500) is None
