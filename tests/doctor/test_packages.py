"""The problems of an installation are found in its metadata."""

from __future__ import annotations

import pytest

from tfwatch.doctor.packages import METAL_PAIR, Installed


def hint(installed: Installed) -> str:
    """Return the problems that slow training down, with their remedies."""
    return "; ".join(str(one) for one in installed.find_problems() if not one.is_blocking)


def mac(
    machine: str = "arm64",
    python: tuple[int, int] = (3, 12),
    **versions: str,
) -> Installed:
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    return Installed("darwin", machine, python, named)


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        pytest.param(Installed("linux", "x86_64"), "pip install tensorflow", id="not installed"),
        pytest.param(mac("x86_64"), "Rosetta", id="an Intel Python"),
        pytest.param(
            mac(tensorflow="2.21.0", tensorflow_metal="1.2.0"), "<2.20", id="too new for Metal"
        ),
        pytest.param(
            mac(tensorflow="2.18.1", tensorflow_metal="1.1.0"), METAL_PAIR, id="Metal too old"
        ),
        pytest.param(
            mac(tensorflow="2.20.0rc0", tensorflow_metal="1.2.0"), "<2.20", id="a release candidate"
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
        pytest.param(
            mac(tensorflow="2.18.0", tensorflow_metal="1.2.0", keras="3.12.0"), id="the pair before"
        ),
        pytest.param(
            mac(tensorflow="2.22.0", tensorflow_metal="1.3.0"), id="a later pair, which may work"
        ),
        pytest.param(
            Installed("linux", "x86_64", (3, 11), {"tensorflow": "of unknown version"}),
            id="a nightly",
        ),
    ],
)
def test_a_working_installation_has_no_obstacle(installed: Installed) -> None:
    assert installed.obstacle() == ""
    assert hint(installed) == ""


def test_the_hint_for_a_mac_without_metal_names_the_cpu() -> None:
    assert "use Python 3.12 to train on the GPU" in hint(mac(python=(3, 13), tensorflow="2.21.0"))
    assert METAL_PAIR in hint(mac(tensorflow="2.19.1"))


@pytest.mark.parametrize("tensorflow", ["2.14.1", "2.15.1", "2.16.2", "2.17.1"])
@pytest.mark.parametrize("metal", ["1.1.0", "1.2.0"])
def test_the_remedy_for_an_old_pair_updates_both(tensorflow: str, metal: str) -> None:
    old = mac(tensorflow=tensorflow, tensorflow_metal=metal)

    assert old.obstacle() == ""
    assert "older than the versions that tfwatch is tested with" in hint(old)
    assert METAL_PAIR in hint(old)
    assert "'tensorflow-metal>=1.2'" in METAL_PAIR, "1.1 does not load with TensorFlow 2.18"


@pytest.mark.parametrize("python", [(3, 10), (3, 11), (3, 12)])
def test_an_intel_python_on_a_mac_is_not_sent_to_a_wheel_that_does_not_exist(
    python: tuple[int, int],
) -> None:
    found = hint(mac("x86_64", python, tensorflow="2.16.2"))

    assert "pip install" not in found
    assert "arm64 Python" in found
    assert "an Intel Mac has no newer TensorFlow" in found


def test_the_remedy_installs_metal_with_a_tensorflow_that_loads_it() -> None:
    assert hint(mac(tensorflow="2.21.0")).endswith(METAL_PAIR)


def test_the_versions_of_this_python_are_found() -> None:
    assert Installed.here().obstacle() == ""
    assert "tensorflow" in Installed.here().versions
