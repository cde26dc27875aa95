"""Whether there is a GPU, told without TensorFlow."""

from __future__ import annotations

import pytest

from tfwatch.doctor.facts import Nvidia
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.quick_facts import glance, gpu_here, no_gpu

LINUX = Installed("linux", "x86_64", versions={"tensorflow": "2.21.0"})
APPLE = Installed("darwin", "arm64", versions={"tensorflow": "2.19.1"})
METAL = Installed("darwin", "arm64", versions={"tensorflow": "2.19.1", "tensorflow-metal": "1.2.0"})


@pytest.mark.parametrize(
    ("installed", "nvidia", "others", "why"),
    [
        pytest.param(LINUX, Nvidia(), False, "no GPU here", id="none"),
        pytest.param(LINUX, Nvidia(), True, "", id="another make"),
        pytest.param(LINUX, Nvidia("580.1", card=True, nodes=True), False, "", id="NVIDIA"),
        pytest.param(LINUX, Nvidia("580.1", True, True, "2"), False, "", id="NVIDIA, one of several"),
        pytest.param(
            LINUX, Nvidia("580.1", True, True, "-1"), False, "CUDA_VISIBLE_DEVICES=-1 hides every GPU", id="hidden"
        ),
        pytest.param(LINUX, Nvidia(card=True), False, "no NVIDIA driver here", id="no driver"),
        pytest.param(LINUX, Nvidia("580.1"), False, "this container is not given the GPU", id="container"),
        pytest.param(METAL, Nvidia(), False, "", id="Apple"),
        pytest.param(APPLE, Nvidia(), False, "tensorflow-metal is not installed", id="Apple without Metal"),
        pytest.param(
            Installed("darwin", "x86_64"), Nvidia(), False, "TensorFlow has no GPU on Intel Macs", id="Intel Mac"
        ),
    ],
)
def test_why_there_is_no_gpu(installed: Installed, nvidia: Nvidia, others: bool, why: str) -> None:
    assert no_gpu(installed, nvidia, others) == why


def test_the_machine_is_told_in_a_line() -> None:
    line = glance()
    assert "TensorFlow 2." in line
    assert line.endswith(gpu_here().missing)
