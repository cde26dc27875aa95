"""`tfwatch runs`: the list, and what is removed."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Done, typed
from tests.screens.canned import usual
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


def runs(folder: Path, *words: str) -> Done:
    return typed("runs", *words, "--runs-dir", folder)


def listed(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = runs(folder, "--json", *words)
    assert done.code == 0
    found: list[dict[str, Any]] = json.loads(done.out)["runs"]
    return found


def test_the_newest_run_is_first(folder: Path) -> None:
    found = listed(folder)

    assert [run["run"] for run in found] == [OPEN, NEW, OLD]
    assert [run["state"] for run in found] == ["not responding", "finished", "finished"]
    assert {run["steps"] for run in found} == {451}
    assert found[0]["step_ms"] > found[0]["wait_share"] > 0
    assert all(run["size_bytes"] >= 451 * 32 for run in found)


def test_the_table_has_a_row_for_each_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    header, *rows = runs(folder).out.splitlines()
    assert header.split() == ["run", "age", "state", "steps", "step", "wait", "size"]
    assert [row.split()[0] for row in rows] == [OPEN, NEW, OLD]


def test_runs_are_removed_with_all_their_files(folder: Path) -> None:
    (folder / OLD / "more").mkdir()
    (folder / OLD / "more" / "file").write_text("x")
    (folder / "outside").mkdir()
    (folder / OLD / "link").symlink_to(folder / "outside")

    done = runs(folder, "remove", OLD, NEW, "--yes")

    assert done.code == 0
    assert done.out.startswith("removed 2 runs, ")
    assert sorted(os.listdir(folder)) == [OPEN, "outside"]


@pytest.mark.parametrize("words", [["remove", OLD], ["prune", "--keep", "0"]])
def test_nothing_is_removed_unless_somebody_agrees(words: list[str], folder: Path) -> None:
    assert runs(folder, *words) == (2, "", "tfwatch: stdin is no terminal: add --yes\n")
    assert sorted(os.listdir(folder)) == [OLD, NEW, OPEN]


def test_a_run_that_still_runs_is_not_removed(folder: Path) -> None:
    why = f"tfwatch: {OPEN} is not removed: it still runs\n"
    assert runs(folder, "remove", OLD, OPEN, "--yes") == (2, "", why)
    assert sorted(os.listdir(folder)) == [OLD, NEW, OPEN]


def test_a_part_of_several_names_is_not_removed_and_elsewhere_the_newest_is_named(
    folder: Path,
) -> None:
    several = f"tfwatch: 3 runs match '2026': give one of {OPEN}, {NEW}, {OLD}\n"
    assert runs(folder, "remove", "2026", "--yes") == (2, "", several)
    done = typed("report", "2026", "--markdown", "--runs-dir", folder)
    taken = f"tfwatch: 3 runs match '2026': {OPEN}, the newest, is taken\n"
    assert (done.code, done.err) == (0, taken)


def test_prune_keeps_runs_that_are_open(folder: Path) -> None:
    assert runs(folder, "prune", "--keep", "0", "--yes").code == 0
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

    assert runs(folder, "prune", "--keep", "0", "--yes").code == 0
    assert sorted(os.listdir(folder)) == [
        "2026-11-16T10-17-03_cnn",
        "2026-11-17T10-17-03_cnn",
        OPEN,
    ]
    assert runs(folder, "remove", "2026-11-17", "--yes").code == 2
    assert runs(folder, "remove", "2026-11-16", "--yes").code == 0


def test_a_run_that_cannot_be_removed_keeps_no_other_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: FolderToRemove) -> None:
        if run.path.name == NEW:
            raise PermissionError(13, "Permission denied")
        shutil.rmtree(run.path)
        raise FileNotFoundError  # another process was faster

    monkeypatch.setattr(FolderToRemove, "remove", refuse)

    done = runs(folder, "prune", "--keep", "0", "--yes")
    why = f"tfwatch: {folder / NEW} cannot be removed: Permission denied\n"
    assert (done.code, done.err) == (2, why)
    assert sorted(os.listdir(folder)) == [NEW, OPEN]


def test_what_takes_the_place_of_a_run_while_the_user_is_asked_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchange(_question: str) -> bool:
        for name in (OLD, NEW):
            (folder / name).rename(folder / f"moved-{name}")
        (folder / OLD).symlink_to(folder / OPEN)
        (folder / NEW).mkdir()
        return True

    monkeypatch.setattr(room, "_ask", exchange)
    done = runs(folder, "remove", OLD, NEW)
    assert done.code == 2
    assert "1 other run neither" in done.err
    assert (folder / NEW).is_dir()
    assert (folder / OPEN / "run.json").is_file()
    assert (folder / f"moved-{OLD}" / "run.json").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_run_of_somebody_else_is_not_removed(folder: Path) -> None:
    os.chown(folder / OLD, 54321, -1)
    done = runs(folder, "remove", OLD, "--yes")
    assert done.code == 2
    assert "it belongs to another user" in done.err
    assert runs(folder, "prune", "--keep", "0", "--yes").code == 0
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
def test_bad_input_is_one_sentence(words: list[str], sentence: str, folder: Path) -> None:
    assert runs(folder, *words) == (2, "", f"tfwatch: {sentence}\n")
