"""The availability of the NVML source, and its choice of a GPU."""

from __future__ import annotations

import sys

import pytest

from tests.sensors.nvml import FakeNvml, NVMLError, opened
from tfwatch.sensors.gpu import nvml
from tfwatch.sensors.protocol import Unavailable

pytestmark = pytest.mark.usefixtures("driver")


def test_without_a_driver_the_fix_depends_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_DRIVER", ())
    monkeypatch.setitem(sys.modules, "pynvml", None)
    answer = nvml.NvmlSource().available()

    assert isinstance(answer, Unavailable)
    assert answer.reason == "no NVIDIA driver on this machine"
    assert "pip" not in answer.fix


def test_a_driver_without_the_library_has_an_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    answer = nvml.NvmlSource().available()

    assert answer == Unavailable("nvidia-ml-py is not installed", "pip install nvidia-ml-py")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(
            12, "libnvidia-ml.so.1, a part of the NVIDIA driver, is not found", id="no libnvidia-ml"
        ),
        pytest.param(9, "the NVIDIA driver is not loaded", id="not loaded"),
        pytest.param(4, "this user has no access to the NVIDIA driver", id="no permission"),
        pytest.param(
            18, "the NVIDIA driver was updated and the old one is still loaded", id="updated"
        ),
        pytest.param(999, "NVML does not start: error 999", id="anything else"),
    ],
)
def test_a_library_that_does_not_start_has_a_reason(
    code: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(nvmlInit=NVMLError(code)))
    answer = nvml.NvmlSource().available()

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
def test_the_choice_among_several_gpus(
    visible: str | None, gpus: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = opened(FakeNvml(gpus), monkeypatch, visible=visible).identity()

    assert (identity.name, identity.gpus) == (f"NVIDIA {name}", gpus)


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
    answer = nvml.NvmlSource(environ={"CUDA_VISIBLE_DEVICES": visible}).available()

    assert isinstance(answer, Unavailable)
    assert answer.reason == reason
