"""This process' share of a GPU's activity, from NVML."""

from __future__ import annotations

import os
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
from tfwatch.sensors.gpu import nvml

pytestmark = pytest.mark.usefixtures("driver")


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

    assert source.read().process_busy == share
    assert ("process_busy" in source.gaps()) == (share is None)


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
        shares.append(source.read().process_busy)
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

    assert source.read().process_busy == share
    assert getattr(source.gaps().get("process_busy"), "reason", None) == gap


def test_samples_count_once_and_the_share_is_shown_until_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    nvml = FakeNvml()
    source = opened(nvml, monkeypatch, clock)
    shares = []
    for at_s, samples in ((0.0, [10]), (0.25, [10, 90]), (0.5, [10, 90]), (1.0, [10, 90])):
        clock.at_s = at_s
        nvml.samples = [sample(OWN, index + 1, percent) for index, percent in enumerate(samples)]
        shares.append(source.read().process_busy)

    assert shares == [0.1, 0.1, 0.9, 0.0]
    assert [call[2] for call in nvml.calls if call[0] == "nvmlDeviceGetProcessUtilization"] == [
        0,
        1,
        2,
    ]


def test_this_process_knows_its_number() -> None:
    assert os.getpid() in nvml.own_pids(os.getpid())
    assert nvml.own_pids(2**30) == {2**30}
