"""The NVML source over a fake library: its figures, its process share, its choice of GPUs."""

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.folders import FakeClock
from tests.sensors.nvml import (
    OTHER,
    OWN,
    UNSEEN,
    FakeNvml,
    NVMLError,
    NVMLError_NotFound,
    opened,
    sample,
)
from tfwatch.sensors import nvml as module
from tfwatch.sensors.sensor import GpuReading, SensorError, Unavailable, combine

pytestmark = pytest.mark.usefixtures("driver")


def figures_of(source: Any) -> Mapping[str, float | None]:
    """Return the figures of the only GPU, by their names without `gpu_`."""
    (reading,) = source.read()
    return {name.removeprefix("gpu_"): value for name, value in reading.figures.items()}


def test_a_reading_has_the_figures_of_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    nvml.samples = [sample(OWN, 10, 30), sample(OTHER, 10, 5), sample(OWN, 20, 20)]
    source = opened(nvml, monkeypatch)
    assert source.read() == [
        GpuReading(
            {
                "gpu_busy": 0.37,
                "gpu_process_busy": 0.25,
                "gpu_freq_mhz": 1980,
                "gpu_power_w": 301.5,
                "gpu_memory_bytes": 2**30,
                "thermal_level": 0.0,
            },
            name="NVIDIA gpu0",
            total_bytes=2**34,
        )
    ]
    assert (source.gpus, source.gaps()) == (1, {})


def test_a_refused_figure_is_read_once_and_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(nvmlDeviceGetPowerUsage=NVMLError(3))
    source = opened(nvml, monkeypatch)
    assert [figures_of(source)["power_w"] for _ in range(3)] == [None] * 3

    assert [call for call in nvml.calls if call[0] == "nvmlDeviceGetPowerUsage"] == [
        ("nvmlDeviceGetPowerUsage", "gpu0")
    ]
    assert source.gaps()["gpu_power_w"].reason == "the NVIDIA driver refuses it: Not Supported"
    assert figures_of(source)["busy"] == 0.37


@pytest.mark.parametrize(
    ("bits", "level"), [(0x0, 0.0), (0x1 | 0x4, 0.0), (0x20, 3.0), (0x48, 4.0), (0x88, 3.0)]
)
def test_the_limits_of_the_clock(bits: int, level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(FakeNvml(nvmlDeviceGetCurrentClocksEventReasons=bits), monkeypatch)

    assert source.read()[0].figures["thermal_level"] == level


def test_a_gpu_that_is_lost_ends_the_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(FakeNvml(nvmlDeviceGetUtilizationRates=NVMLError(15)), monkeypatch)
    with pytest.raises(SensorError, match="NVML: GPU is lost"):
        source.read()
    source.close()
    source.close()
    with pytest.raises(SensorError, match="closed"):
        source.read()


# -- the share of this process ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "holders", "share"),
    [
        pytest.param([sample(OWN, 5, 40)], [OWN], 0.4, id="it works"),
        pytest.param([sample(OWN, 5, 140)], [OWN], 1.0, id="never more than all"),
        pytest.param([], [OWN], 0.0, id="it holds memory and idles"),
        pytest.param([sample(OTHER, 5, 90)], [OTHER], 0.0, id="another works"),
        pytest.param([sample(UNSEEN, 5, 90)], [UNSEEN], None, id="numbers of another name space"),
        pytest.param([], [], None, id="busy, and no process is listed"),
    ],
)
def test_the_share_of_this_process(
    samples: list[Any], holders: list[int], share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml(
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=pid) for pid in holders]
    )
    nvml.samples = samples
    source = opened(nvml, monkeypatch)

    assert figures_of(source)["process_busy"] == share
    assert ("gpu_process_busy" in source.gaps()) == (share is None)


def test_the_share_of_an_unlisted_process_is_unknown_on_an_idle_gpu_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    nvml = FakeNvml(nvmlDeviceGetComputeRunningProcesses=[])
    source = opened(nvml, monkeypatch, clock)
    shares = []
    for busy, holders in ((0, []), (40, []), (0, []), (40, [SimpleNamespace(pid=OWN)]), (0, [])):
        nvml.answers["nvmlDeviceGetUtilizationRates"] = SimpleNamespace(gpu=busy)
        nvml.answers["nvmlDeviceGetComputeRunningProcesses"] = holders
        shares.append(figures_of(source)["process_busy"])
        clock.at_s += 1

    assert shares == [0.0, None, None, 0.0, 0.0]


