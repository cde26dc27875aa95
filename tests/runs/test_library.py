from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, write_run
from tfwatch.runs import library
from tfwatch.runs.library import (
    default_runs_dir,
    find_run,
    list_runs,
    make_run_dir,
    replay_argument,
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in (
        "2026-11-20T10-17-03_cnn",
        "2026-11-21T09-00-00_script",
        "2026-11-20T12-00-00_cnn",
        "2026-11-21T10-00-00_script_2",
    ):
        write_run(tmp_path / name, plain(1))
    (tmp_path / "2026-12-01T00-00-00_empty").mkdir()
    (tmp_path / "zzz.txt").write_text("no run")
    return tmp_path


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    clock = FakeClock().clock
    names = [make_run_dir(tmp_path, "cnn", clock).name for _ in range(3)]

    assert names == [f"{clock.stamp()}_cnn{suffix}" for suffix in ("", "-2", "-3")]


def test_only_runs_are_listed_newest_first(runs: Path) -> None:
    assert [run.name for run in list_runs(runs)] == [
        "2026-11-21T10-00-00_script_2",
        "2026-11-21T09-00-00_script",
        "2026-11-20T12-00-00_cnn",
        "2026-11-20T10-17-03_cnn",
    ]
    assert list_runs(runs / "nothing") == []


def test_a_folder_that_is_named_like_an_option_is_no_run(runs: Path) -> None:
    listed = list_runs(runs)
    shutil.copytree(listed[0], runs / "--notify-command=x")

    assert list_runs(runs) == listed


@pytest.mark.parametrize("count", [2, 11])
def test_runs_of_one_second_are_sorted_by_number(tmp_path: Path, count: int) -> None:
    made = [make_run_dir(tmp_path, "cnn", FakeClock().clock) for _ in range(count)]
    for run in made:
        write_run(run, plain(0))

    assert list_runs(tmp_path) == made[::-1]
    assert [find_run(run.name, tmp_path) for run in made] == made


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, "2026-11-21T10-00-00_script_2"),
        ("latest", "2026-11-21T10-00-00_script_2"),
        ("cnn", "2026-11-20T12-00-00_cnn"),
        ("script", "2026-11-21T09-00-00_script"),
        ("scrip", "2026-11-21T10-00-00_script_2"),
        ("20T10", "2026-11-20T10-17-03_cnn"),
        ("2026-11-20T10-17-03_cnn", "2026-11-20T10-17-03_cnn"),
    ],
)
def test_a_name_finds_the_newest_of_its_script_else_of_those_with_it_as_a_part(
    runs: Path, wanted: str | None, found: str
) -> None:
    assert find_run(wanted, runs).name == found


def test_a_missing_run_is_reported_in_a_sentence(runs: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=f"^no run 'bert' in {runs}: tfwatch runs lists them$"
    ):
        find_run("bert", runs)
    with pytest.raises(FileNotFoundError, match=r"^no runs yet in "):
        find_run(None, runs / "nothing")


def test_a_folder_without_a_run_reports_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a run: it has no file run"):
        find_run(str(tmp_path), tmp_path)


@pytest.mark.parametrize("wanted", ["~nobody-of-this-name/run", "a\0b", "", "/", "x" * 5000])
def test_an_invalid_path_is_not_a_run(tmp_path: Path, wanted: str) -> None:
    with pytest.raises(FileNotFoundError):
        find_run(wanted, tmp_path)


def test_an_unreadable_folder_hides_no_other_run(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list_runs(runs)[1:]
    closed, is_file = list_runs(runs)[0], Path.is_file

    def refused(path: Path) -> bool:
        if path.parent == closed:
            raise PermissionError(13, "Permission denied")
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    assert list_runs(runs) == expected


def test_the_default_folder_follows_the_users_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert default_runs_dir().name == "runs"
    assert default_runs_dir().parent.name == "tfwatch"


def test_the_replay_argument_finds_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    elsewhere, outside = tmp_path / "my runs" / "one_cnn", tmp_path.parent / "one_cnn"

    assert replay_argument(default_runs_dir() / "one_cnn") == "one_cnn"
    assert replay_argument(elsewhere) == "~/'my runs/one_cnn'"
    assert replay_argument(outside) == str(outside)


@pytest.mark.parametrize("where", ["no run", "a run that cannot be written", "somebody else's"])
def test_a_copy_without_a_run_folder_of_ones_own_is_next_to_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "somebody else's" and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    monkeypatch.setattr(library, "default_runs_dir", lambda: tmp_path / "state" / "runs")
    (tmp_path / "file").write_text("")
    (tmp_path / "run").mkdir()
    os.chown(tmp_path / "run", 54321 if where == "somebody else's" else -1, -1)
    folders = {"no run": None, "somebody else's": tmp_path / "run"}

    copied = library.save_copy(folders.get(where, tmp_path / "file" / "run"), "x")

    assert copied == tmp_path / "state" / "copied.py"


def test_without_a_writable_folder_there_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(library, "default_runs_dir", lambda: tmp_path / "file" / "runs")
    assert library.save_copy(None, "x") is None
