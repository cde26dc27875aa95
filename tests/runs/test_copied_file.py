"""The file that replaces a clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.runs import library

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_it_is_in_the_run_and_the_last_text_wins(tmp_path: Path) -> None:
    path = library.save_copy(tmp_path / "run", "one")
    assert path == library.save_copy(tmp_path / "run", "two") == tmp_path / "run" / "copied.py"
    assert path.read_text() == "two\n"


def test_without_a_run_folder_it_is_next_to_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "default_runs_dir", lambda: tmp_path / "state" / "runs")
    assert library.save_copy(None, "x") == tmp_path / "state" / "copied.py"
    (tmp_path / "file").write_text("")
    assert library.save_copy(tmp_path / "file" / "run", "x") == tmp_path / "state" / "copied.py"


def test_without_a_writable_folder_there_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(library, "default_runs_dir", lambda: tmp_path / "file" / "runs")
    assert library.save_copy(None, "x") is None
