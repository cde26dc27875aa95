"""The NVML sensor over a library that says what the test wants."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.runs.folders import FakeClock
from tfwatch.sensors import Available, GpuIdentity, SensorError, Unavailable, gpu_nvml

OWN, OTHER, UNSEEN = 4242, 777, 999_999
MISSING = object()


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return {3: "Not Supported", 15: "GPU is lost"}.get(self.value, f"error {self.value}")


class NVMLError_NotFound(NVMLError):
    def __init__(self) -> None:
        super().__init__(6)


class FakeNvml:
    """nvidia-ml-py over `gpus` cards; `answers` holds what a call returns or raises, by its name."""

    NVML_SUCCESS = 0
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    nvmlMemory_v2 = 0x2000028
    NVMLError = NVMLError
    NVMLError_NotFound = NVMLError_NotFound

    def __init__(self, gpus: int = 1, **answers: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.samples: list[Any] = []
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": gpus,
            "nvmlDeviceGetHandleByIndex": lambda index: f"gpu{index}",
            "nvmlDeviceGetHandleByUUID": lambda uuid: f"slice {uuid}",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle[3:]}abc",
            "nvmlDeviceIsMigDeviceHandle": lambda handle: int(handle.startswith("slice")),
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: "gpu0",
            "nvmlDeviceGetMigMode": NVMLError(3),
            "nvmlDeviceGetName": lambda handle: f"NVIDIA {handle}",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=5),
            "nvmlDeviceGetPowerUsage": 301_500,
            "nvmlDeviceGetMemoryInfo": lambda handle, version=None: SimpleNamespace(
                used=2**30 if version else 2**31, total=2**34
            ),
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=OWN), SimpleNamespace(pid=OTHER)],
            "nvmlDeviceGetProcessUtilization": lambda handle, since: self.samples,
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or self.answers.get(name, MISSING) is MISSING:
            raise AttributeError(name)
        answer = self.answers[name]

        def call(*args: Any) -> Any:
            self.calls.append((name, *args))
            said = answer(*args) if callable(answer) else answer
            if isinstance(said, Exception):
                raise said
            return said

        return call


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A machine with a driver, on which the process numbers OWN and OTHER are in use."""
    monkeypatch.setattr(gpu_nvml, "_DRIVER", (tmp_path,))
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid in (OWN, OTHER))


def opened(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, clock: FakeClock | None = None, visible: str | None = None
) -> Any:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    source = gpu_nvml.Source((clock or FakeClock()).clock, environ, OWN)
    assert source.available() == Available()
    return source


def sample(pid: int, at_us: int, percent: int) -> Any:
    return SimpleNamespace(pid=pid, timeStamp=at_us, smUtil=percent)


def test_a_reading_holds_what_nvidia_smi_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    nvml.samples = [sample(OWN, 10, 30), sample(OTHER, 10, 5), sample(OWN, 20, 20)]
    source = opened(nvml, monkeypatch)
    reading = source.read()

    assert (reading.busy, reading.power_w, reading.memory_bytes) == (0.37, 301.5, 2**30)
    assert (reading.temperature_c, reading.freq_mhz, reading.process_busy) == (61, 1980, 0.25)
    assert (reading.thermal_level, reading.limited_by) == (0.0, "")
    assert source.identity() == GpuIdentity("NVIDIA gpu0", 2**34, unified=False, gpus=1)
    assert source.gaps() == {}


def test_without_a_driver_nobody_is_told_to_install_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_nvml, "_DRIVER", ())
    monkeypatch.setitem(sys.modules, "pynvml", None)
    answer = gpu_nvml.Source().available()

    assert isinstance(answer, Unavailable)
    assert answer.reason == "no NVIDIA driver on this machine"
    assert "pip" not in answer.fix


