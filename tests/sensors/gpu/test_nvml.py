"""Figures of the NVML source over a fake library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.sensors.nvml import (
    MISSING,
    OTHER,
    OWN,
    FakeNvml,
    NVMLError,
    opened,
    sample,
)
from tfwatch.sensors.protocol import GpuIdentity, SensorError

pytestmark = pytest.mark.usefixtures("driver")


def test_a_reading_has_the_figures_of_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    nvml.samples = [sample(OWN, 10, 30), sample(OTHER, 10, 5), sample(OWN, 20, 20)]
    source = opened(nvml, monkeypatch)
    reading = source.read()

    assert (reading.busy, reading.power_w, reading.memory_bytes) == (0.37, 301.5, 2**30)
    assert (reading.temperature_c, reading.freq_mhz, reading.process_busy) == (61, 1980, 0.25)
    assert (reading.thermal_level, reading.limited_by) == (0.0, "")
    assert source.identity() == GpuIdentity("NVIDIA gpu0", 2**34, unified=False, gpus=1)
    assert source.gaps() == {}


def test_a_mig_slice_has_its_own_memory_and_no_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(
        nvmlDeviceGetMemoryInfo=lambda handle, version=None: SimpleNamespace(
            used=len(handle), total=2**30
        ),
    )
    source = opened(nvml, monkeypatch, visible="MIG-1")
    reading = source.read()

    assert reading.memory_bytes == len("slice MIG-1")
    assert (reading.busy, reading.power_w, reading.process_busy) == (None, None, None)
    assert (reading.temperature_c, reading.freq_mhz) == (61, 1980)
    assert {"busy", "power_w", "process_busy"} == set(source.gaps())
    assert source.gaps()["busy"].reason == "the driver reports only a MIG slice's memory"


def test_a_refused_figure_is_read_once_and_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(nvmlDeviceGetPowerUsage=NVMLError(3), nvmlDeviceGetTemperature=MISSING)
    source = opened(nvml, monkeypatch)
    assert [source.read().power_w for _ in range(3)] == [None] * 3

    assert [call for call in nvml.calls if call[0] == "nvmlDeviceGetPowerUsage"] == [
        ("nvmlDeviceGetPowerUsage", "gpu0")
    ]
    assert source.gaps()["power_w"].reason == "the NVIDIA driver refuses it: Not Supported"
    assert source.gaps()["temperature_c"].reason == "this nvidia-ml-py is too old for it"
    assert source.read().busy == 0.37


def test_an_old_driver_has_other_calls_for_memory_and_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def memory(handle: str, version: int | None = None) -> Any:
        return NVMLError(13) if version else SimpleNamespace(used=2**31, total=2**34)

    nvml = FakeNvml(
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetCurrentClocksEventReasons=NVMLError(13),
        nvmlDeviceGetCurrentClocksThrottleReasons=0x40 | 0x4,
    )
    source = opened(nvml, monkeypatch)
    reading = source.read()

    assert reading.memory_bytes == 2**31
    assert (reading.limited_by, reading.thermal_level) == ("thermal slowdown by the hardware", 4.0)
    assert source.gaps() == {}


@pytest.mark.parametrize(
    ("bits", "words", "level"),
    [
        pytest.param(0x0, "", 0.0, id="nothing"),
        pytest.param(0x1 | 0x4, "", 0.0, id="idle, at its power cap: nothing"),
        pytest.param(0x20, "thermal slowdown by the driver", 3.0, id="by the driver"),
        pytest.param(
            0x48, "thermal slowdown by the hardware", 4.0, id="the hardware's comes first"
        ),
        pytest.param(0x88, "power brake", 3.0, id="power brake"),
        pytest.param(0x8, "hardware slowdown", 3.0, id="of unknown kind"),
    ],
)
def test_the_limits_of_the_clock(
    bits: int, words: str, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = opened(FakeNvml(nvmlDeviceGetCurrentClocksEventReasons=bits), monkeypatch).read()

    assert (reading.limited_by, reading.thermal_level) == (words, level)


def test_a_gpu_that_is_lost_ends_the_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(FakeNvml(nvmlDeviceGetUtilizationRates=NVMLError(15)), monkeypatch)
    with pytest.raises(SensorError, match="NVML: GPU is lost"):
        source.read()
    source.close()
    source.close()
    with pytest.raises(SensorError, match="closed"):
        source.read()
