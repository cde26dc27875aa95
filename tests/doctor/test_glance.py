"""A GPU is found, or its absence explained, without TensorFlow."""

from __future__ import annotations

import pytest

from tfwatch.doctor.facts import Nvidia
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.quick_facts import describe_machine, explain_missing_gpu, find_gpu

LINUX = Installed("linux", "x86_64", versions={"tensorflow": "2.21.0"})
APPLE = Installed("darwin", "arm64", versions={"tensorflow": "2.19.1"})
METAL = Installed("darwin", "arm64", versions={"tensorflow": "2.19.1", "tensorflow-metal": "1.2.0"})


@pytest.mark.parametrize(
    ("installed", "nvidia", "has_other_gpu", "reason"),
    [
        pytest.param(LINUX, Nvidia(), False, "no GPU", id="none"),
        pytest.param(LINUX, Nvidia(), True, "", id="another make"),
        pytest.param(
            LINUX, Nvidia("580.1", has_card=True, has_device_files=True), False, "", id="NVIDIA"
        ),
        pytest.param(
            LINUX, Nvidia("580.1", True, True, "2"), False, "", id="NVIDIA, one of several"
        ),
        pytest.param(
            LINUX,
            Nvidia("580.1", True, True, "-1"),
            False,
            "CUDA_VISIBLE_DEVICES=-1 hides every GPU",
            id="hidden",
        ),
        pytest.param(LINUX, Nvidia(has_card=True), False, "no NVIDIA driver", id="no driver"),
        pytest.param(
            LINUX, Nvidia("580.1"), False, "this container has no access to the GPU", id="container"
        ),
        pytest.param(METAL, Nvidia(), False, "", id="Apple"),
        pytest.param(
            APPLE, Nvidia(), False, "tensorflow-metal is not installed", id="Apple without Metal"
        ),
        pytest.param(
            Installed("darwin", "x86_64"),
            Nvidia(),
            False,
            "TensorFlow has no GPU on Intel Macs",
            id="Intel Mac",
        ),
    ],
)
def test_a_missing_gpu_is_explained(
    installed: Installed, nvidia: Nvidia, has_other_gpu: bool, reason: str
) -> None:
    assert explain_missing_gpu(installed, nvidia, has_other_gpu) == reason


def test_this_machine_is_described_in_one_line() -> None:
    line = describe_machine()
    assert "TensorFlow 2." in line
    assert line.endswith(find_gpu().missing)
