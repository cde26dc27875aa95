"""`tfwatch runs`: the list, and what is removed."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import exit_code
from tests.screens.canned import usual
from tfwatch.cli import main
from tfwatch.cli import runs as room
from tfwatch.runs.library import FolderToRemove

OLD, NEW, OPEN = "2026-11-18T10-17-03_cnn", "2026-11-19T10-17-03_cnn", "2026-11-20T10-17-03_cnn"
NOBODY = 2**22 + 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs that are over, and one that this process still writes."""
    for name in (OLD, NEW):
        usual(tmp_path / name).ended().writer.close()
    usual(tmp_path / OPEN).writer.flush()
    return tmp_path


def runs(folder: Path, *words: str) -> int:
    return exit_code("runs", *words, "--runs-dir", str(folder))


def listed(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["runs", "--json", *words, "--runs-dir", str(folder)]) == 0
    document = json.loads(capsys.readouterr().out)
    found: list[dict[str, Any]] = document["runs"]
    return found


def test_the_newest_run_is_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = listed(folder, capsys)

    assert [run["run"] for run in found] == [OPEN, NEW, OLD]
    assert [run["state"] for run in found] == ["not responding", "finished", "finished"]
    assert {run["steps"] for run in found} == {451}
    assert found[0]["step_ms"] > found[0]["wait_share"] > 0
    assert all(run["size_bytes"] >= 451 * 32 for run in found)


def test_the_table_has_a_row_for_each_run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    assert runs(folder) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["run", "age", "state", "steps", "step", "wait", "size"]
    assert [row.split()[0] for row in rows] == [OPEN, NEW, OLD]


def test_runs_are_removed_with_all_their_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / OLD / "more").mkdir()
    (folder / OLD / "more" / "file").write_text("x")
    (folder / "outside").mkdir()
    (folder / OLD / "link").symlink_to(folder / "outside")

    assert runs(folder, "remove", OLD, NEW, "--yes") == 0

    assert sorted(os.listdir(folder)) == [OPEN, "outside"]
    assert capsys.readouterr().out.startswith("removed 2 runs, ")


@pytest.mark.parametrize("words", [["remove", OLD], ["prune", "--keep", "0"]])
def test_nothing_is_removed_unless_somebody_agrees(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(folder, *words) == 2
    assert capsys.readouterr().err == "tfwatch: stdin is no terminal: add --yes\n"
    assert sorted(os.listdir(folder)) == [OLD, NEW, OPEN]


def test_a_run_that_still_runs_is_not_removed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(folder, "remove", OLD, OPEN, "--yes") == 2
    assert capsys.readouterr().err == f"tfwatch: {OPEN} is not removed: it still runs\n"
    assert sorted(os.listdir(folder)) == [OLD, NEW, OPEN]


def test_a_part_of_several_names_is_not_removed_and_elsewhere_the_newest_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(folder, "remove", "2026", "--yes") == 2
    several = f"tfwatch: 3 runs match '2026': give one of {OPEN}, {NEW}, {OLD}\n"
    assert capsys.readouterr().err == several
    assert exit_code("report", "2026", "--markdown", "--runs-dir", str(folder)) == 0
    taken = f"tfwatch: 3 runs match '2026': {OPEN}, the newest, is taken\n"
    assert capsys.readouterr().err == taken


def test_prune_keeps_runs_that_are_open(folder: Path) -> None:
    assert runs(folder, "prune", "--keep", "0", "--yes") == 0
    assert sorted(os.listdir(folder)) == [OPEN]


def killed(folder: Path, name: str, age_s: float) -> None:
    """Make a run of a process that this one cannot find, last written so long ago."""
    usual(folder / name, pid=NOBODY, machine={"host": os.uname().nodename}).writer.close()
    for path in (folder / name).iterdir():
        os.utime(path, (time.time() - age_s,) * 2)


def test_a_run_of_a_container_of_this_machines_name_is_not_removed(folder: Path) -> None:
    killed(folder, "2026-11-17T10-17-03_cnn", 2.0)
    killed(folder, "2026-11-16T10-17-03_cnn", 600.0)
    killed(folder, "2026-11-15T10-17-03_cnn", 7200.0)

    assert runs(folder, "prune", "--keep", "0", "--yes") == 0
    assert sorted(os.listdir(folder)) == [
        "2026-11-16T10-17-03_cnn",
        "2026-11-17T10-17-03_cnn",
        OPEN,
    ]
    assert runs(folder, "remove", "2026-11-17", "--yes") == 2
    assert runs(folder, "remove", "2026-11-16", "--yes") == 0


def test_a_run_that_cannot_be_removed_keeps_no_other_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(run: FolderToRemove) -> None:
        if run.path.name == NEW:
            raise PermissionError(13, "Permission denied")
        shutil.rmtree(run.path)
        raise FileNotFoundError  # another process was faster

    monkeypatch.setattr(FolderToRemove, "remove", refuse)

    assert runs(folder, "prune", "--keep", "0", "--yes") == 2
    assert (
        capsys.readouterr().err == f"tfwatch: {folder / NEW} cannot be removed: Permission denied\n"
    )
    assert sorted(os.listdir(folder)) == [NEW, OPEN]


def test_what_takes_the_place_of_a_run_while_the_user_is_asked_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exchange(_question: str) -> bool:
        for name in (OLD, NEW):
            (folder / name).rename(folder / f"moved-{name}")
        (folder / OLD).symlink_to(folder / OPEN)
        (folder / NEW).mkdir()
        return True

    monkeypatch.setattr(room, "_ask", exchange)
    assert runs(folder, "remove", OLD, NEW) == 2
    assert "1 other run neither" in capsys.readouterr().err
    assert (folder / NEW).is_dir()
    assert (folder / OPEN / "run.json").is_file()
    assert (folder / f"moved-{OLD}" / "run.json").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_run_of_somebody_else_is_not_removed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chown(folder / OLD, 54321, -1)
    assert runs(folder, "remove", OLD, "--yes") == 2
    assert "it belongs to another user" in capsys.readouterr().err
    assert runs(folder, "prune", "--keep", "0", "--yes") == 0
    assert (folder / OLD).is_dir()


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        pytest.param((None, None, None), [], id="none"),
        pytest.param((15.0, None, None), ["c", "d"], id="by age"),
        pytest.param((None, 1, None), ["b", "c", "d"], id="by number"),
        pytest.param((None, None, 35.0), ["c", "d"], id="by size: none in place of one too large"),
        pytest.param((25.0, 3, 1e9), ["d"], id="by any"),
    ],
)
def test_what_lies_beyond_the_limits(
    limits: tuple[float | None, int | None, float | None],
    gone: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"a": 10, "b": 20, "c": 30, "d": 0}
    monkeypatch.setattr(room, "folder_bytes", lambda folder: sizes[folder.name])
    monkeypatch.setattr(room, "why_kept", lambda *_, **__: "")
    monkeypatch.setattr(room, "_age_s", lambda folder: 10.0 * "abcd".index(folder.name))
    found = room.beyond([tmp_path / name for name in "abcd"], *limits)
    assert [folder.name for folder in found] == gone


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["prune", "--yes"], "give a limit: --older-than, --keep or --max-size"),
        (
            ["prune", "--older-than", "soon"],
            "--older-than: 'soon' is no time: give 90m, 12h, 30d or 8w",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(folder, *words) == 2
    assert capsys.readouterr() == ("", f"tfwatch: {sentence}\n")
