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
        pytest.param(mac("x86_64"), "arm64 Python", id="an Intel Python"),
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


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        (mac(python=(3, 13), tensorflow="2.21.0"), "use Python 3.12 to train on the GPU"),
        (mac(tensorflow="2.19.1"), METAL_PAIR),
        (mac(tensorflow="2.21.0"), METAL_PAIR),
        (mac(tensorflow="2.14.1", tensorflow_metal="1.1.0"), METAL_PAIR),
        (mac(tensorflow="2.17.1", tensorflow_metal="1.2.0"), METAL_PAIR),
        (mac("x86_64", tensorflow="2.16.2"), "an Intel Mac has no newer TensorFlow"),
    ],
)
def test_a_hint_names_a_remedy_that_exists(installed: Installed, words: str) -> None:
    assert installed.obstacle() == ""
    assert words in hint(installed)


def test_the_versions_of_this_python_are_found() -> None:
    assert Installed.here().obstacle() == ""
    assert "tensorflow" in Installed.here().versions