@pytest.mark.parametrize(
    ("error", "share", "gap"),
    [
        pytest.param(NVMLError_NotFound(), 0.0, None, id="nothing ran"),
        pytest.param(NVMLError(0), 0.0, None, id="an empty list of nvidia-ml-py"),
        pytest.param(
            NVMLError(3), None, "the NVIDIA driver refuses it: Not Supported", id="not supported"
        ),
    ],
)
def test_a_driver_without_samples(
    error: NVMLError, share: float | None, gap: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(FakeNvml(nvmlDeviceGetProcessUtilization=error), monkeypatch)

    assert figures_of(source)["process_busy"] == share
    assert getattr(source.gaps().get("gpu_process_busy"), "reason", None) == gap


# -- availability and choice -----------------------------------------------------------------------


def test_a_driver_without_the_library_has_an_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    answer = module.NvmlSource().why_unavailable()

    assert answer == Unavailable("nvidia-ml-py is not installed", "pip install nvidia-ml-py")


@pytest.mark.parametrize(
    ("visible", "gpus", "name"),
    [
        pytest.param(None, 2, "gpu0", id="the first of two"),
        pytest.param("1,0", 2, "gpu1", id="the first that is visible"),
        pytest.param("7", 2, "gpu1", id="one that is not there"),
        pytest.param("GPU-a-1", 2, "gpu1", id="by its UUID"),
        pytest.param("rubbish", 2, "gpu0", id="rubbish"),
    ],
)
def test_the_choice_among_several_gpus(
    visible: str | None, gpus: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(
        FakeNvml(gpus, nvmlDeviceGetHandleByUUID=lambda uuid: f"gpu{uuid[-1]}"),
        monkeypatch,
        visible=visible,
    )

    assert (source.read()[0].name, source.gpus) == (f"NVIDIA {name}", gpus)


@pytest.mark.parametrize(
    ("gpus", "visible", "reason"),
    [
        pytest.param(0, "0", "the NVIDIA driver shows no GPU", id="none"),
        pytest.param(1, "", "CUDA_VISIBLE_DEVICES hides every GPU from this process", id="hidden"),
        pytest.param(
            1, "-1", "CUDA_VISIBLE_DEVICES hides every GPU from this process", id="hidden by -1"
        ),
    ],
)
def test_no_gpu_is_a_reason(
    gpus: int, visible: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(gpus))
    answer = module.NvmlSource(environ={"CUDA_VISIBLE_DEVICES": visible}).why_unavailable()

    assert isinstance(answer, Unavailable)
    assert answer.reason == reason


# -- the GPUs of a strategy ------------------------------------------------------------------------


def by_uuid(uuid: str) -> str | Exception:
    """NVML numbers the GPUs of this machine in the reverse order of CUDA's; one is a slice."""
    known = {"GPU-first": "gpu3", "GPU-second": "gpu1", "MIG-slice": "slice 5"}
    return known.get(uuid, NVMLError(6))


def test_the_gpus_of_a_strategy_are_found_by_their_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {"gpu0": 5, "gpu1": 30, "gpu3": 90}
    nvml = FakeNvml(
        4,
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetUtilizationRates=lambda handle: (
            SimpleNamespace(gpu=busy[handle]) if handle in busy else NVMLError(3)
        ),
    )
    source = opened(nvml, monkeypatch)
    assert figures_of(source)["busy"] == 0.05

    source.follow(("first", "second", "slice", "unknown"))

    assert [(card.name, card.figures.get("gpu_busy")) for card in source.read()] == [
        ("NVIDIA gpu3", 0.9),
        ("NVIDIA gpu1", 0.3),
        ("NVIDIA slice 5", None),
        ("", None),
    ]


def test_the_figures_of_several_gpus_as_one() -> None:
    one = GpuReading({"gpu_busy": 0.9, "gpu_power_w": 300.0}, name="A")
    two = GpuReading({"gpu_busy": 0.3, "gpu_power_w": 200.0}, name="B")
    hot = GpuReading({"gpu_freq_mhz": 1200.0, "thermal_level": 3.0}, "C")

    assert combine([one, two]).figures == {"gpu_busy": pytest.approx(0.6), "gpu_power_w": 500.0}
    three = combine([one, two, hot])
    assert three.figures == {"gpu_busy": pytest.approx(0.6), **hot.figures}, "no sum lacks a GPU"
