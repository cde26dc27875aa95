"""The host's figures from given counters."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tfwatch.core.rows import SAMPLE
from tfwatch.sensors import Available, Unavailable
from tfwatch.sensors.gpu import GpuSensor
from tfwatch.sensors.host import CpuSensor, DiskSensor, Rate, busy_shares, host_sensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECOND_NS = 10**9
LinuxTimes = namedtuple("LinuxTimes", "user nice system idle iowait guest")
MacTimes = namedtuple("MacTimes", "user nice system idle")
Counters = namedtuple("Counters", "read_bytes")


def one_after_another(answers: Sequence[Any]) -> Callable[..., Any]:
    left = iter(answers)
    return lambda *_, **__: next(left)


def test_every_column_of_a_sample_that_a_host_can_fill_is_filled() -> None:
    sensors = host_sensors()
    assert all(isinstance(sensor.available(), Available | Unavailable) for sensor in sensors)
    columns = {column for sensor in sensors for column in sensor.read(1)}
    columns |= {"at_ns", "late_ms", "own_cores"}
    assert columns == set((SAMPLE.names or ())[: len(columns)])


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
def test_cores_in_use_and_the_busiest(before: list[Any], after: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", one_after_another([before, after]))
    sensor = CpuSensor()
    assert all(math.isnan(figure) for figure in sensor.read(0).values())
    assert sensor.read(SECOND_NS) == pytest.approx({"cpu_cores": 1.0, "core_max": 0.9})


@pytest.mark.parametrize(
    ("before", "after", "shares"),
    [
        pytest.param([(1, 10)], [(1.5, 11)], [0.5], id="half busy"),
        pytest.param([(1, 10)], [(0.9, 11)], [0.0], id="a counter that fell is not less than idle"),
        pytest.param([(1, 10)], [(2.1, 11)], [1.0], id="never more than one core"),
        pytest.param([(1, 10)], [(1, 10)], [], id="no time passed"),
        pytest.param([(1, 10)], [(1, 10), (2, 12)], [], id="a core came"),
    ],
)
def test_busy_shares(before: list[Any], after: list[Any], shares: list[float]) -> None:
    assert busy_shares(before, after) == pytest.approx(shares)


def test_a_rate_is_per_second_and_starts_anew_where_its_counter_does() -> None:
    rate = Rate()
    assert math.isnan(rate.of(0, 100))
    assert rate.of(SECOND_NS // 2, 150) == 100
    assert math.isnan(rate.of(SECOND_NS, 10))
    assert rate.of(2 * SECOND_NS, 30) == 20


def test_disk_reads_are_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", one_after_another([Counters(0), Counters(3000), None]))
    sensor = DiskSensor()
    assert math.isnan(sensor.read(0)["disk_read_bytes_s"])
    assert sensor.read(3 * SECOND_NS) == {"disk_read_bytes_s": 1000}
    assert math.isnan(sensor.read(4 * SECOND_NS)["disk_read_bytes_s"])


def test_a_machine_without_disks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: None)
    answer = DiskSensor().available()
    assert isinstance(answer, Unavailable)
    assert answer.reason == "this system shows no disk counters"


def test_no_gpu_figures_are_told_as_such() -> None:
    sensor = GpuSensor()
    answer = sensor.available()
    assert isinstance(answer, Unavailable)
    assert answer.reason == "this version of tfwatch reads no GPU counters"
    assert sensor.read(0) == {}
