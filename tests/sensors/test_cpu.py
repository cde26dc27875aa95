"""Cores in use."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import psutil
import pytest

from tests.sensors.conftest import one_after_another
from tfwatch.sensors.cpu import CpuSensor, busy_shares

LinuxTimes = namedtuple("LinuxTimes", "user nice system idle iowait guest")
MacTimes = namedtuple("MacTimes", "user nice system idle")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            [LinuxTimes(10, 0, 5, 80, 5, 2), LinuxTimes(0, 0, 0, 0, 0, 0)],
            [LinuxTimes(10.1, 0, 5, 80.8, 5.1, 2.1), LinuxTimes(0.5, 0.2, 0.2, 0.1, 0, 0)],
            id="Linux: waiting for a disk is idle, a guest's time is counted once",
        ),
        pytest.param(
            [MacTimes(10, 0, 5, 80), MacTimes(0, 0, 0, 0)],
            [MacTimes(10.1, 0, 5, 80.9), MacTimes(0.9, 0, 0, 0.1)],
            id="macOS",
        ),
    ],
)
def test_cores_in_use_and_the_busiest(
    before: list[Any], after: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_times", one_after_another([before, after]))
    sensor = CpuSensor()
    assert all(math.isnan(figure) for figure in sensor.read(0).values())
    assert sensor.read(10**9) == pytest.approx({"cpu_cores": 1.0, "core_max": 0.9})


@pytest.mark.parametrize(
    ("before", "after", "shares"),
    [
        pytest.param([(1, 10)], [(1.5, 11)], [0.5], id="half busy"),
        pytest.param([(1, 10)], [(0.9, 11)], [0.0], id="a counter that fell is not less than idle"),
        pytest.param([(1, 10)], [(2.1, 11)], [1.0], id="never more than one core"),
        pytest.param([(1, 10)], [(1, 10)], [], id="no time passed"),
        pytest.param([(1, 10)], [(1, 10), (2, 12)], [], id="a core was added"),
    ],
)
def test_busy_shares(before: list[Any], after: list[Any], shares: list[float]) -> None:
    assert busy_shares(before, after) == pytest.approx(shares)
