"""The problems of an installation are found in its metadata."""

import importlib
import sys
from pathlib import Path

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
    return Installed("darwin", machine, python, {"keras": "3.12.0", **named})


def linux(**versions: str) -> Installed:
    return Installed("linux", "x86_64", (3, 11), {"keras": "3.12.0", **versions})


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
        pytest.param(
            linux(tensorflow="2.15.1", keras="2.15.0"), "install TensorFlow 2.18", id="Keras 2"
        ),
        pytest.param(
            Installed("linux", "x86_64", (3, 11), {"tensorflow": "2.21.0"}),
            "Keras is not installed",
            id="no Keras",
        ),
    ],
)
def test_an_obstacle_names_its_remedy(installed: Installed, words: str) -> None:
    assert words in installed.obstacle()


@pytest.mark.parametrize(
    "installed",
    [
        pytest.param(linux(tensorflow="2.21.0"), id="Linux"),
        pytest.param(mac(tensorflow="2.19.1", tensorflow_metal="1.2.0"), id="newest pair"),
        pytest.param(
            mac(tensorflow="2.18.0", tensorflow_metal="1.2.0", keras="3.12.0"), id="the pair before"
        ),
        pytest.param(
            mac(tensorflow="2.22.0", tensorflow_metal="1.3.0"), id="a later pair, which may work"
        ),
        pytest.param(linux(tensorflow="2.22.0.dev20260905 (tf-nightly-cpu)"), id="a nightly"),
        pytest.param(linux(tensorflow="of unknown version"), id="built without metadata"),
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


@pytest.fixture
def empty_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have this Python find packages in this folder alone."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in ("tensorflow", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return tmp_path


def test_a_tensorflow_of_another_name_is_found(empty_python: Path) -> None:
    for name in ("tensorflow", "keras", "tensorflow_cpu-2.21.0.dist-info"):
        empty_python.joinpath(name).mkdir()
    for name in ("tensorflow", "keras"):
        empty_python.joinpath(name, "__init__.py").touch()
    metadata = empty_python / "tensorflow_cpu-2.21.0.dist-info"
    metadata.joinpath("METADATA").write_text("Name: tensorflow_cpu\nVersion: 2.21.0\n")
    metadata.joinpath("top_level.txt").write_text("tensorflow\n")

    assert Installed.here().versions == {
        "tensorflow": "2.21.0 (tensorflow-cpu)",
        "keras": "of unknown version",
    }


def test_a_folder_that_an_uninstalled_tensorflow_left_is_none(empty_python: Path) -> None:
    empty_python.joinpath("tensorflow", "lite").mkdir(parents=True)

    assert Installed.here().obstacle() == "TensorFlow is not installed: pip install tensorflow"


def test_the_versions_of_this_python_are_found() -> None:
    assert Installed.here().obstacle() == ""
    assert "tensorflow" in Installed.here().versions
