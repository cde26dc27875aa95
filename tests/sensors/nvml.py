"""A fake NVML library with given results."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.folders import FakeClock
from tfwatch.sensors import nvml as gpu_nvml

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
    """nvidia-ml-py over `gpus` cards; `answers`: what a call returns or raises, by name."""

    NVML_SUCCESS = 0
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25
    NVML_CLOCK_SM = 1
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
            "nvmlDeviceGetName": lambda handle: f"NVIDIA {handle}",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=5),
            "nvmlDeviceGetPowerUsage": 301_500,
            "nvmlDeviceGetMemoryInfo": lambda handle, version=None: SimpleNamespace(
                used=2**30 if version else 2**31, total=2**34
            ),
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=OWN),
                SimpleNamespace(pid=OTHER),
            ],
            "nvmlDeviceGetProcessUtilization": lambda handle, since: self.samples,
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or self.answers.get(name, MISSING) is MISSING:
            raise AttributeError(name)
        answer = self.answers[name]

        def call(*args: Any) -> Any:
            self.calls.append((name, *args))
            result = answer(*args) if callable(answer) else answer
            if isinstance(result, Exception):
                raise result
            return result

        return call


def opened(
    nvml: FakeNvml,
    monkeypatch: pytest.MonkeyPatch,
    clock: FakeClock | None = None,
    visible: str | None = None,
) -> Any:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    source = gpu_nvml.NvmlSource((clock or FakeClock()).clock, environ, OWN)
    assert source.why_unavailable() is None
    return source


def sample(pid: int, at_us: int, percent: int) -> Any:
    return SimpleNamespace(pid=pid, timeStamp=at_us, smUtil=percent)