def test_a_driver_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    answer = gpu_nvml.Source().available()

    assert answer == Unavailable("nvidia-ml-py is not installed", "pip install 'tfwatch[nvidia]'")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(12, "libnvidia-ml.so.1, a part of the NVIDIA driver, is not found", id="no libnvidia-ml"),
        pytest.param(9, "the NVIDIA driver is not loaded", id="not loaded"),
        pytest.param(4, "this user may not ask the NVIDIA driver", id="no permission"),
        pytest.param(18, "the NVIDIA driver was updated and the old one is still loaded", id="updated"),
        pytest.param(999, "NVML does not start: error 999", id="anything else"),
    ],
)
def test_a_library_that_does_not_start_says_why(code: int, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(nvmlInit=NVMLError(code)))
    answer = gpu_nvml.Source().available()

    assert isinstance(answer, Unavailable)
    assert answer.reason == reason
    assert answer.fix


@pytest.mark.parametrize(
    ("visible", "gpus", "name"),
    [
        pytest.param(None, 2, "gpu0", id="the first of two"),
        pytest.param("1,0", 2, "gpu1", id="the first that is visible"),
        pytest.param("7", 2, "gpu1", id="one that is not there"),
        pytest.param("GPU-1a", 2, "gpu1", id="by the beginning of its UUID"),
        pytest.param("GPU-9", 2, "gpu0", id="by an unknown UUID"),
        pytest.param("rubbish", 2, "gpu0", id="rubbish"),
    ],
)
def test_which_of_several_gpus_is_read(
    visible: str | None, gpus: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = opened(FakeNvml(gpus), monkeypatch, visible=visible).identity()

    assert (identity.name, identity.gpus) == (f"NVIDIA {name}", gpus)


@pytest.mark.parametrize(
    ("gpus", "visible", "reason"),
    [
        pytest.param(0, "0", "the NVIDIA driver shows no GPU", id="none"),
        pytest.param(1, "", "CUDA_VISIBLE_DEVICES hides every GPU from this process", id="hidden"),
        pytest.param(1, "-1", "CUDA_VISIBLE_DEVICES hides every GPU from this process", id="hidden by -1"),
    ],
)
def test_no_gpu_is_a_reason(gpus: int, visible: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(gpus))
    answer = gpu_nvml.Source(environ={"CUDA_VISIBLE_DEVICES": visible}).available()

    assert isinstance(answer, Unavailable)
    assert answer.reason == reason


@pytest.mark.parametrize("visible", [pytest.param("MIG-1", id="by its UUID"), pytest.param("0", id="by its card")])
def test_a_mig_slice_has_its_own_memory_and_no_activity(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def slice_of(handle: str, index: int) -> Any:
        return NVMLError_NotFound() if index < 2 else f"slice {index}"

    nvml = FakeNvml(
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=7,
        nvmlDeviceGetMigDeviceHandleByIndex=slice_of,
        nvmlDeviceGetMemoryInfo=lambda handle, version=None: SimpleNamespace(used=len(handle), total=2**30),
    )
    source = opened(nvml, monkeypatch, visible=visible)
    reading = source.read()

    assert reading.memory_bytes == len("slice MIG-1" if visible == "MIG-1" else "slice 2")
    assert (reading.busy, reading.power_w, reading.process_busy) == (None, None, None)
    assert (reading.temperature_c, reading.freq_mhz) == (61, 1980)
    assert {"busy", "power_w", "process_busy"} == set(source.gaps())
    assert source.gaps()["busy"].reason == "the driver counts a MIG slice's memory alone"


def test_what_a_driver_refuses_is_asked_once_and_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(nvmlDeviceGetPowerUsage=NVMLError(3), nvmlDeviceGetTemperature=MISSING)
    source = opened(nvml, monkeypatch)
    assert [source.read().power_w for _ in range(3)] == [None] * 3

    assert [call for call in nvml.calls if call[0] == "nvmlDeviceGetPowerUsage"] == [
        ("nvmlDeviceGetPowerUsage", "gpu0")
    ]
    assert source.gaps()["power_w"].reason == "the NVIDIA driver refuses it: Not Supported"
    assert source.gaps()["temperature_c"].reason == "this nvidia-ml-py is too old for it"
    assert source.read().busy == 0.37


def test_an_old_driver_counts_memory_and_names_its_limits_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
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
        pytest.param(0x48, "thermal slowdown by the hardware", 4.0, id="the hardware's comes first"),
        pytest.param(0x88, "power brake", 3.0, id="power brake"),
        pytest.param(0x8, "hardware slowdown", 3.0, id="of no told kind"),
    ],
)
def test_what_limits_the_clock(bits: int, words: str, level: float, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("samples", "holders", "share"),
    [
        pytest.param([sample(OWN, 5, 40)], [OWN], 0.4, id="it works"),
        pytest.param([sample(OWN, 5, 140)], [OWN], 1.0, id="never more than all"),
        pytest.param([], [OWN], 0.0, id="it holds memory and idles"),
        pytest.param([sample(OTHER, 5, 90)], [OTHER], 0.0, id="another works"),
        pytest.param([sample(UNSEEN, 5, 90)], [UNSEEN], None, id="numbers of another name space"),
        pytest.param([], [], None, id="busy, and nobody is listed"),
    ],
)
def test_the_share_of_this_process(
    samples: list[Any], holders: list[int], share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml(nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=pid) for pid in holders])
    nvml.samples = samples
    source = opened(nvml, monkeypatch)

    assert source.read().process_busy == share
    assert ("process_busy" in source.gaps()) == (share is None)


