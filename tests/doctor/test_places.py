"""The probes of the runs folder, the terminal, the disk and Keras' backend."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.pseudo import Pseudo
from tfwatch.core.clock import Clock
from tfwatch.doctor.facts import DiskSpeed
from tfwatch.doctor.probes import backend, count_colours, read_speed, runs_folder
from tfwatch.sensors.protocol import Unavailable

# -- the runs folder --------------------------------------------------------------------------------


def test_the_runs_folder_is_counted_and_not_changed(tmp_path: Path) -> None:
    for name in ("2026-11-20T10-17-03_cnn", "2026-11-21T10-17-03_cnn"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}" * 500)
    found = runs_folder(tmp_path)

    assert (found.problem, found.is_there, found.runs, found.size_bytes) == ("", True, 2, 2000)
    assert found.free_bytes
    assert len(list(tmp_path.iterdir())) == 2


def test_a_missing_folder_is_not_created(tmp_path: Path) -> None:
    found = runs_folder(tmp_path / "a" / "b")

    assert (found.problem, found.is_there, found.runs) == ("", False, 0)
    assert found.free_bytes
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")

    assert runs_folder(tmp_path / "runs").problem.endswith("runs is not a folder")
    assert runs_folder(tmp_path / "runs" / "b").problem.endswith("runs is not a folder")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EROFS, "Read-only file system"),
        (errno.ENOSPC, "No space left on device"),
        (errno.EACCES, "Permission denied"),
    ],
)
def test_a_folder_that_cannot_be_written_is_a_problem(
    code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    assert runs_folder(tmp_path).problem == words


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_folder_that_cannot_be_created_is_a_problem() -> None:
    # Even root can create nothing there, although access(2) permits it.
    assert runs_folder(Path("/proc/runs")).problem


def test_a_large_folder_is_counted_in_part(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    ticks = iter(range(100))
    clock = Clock(now_ns=lambda: next(ticks) * 10**9)

    assert runs_folder(tmp_path, clock).size_is_partial


# -- the disk -----------------------------------------------------------------------------------------


def test_the_files_of_a_folder_are_read(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.bin").write_bytes(os.urandom(2**20))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    found = read_speed(tmp_path)

    assert isinstance(found, DiskSpeed)
    assert (found.files, found.read_bytes) == (6, 6 * 2**20)
    assert found.took_s > 0
    assert found.from_disk is None or 0 <= found.from_disk <= 1


def test_an_empty_folder_is_measured_with_a_temporary_file(tmp_path: Path) -> None:
    found = read_speed(tmp_path / "not" / "yet")

    assert isinstance(found, DiskSpeed)
    assert found.files is None
    assert found.folder.endswith(tmp_path.name)
    assert list(tmp_path.iterdir()) == []


def test_reading_ends_at_the_time_limit(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.bin").write_bytes(bytes(2**20))
    ticks = iter(range(10**6))
    found = read_speed(tmp_path, Clock(now_ns=lambda: next(ticks) * 100_000_000))

    assert isinstance(found, DiskSpeed)
    assert found.read_bytes < 6 * 2**20


@pytest.mark.parametrize(
    ("speeds_mb_s", "found_mb_s", "reads"),
    [
        pytest.param([200], 200, 1, id="fast"),
        pytest.param([10, 200], 200, 2, id="another program used the disk"),
        pytest.param([10, 8], 10, 2, id="slow"),
    ],
)
def test_a_slow_read_is_repeated(
    speeds_mb_s: list[int],
    found_mb_s: int,
    reads: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [DiskSpeed("/n", speed * 1e6, 1.0) for speed in speeds_mb_s]
    monkeypatch.setattr("tfwatch.doctor.probes._read_any", lambda *_: left.pop(0))
    found = read_speed(tmp_path)

    assert isinstance(found, DiskSpeed)
    assert found.bytes_s == found_mb_s * 1e6
    assert len(speeds_mb_s) - len(left) == reads
    assert found.cores_busy is None or 0 <= found.cores_busy <= 1


def test_a_full_disk_gets_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2**20))
    found = read_speed(tmp_path)

    assert isinstance(found, Unavailable)
    assert "too little space" in found.reason


def test_a_folder_that_refuses_files_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    found = read_speed(tmp_path)

    assert isinstance(found, Unavailable)
    assert found.reason.endswith("Permission denied")


# -- the terminal and Keras -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm-kitty"}, 256),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, 2**24),
        ({"TERM": "xterm-256color", "COLORTERM": "24bit", "NO_COLOR": "1"}, 0),
        ({"TERM": "vt100"}, 0),
        ({"TERM": "dumb"}, 0),
        ({}, 0),
    ],
)
def test_the_colours_of_the_screen_are_counted(environ: dict[str, str], expected: int) -> None:
    assert count_colours(environ) == expected


@pytest.mark.terminal
def test_the_terminal_size_is_read_from_any_standard_descriptor() -> None:
    code = (
        "import os\nfrom tfwatch.doctor.probes import terminal\n"
        "print('GOT', terminal({'TERM': 'xterm', 'NO_COLOR': '1', 'LC_ALL': 'C'}, (60, 18)))"
    )
    with Pseudo("-c", code, columns=40, rows=10) as pseudo:
        assert pseudo.wait() == 0
        words = pseudo.words.replace("\r\n", "")
    assert (
        "columns=40, rows=10, needs=(60, 18), colours=0, has_unicode=False, kind='xterm'" in words
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"backend": "jax"}', "jax"),
        ("{", "tensorflow"),
        ("[]", "tensorflow"),
        ('{"floatx": "float32"}', "tensorflow"),
    ],
)
def test_the_backend_is_read_from_keras_json(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text(text)

    assert backend({}, tmp_path) == expected
    assert backend({"KERAS_BACKEND": "torch"}, tmp_path) == "torch"
    assert backend({"KERAS_HOME": str(tmp_path / "none")}, tmp_path) == "tensorflow"
