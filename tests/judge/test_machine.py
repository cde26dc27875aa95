"""Memory that grows, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.samples import make_samples
from tfwatch.judge.machine import (
    LEAST_S,
    WINDOW_S,
    Growth,
    growth,
)

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

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
