"""The GPU's counter beside the step times: reported where they disagree over the same seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.samples import make_samples
from tests.judge.step_rows import make_steps
from tfwatch.core.rows import Flag
from tfwatch.judge.findings.machine import (
    LEAST_S,
    WINDOW_S,
    GpuCheck,
    Growth,
    check_gpu,
    disagreement_text,
    growth,
)
from tfwatch.judge.steps.verdict import Bound

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

HIGH = "short kernels keep it high; step times decide"
NAN = float("nan")


@pytest.mark.parametrize(
    ("wait_share", "busy", "disagrees"),
    [
        pytest.param(0.41, 0.59, False, id="starving 41 %, busy for the rest"),
        pytest.param(0.41, 0.68, False, id="within what a counter averages"),
        pytest.param(0.41, 0.70, True, id="busier than the rest"),
        pytest.param(0.20, 0.91, True, id="starving 20 %, busy 91 %"),
        pytest.param(0.20, 0.88, False, id="starving 20 %, busy 88 %"),
        pytest.param(0.19, 0.97, False, id="not highly input-bound"),
    ],
)
def test_a_starving_device_cannot_be_busy_for_more_than_the_rest(
    wait_share: float, busy: float, disagrees: bool
) -> None:
    words = disagreement_text(GpuCheck(wait_share, busy), Bound.INPUT, accelerated=True)

    assert words == (f"GPU counter reads {busy * 100:.0f} %: {HIGH}" if disagrees else "")


def test_an_idle_gpu_without_data_wait_is_reported() -> None:
    idle = GpuCheck(0.01, 0.12)

    words = "GPU counter reads 12 %: gaps between short kernels, or work on the CPU"
    assert disagreement_text(idle, Bound.COMPUTE, accelerated=True) == words
    assert disagreement_text(GpuCheck(0.01, 0.31), Bound.COMPUTE, accelerated=True) == ""
    assert disagreement_text(idle, Bound.HOST, accelerated=True) == "", (
        "host code keeps it idle: nothing to wonder at"
    )


@pytest.mark.parametrize(
    ("found", "bound", "accelerated"),
    [
        (None, Bound.INPUT, True),
        (GpuCheck(0.4, 0.99), None, True),
        (GpuCheck(0.4, 0.99), Bound.INPUT, False),
    ],
    ids=["no counter", "no verdict", "the CPU trains"],
)
def test_without_both_sides_nothing_disagrees(
    found: GpuCheck | None, bound: Bound | None, accelerated: bool
) -> None:
    assert disagreement_text(found, bound, accelerated) == ""


# -- the same seconds ------------------------------------------------------------------------------


def steps() -> Rows:
    """Ten seconds of steps of 20 ms that wait for 8 of it."""
    return make_steps(np.full(500, 8.0), compute=11.0, host=1.0)


def samples(busy: float = 0.9, ours: float = NAN) -> Rows:
    return make_samples(np.arange(0, 10.5, 0.5), gpu_busy=busy, gpu_process_busy=ours)


def test_both_are_of_the_last_five_seconds() -> None:
    early = samples()
    early["gpu_busy"][:11] = 0.0

    found = check_gpu(steps(), early, now_s=10.0)

    assert found is not None
    assert found.wait_share == pytest.approx(0.4)
    assert found.busy == pytest.approx(0.9)


def test_the_trainings_own_share_counts_where_it_is_known() -> None:
    found = check_gpu(steps(), samples(0.97, ours=0.55), now_s=10.0)

    assert found is not None
    assert found.busy == pytest.approx(0.55)


def test_nothing_from_before_a_switch_counts() -> None:
    changed = samples()
    changed["gpu_busy"][:17] = 0.0

    found = check_gpu(steps(), changed, now_s=10.0, since_s=8.0)

    assert found is not None
    assert found.busy == pytest.approx(0.9)
    assert check_gpu(steps(), samples(), now_s=10.0, since_s=9.0) is None, (
        "two samples say too little"
    )


def flagged() -> Rows:
    rows = steps()
    rows["flags"][400] = Flag.VALIDATION
    return rows


def with_a_gap() -> Rows:
    """Validation ran for a second, which no step holds."""
    rows = steps()
    rows["start_ns"][400:] += np.uint64(10**9)
    return rows


@pytest.mark.parametrize(
    ("rows", "now_s"),
    [
        pytest.param(steps(), 11.0, id="a step is open for a second"),
        pytest.param(flagged(), 10.0, id="a step that is not steady"),
        pytest.param(with_a_gap(), 11.0, id="something lay between the steps"),
        pytest.param(steps()[:0], 10.0, id="no step"),
    ],
)
def test_figures_of_different_seconds_are_not_compared(rows: Rows, now_s: float) -> None:
    assert check_gpu(rows, samples(), now_s) is None


@pytest.mark.parametrize(
    "rows", [samples(NAN), samples()[:0], samples()[:12]], ids=["never read", "none", "too old"]
)
def test_without_a_counter_there_is_no_comparison(rows: Rows) -> None:
    assert check_gpu(steps(), rows, now_s=10.0) is None


GIB = 2**30
HOUR = 3600.0


def memory_samples(available: np.ndarray) -> Rows:
    return make_samples(np.arange(len(available)) * 0.5, memory_available_bytes=available)


def ramp(seconds: float, bytes_h: float, start: float = 6 * GIB) -> np.ndarray:
    return start - np.arange(0, seconds, 0.5) * bytes_h / HOUR


def test_a_leak_has_a_slope_and_an_end() -> None:
    found = growth(memory_samples(ramp(600, 1.2 * GIB)))

    assert found is not None
    assert found.bytes_h == pytest.approx(1.2 * GIB, rel=0.02)
    assert found.left_s == pytest.approx((6 - 0.2) / 1.2 * HOUR, rel=0.02)


def test_noise_and_single_jumps_do_not_move_it() -> None:
    noise = np.random.default_rng(1).normal(0, 30 * 2**20, 1200)
    noise[100:110] += 2 * GIB
    found = growth(memory_samples(ramp(600, 2 * GIB) + noise))

    assert found is not None
    assert found.bytes_h == pytest.approx(2 * GIB, rel=0.1)


@pytest.mark.parametrize(
    "available",
    [
        pytest.param(np.full(1200, 6.0 * GIB), id="steady"),
        pytest.param(
            6 * GIB + np.random.default_rng(2).normal(0, 200 * 2**20, 3600),
            id="other programs come and go",
        ),
        pytest.param(ramp(600, -2 * GIB), id="memory is given back"),
        pytest.param(np.maximum(ramp(1200, 12 * GIB), 5 * GIB), id="a buffer that has filled up"),
        pytest.param(ramp(150, 0.1 * GIB), id="not enough growth"),
    ],
)
def test_what_is_no_leak_is_steady(available: np.ndarray) -> None:
    assert growth(memory_samples(available)) == Growth()


@pytest.mark.parametrize(
    "available",
    [
        pytest.param(np.array([]), id="no sample"),
        pytest.param(np.full(600, np.nan), id="never read"),
        pytest.param(ramp(LEAST_S - 1, 2 * GIB), id="too short"),
    ],
)
def test_without_enough_samples_there_is_no_growth(available: np.ndarray) -> None:
    assert growth(memory_samples(available)) is None


def test_only_the_last_half_hour_counts() -> None:
    before, after = ramp(2 * WINDOW_S, 3 * GIB, 12 * GIB), np.full(round(2 * WINDOW_S), 6.0 * GIB)

    assert growth(memory_samples(np.concatenate([before, after]))) == Growth()


def test_half_an_hour_is_one_also_where_samples_are_rare() -> None:
    steady_then_leaking = np.concatenate(
        [np.full(round(WINDOW_S), 6.0 * GIB), ramp(WINDOW_S / 2, 4 * GIB)]
    )
    rare = make_samples(
        np.arange(len(steady_then_leaking)) * 1.0, memory_available_bytes=steady_then_leaking
    )
    found = growth(rare)

    assert found is not None
    assert found.bytes_h == pytest.approx(2 * GIB, rel=0.02)


def test_a_leak_is_reported_from_64_megabytes_on() -> None:
    found = [growth(memory_samples(ramp(600, mb * 6 * 2**20))) for mb in (60, 70)]

    assert found[0] == Growth()
    assert found[1] is not None
    assert found[1].bytes_h == pytest.approx(420 * 2**20, rel=0.02)


def test_used_up_memory_has_no_time_left() -> None:
    found = growth(memory_samples(np.maximum(ramp(600, 6 * GIB, GIB), 0)))

    assert found is not None
    assert found.left_s == pytest.approx(0, abs=1)
