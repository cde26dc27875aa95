"""The problems of an installation are found in its metadata."""

from __future__ import annotations

import pytest

from tfwatch.doctor.packages import Installed, providers


def mac(machine: str = "arm64", python: tuple[int, int] = (3, 12), **versions: str) -> Installed:
    return Installed("darwin", machine, python, {name.replace("_", "-"): v for name, v in versions.items()})


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        pytest.param(Installed("linux", "x86_64"), "pip install tensorflow", id="not installed"),
        pytest.param(mac("x86_64"), "Rosetta", id="an Intel Python"),
        pytest.param(mac(tensorflow="2.21.0", tensorflow_metal="1.2.0"), "<2.20", id="too new for Metal"),
        pytest.param(mac(tensorflow="2.18.1", tensorflow_metal="1.1.0"), "-U tensorflow-metal", id="Metal too old"),
        pytest.param(mac(tensorflow="2.20.0rc0", tensorflow_metal="1.2.0"), "<2.20", id="a release candidate"),
        pytest.param(
            mac(tensorflow="2.16.2", tensorflow_metal="1.0.1"), "-U tensorflow-metal", id="Metal much too old"
        ),
        pytest.param(mac(tensorflow="2.19.1", keras="3.7.0"), "keras>=3.8", id="Keras too old"),
    ],
)
def test_an_obstacle_names_its_remedy(installed: Installed, words: str) -> None:
    assert words in installed.obstacle()


@pytest.mark.parametrize(
    "installed",
    [
        pytest.param(Installed("linux", "x86_64", (3, 11), {"tensorflow": "2.21.0"}), id="Linux"),
        pytest.param(mac(tensorflow="2.19.1", tensorflow_metal="1.2.0"), id="newest pair"),
        pytest.param(mac(tensorflow="2.18.0", tensorflow_metal="1.2.0", keras="3.12.0"), id="the pair before"),
        pytest.param(Installed("linux", "x86_64", (3, 11), {"tensorflow": "of unknown version"}), id="a nightly"),
    ],
)
def test_a_working_installation_has_no_obstacle(installed: Installed) -> None:
    assert installed.obstacle() == ""
    assert installed.hint() == ""


def test_the_hint_for_a_mac_without_metal_names_the_cpu() -> None:
    assert "use Python 3.12 to train on the GPU" in mac(python=(3, 13), tensorflow="2.21.0").hint()
    assert "pip install -U tensorflow-metal" in mac(tensorflow="2.19.1").hint()


def test_an_old_pair_works_and_has_a_hint() -> None:
    old = mac(tensorflow="2.17.0", tensorflow_metal="1.1.0")

    assert old.obstacle() == ""
    assert "older than the versions that tfwatch is tested with" in old.hint()


def test_the_remedy_installs_metal_with_a_tensorflow_that_loads_it() -> None:
    assert mac(tensorflow="2.21.0").hint().endswith("pip install -U tensorflow-metal 'tensorflow>=2.18,<2.20'")


def test_the_distributions_of_the_module_are_found() -> None:
    assert any(name.startswith("tensorflow") for name in providers())


def test_the_versions_of_this_python_are_found() -> None:
    assert Installed.here().obstacle() == ""
    assert "tensorflow" in Installed.here().versions
