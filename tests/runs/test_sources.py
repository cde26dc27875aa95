"""The text of a run's script and of its modules."""

import os
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest

from tests.runs.begun import begin_run
from tfwatch.runs.run import open_run
from tfwatch.runs.sources import read_sources, record_sources, script_file

LATER_S = 4e9


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that runs, with a module of its own, an installed one and one elsewhere."""
    folder = tmp_path / "project"
    for place in ("project/train.py", "project/lib/data.py", "other/far.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(f"# {place}\n")
    installed = folder / "venv" / "site-packages" / "keras.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    files = {
        "__main__": folder / "train.py",
        "lib_data": folder / "lib" / "data.py",
        "far": tmp_path / "other" / "far.py",
        "fake_keras": installed,
    }
    for name, file in files.items():
        module = ModuleType(name)
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, name, module)
    return folder / "train.py"


def test_the_script_comes_first_then_the_modules_in_its_folder(
    script: Path, tmp_path: Path
) -> None:
    record_sources(tmp_path, LATER_S)

    assert script_file() == str(script)
    assert list(read_sources(tmp_path).items()) == [
        ("train.py", "# project/train.py\n"),
        ("lib/data.py", "# project/lib/data.py\n"),
    ]


@pytest.mark.usefixtures("script")
def test_a_script_saved_after_the_process_began_is_not_recorded(tmp_path: Path) -> None:
    record_sources(tmp_path, since_s=1.0)

    assert read_sources(tmp_path) == {}


def test_a_process_without_a_script_of_the_users_records_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))

    record_sources(tmp_path, LATER_S)

    assert (script_file(), list(tmp_path.iterdir())) == ("", [])


def test_a_script_in_a_working_directory_that_is_gone_is_recorded_without_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = ModuleType("__main__")
    main.__file__ = "train.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(os, "getcwd", Mock(side_effect=FileNotFoundError))
    writer, why = begin_run(tmp_path, "cnn")
    writer.close()

    assert why == ""
    assert writer.folder
    assert open_run(writer.folder).manifest.script == ""


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"train.py": 3}', "\xff"])
def test_a_damaged_record_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "sources.json").write_text(text, encoding="latin-1")

    assert read_sources(tmp_path) == {}
