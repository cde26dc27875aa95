"""The commands in an environment with all that tfwatch depends on, and neither TensorFlow nor
Keras."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.recorded import noisy_rows, record
from tests.pseudo import ROOT

_NOT_LINKED = ("tensorflow", "keras", "tf_keras")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of this environment, without TensorFlow and Keras."""
    spec = find_spec("numpy")
    assert spec
    assert spec.origin
    folder = tmp_path_factory.mktemp("packages")
    for entry in Path(spec.origin).parents[1].iterdir():
        if not entry.name.startswith(_NOT_LINKED):
            folder.joinpath(entry.name).symlink_to(entry)
    return folder


def tfwatch(words: list[str], packages: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this environment; `-S` leaves out that of the tests."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(packages), str(ROOT))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TFWATCH_RUNS_DIR": str(folder / "runs"),
    }
    return subprocess.run(
        [sys.executable, "-S", "-m", "tfwatch", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("words", ["train cnn", "ab --knob prefetch=off,4 cnn", "bench matmul"])
def test_a_command_that_trains_says_what_is_missing(
    words: str, packages: Path, tmp_path: Path
) -> None:
    ended = tfwatch(words.split(), packages, tmp_path)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("tfwatch: TensorFlow is not installed: pip install tensorflow (")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("--help", "usage: tfwatch"),
        ("train --help", "  cnn "),
        ("runs", "finished"),
        ("report --json", '"state": "finished"'),
        ("report -o -", "</html>"),
        ("compare one two", "step time"),
        ("run train.py", "trained with numpy"),
    ],
)
def test_a_command_that_reads_needs_no_tensorflow(
    words: str, seen: str, packages: Path, tmp_path: Path
) -> None:
    for seed, name in enumerate(("one", "two")):
        record(tmp_path / "runs" / name, noisy_rows(seed))
    tmp_path.joinpath("train.py").write_text(
        "import numpy\nprint('trained with', numpy.__name__)\n"
    )

    ended = tfwatch(words.split(), packages, tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert seen in ended.stdout


def test_the_doctor_names_the_missing_tensorflow(packages: Path, tmp_path: Path) -> None:
    ended = tfwatch(["doctor"], packages, tmp_path)

    assert (ended.returncode, ended.stderr) == (1, "")
    assert "FAIL  tensorflow  TensorFlow is not installed" in ended.stdout


def test_a_script_that_misses_tensorflow_is_shown_the_way(packages: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("train.py").write_text("import keras\n")

    ended = tfwatch(["run", "train.py"], packages, tmp_path)

    assert ended.returncode == 1
    assert "ModuleNotFoundError: No module named 'keras'" in ended.stderr
    assert "tfwatch run --python PATH takes the one of your training" in ended.stderr