def test_a_process_that_is_not_listed_stays_unknown_while_the_gpu_idles(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    nvml = FakeNvml(nvmlDeviceGetComputeRunningProcesses=[])
    source = opened(nvml, monkeypatch, clock)
    shares = []
    for busy, holders in ((0, []), (40, []), (0, []), (40, [SimpleNamespace(pid=OWN)]), (0, [])):
        nvml.answers["nvmlDeviceGetUtilizationRates"] = SimpleNamespace(gpu=busy)
        nvml.answers["nvmlDeviceGetComputeRunningProcesses"] = holders
        shares.append(source.read().process_busy)
        clock.at_s += 1

    assert shares == [0.0, None, None, 0.0, 0.0]


@pytest.mark.parametrize(
    ("error", "share", "gap"),
    [
        pytest.param(NVMLError_NotFound(), 0.0, None, id="nothing ran"),
        pytest.param(NVMLError(0), 0.0, None, id="as nvidia-ml-py tells of an empty list"),
        pytest.param(NVMLError(3), None, "the NVIDIA driver refuses it: Not Supported", id="not supported"),
    ],
)
def test_a_driver_without_samples(
    error: NVMLError, share: float | None, gap: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(FakeNvml(nvmlDeviceGetProcessUtilization=error), monkeypatch)

    assert source.read().process_busy == share
    assert getattr(source.gaps().get("process_busy"), "reason", None) == gap


def test_samples_are_counted_once_and_the_share_lasts_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    nvml = FakeNvml()
    source = opened(nvml, monkeypatch, clock)
    shares = []
    for at_s, samples in ((0.0, [10]), (0.25, [10, 90]), (0.5, [10, 90]), (1.0, [10, 90])):
        clock.at_s = at_s
        nvml.samples = [sample(OWN, index + 1, percent) for index, percent in enumerate(samples)]
        shares.append(source.read().process_busy)

    assert shares == [0.1, 0.1, 0.9, 0.0]
    assert [call[2] for call in nvml.calls if call[0] == "nvmlDeviceGetProcessUtilization"] == [0, 1, 2]


def test_this_process_knows_its_number() -> None:
    assert os.getpid() in gpu_nvml.own_pids(os.getpid())
    assert gpu_nvml.own_pids(2**30) == {2**30}
