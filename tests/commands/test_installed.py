"""What is wrong with an installation is told from its metadata."""

from __future__ import annotations

import pytest

from tfwatch.commands.installed import Installed


def mac(machine: str = "arm64", python: tuple[int, int] = (3, 12), **versions: str) -> Installed:
    return Installed("darwin", machine, python, {name.replace("_", "-"): v for name, v in versions.items()})


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        pytest.param(Installed("linux", "x86_64"), "pip install tensorflow", id="not installed"),
        pytest.param(mac("x86_64"), "Rosetta", id="an Intel Python"),
        pytest.param(mac(tensorflow="2.21.0", tensorflow_metal="1.2.0"), "<2.20", id="too new for Metal"),
        pytest.param(mac(tensorflow="2.18.1", tensorflow_metal="1.1.0"), "-U tensorflow-metal", id="Metal too old"),
    ],
)
def test_an_obstacle_says_what_to_do(installed: Installed, words: str) -> None:
    assert words in installed.obstacle()


@pytest.mark.parametrize(
    "installed",
    [
        pytest.param(Installed("linux", "x86_64", (3, 11), {"tensorflow": "2.21.0"}), id="Linux"),
        pytest.param(mac(tensorflow="2.19.1", tensorflow_metal="1.2.0"), id="newest pair"),
        pytest.param(mac(tensorflow="2.17.0", tensorflow_metal="1.1.0"), id="an old pair"),
        pytest.param(Installed("linux", "x86_64", (3, 11), {"tensorflow": "of unknown version"}), id="a nightly"),
    ],
)
def test_what_works_meets_no_obstacle(installed: Installed) -> None:
    assert installed.obstacle() == ""
    assert installed.hint() == ""


def test_a_mac_without_metal_is_told_that_it_trains_on_the_cpu() -> None:
    assert "Python 3.12 brings the GPU" in mac(python=(3, 13), tensorflow="2.21.0").hint()
    assert "pip install -U tensorflow-metal" in mac(tensorflow="2.19.1").hint()


def test_this_python_has_its_versions() -> None:
    assert Installed.here().obstacle() == ""
    assert "tensorflow" in Installed.here().versions
