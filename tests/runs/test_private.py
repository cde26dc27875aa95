"""Only the user can read a run, for any umask."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.begun import begin_run
from tests.screens.canned import STARVING, Canned
from tfwatch.core import temporary_files
from tfwatch.core.events import Noted
from tfwatch.runs import format as layout
from tfwatch.runs import library
from tfwatch.runs.format import EVENTS, make_folder, write_atomically
from tfwatch.runs.script_process import record_signal
from tfwatch.terminal.pseudo_terminal import ScriptLog


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of a folder and all its files."""
    return {
        str(path.relative_to(folder)): path.stat().st_mode & 0o777
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.usefixtures("umask")
def test_files_are_0600_and_folders_0700(tmp_path: Path) -> None:
    home = tmp_path / "state"
    writer, _ = begin_run(home / "tfwatch" / "runs", "cnn")
    writer.event(Noted(writer.now_ns(), "a note"))
    writer.step(writer.now_ns(), 1, 0, 0, 1.0, 1.0, 1.0, 1.0)
    writer.sample(writer.now_ns(), {})
    writer.close()
    assert writer.folder
    (tmp_path / "relay").mkdir()
    ScriptLog(tmp_path / "relay").begin(writer.folder)
    library.save_copy(writer.folder, "text")

    found = modes(home)
    folders = {".", "tfwatch", "tfwatch/runs", f"tfwatch/runs/{writer.folder.name}"}
    assert {name for name, mode in found.items() if mode == 0o700} == folders
    assert {mode for name, mode in found.items() if name not in folders} == {0o600}
    names = {os.path.basename(name) for name in found}
    assert names >= {*layout.TABLES, layout.MANIFEST, layout.EVENTS, layout.LOG, library.NAME}


def test_an_existing_folder_does_not_change(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    make_folder(shared)
    make_folder(shared / "mine")

    assert modes(shared) == {".": 0o755, "mine": 0o700}


def test_a_file_that_is_replaced_is_never_written_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else of a shared folder foresees the name of the part, and puts a link there."""
    victim, path = tmp_path / "bashrc", tmp_path / "copied.py"
    victim.write_text("mine")
    monkeypatch.setattr(os, "urandom", bytes)
    part, _ = temporary_files.new_part(path)
    part.symlink_to(victim)

    with pytest.raises(FileExistsError):
        write_atomically(path, "theirs")

    assert victim.read_text() == "mine"


def test_nothing_is_written_behind_a_link_that_takes_the_place_of_the_folder(
    tmp_path: Path,
) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    writer = Canned(folder).started().steps(3, STARVING).writer
    writer.flush()
    elsewhere.mkdir()
    folder.rename(tmp_path / "moved")
    folder.symlink_to(elsewhere)
    writer.note("a note")
    writer.flush()

    assert list(elsewhere.iterdir()) == []
    assert writer.lost is not None
    folder.unlink()
    (tmp_path / "moved").rename(folder)
    writer.flush()
    assert writer.lost is None
    assert b"a note" in (folder / EVENTS).read_bytes()


def test_the_end_of_a_run_by_a_signal_is_written_behind_no_link(tmp_path: Path) -> None:
    run = Canned(tmp_path / "run", pid=2**22 + 1).started().steps(3, STARVING)
    run.writer.flush()
    (tmp_path / "other").write_text("mine")
    (tmp_path / "run" / EVENTS).unlink()
    (tmp_path / "run" / EVENTS).symlink_to(tmp_path / "other")

    with pytest.raises(OSError, match="symbolic links"):
        record_signal(tmp_path / "run", signal.SIGTERM)
    assert (tmp_path / "other").read_text() == "mine"
