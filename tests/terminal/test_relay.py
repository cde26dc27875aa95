"""The output of a script on its way to the log: what a line that overwrites itself leaves, and what
stays readable."""

import contextlib
import os
from pathlib import Path

import pytest

from tfwatch.core.clock import Clock
from tfwatch.runs.buffers import LogLines
from tfwatch.runs.format import LOG
from tfwatch.runs.script_process import Announcements, announce, announce_in
from tfwatch.terminal import pseudo_terminal
from tfwatch.terminal.pseudo_terminal import LogThread, ScriptLog


@pytest.mark.parametrize(
    ("parts", "log"),
    [
        pytest.param([(0, b"one\ntwo"), (0.1, b" more\n")], b"one\ntwo more\n", id="plain lines"),
        pytest.param([(0, b"."), (0.1, b"."), (0.2, b".\n")], b"...\n", id="dots come at once"),
        pytest.param(
            [(at / 10, b"\r%d %%" % at) for at in range(31)],
            b"\r0 %\r10 %\r20 %\r30 %",
            id="one state a second",
        ),
        pytest.param(
            [(0, b"\r1"), (0.1, b"\r22"), (0.2, b"\r333\nnext\n")],
            b"\r1\r333\nnext\n",
            id="then a line",
        ),
        pytest.param(
            [(0, b"\x08\x08\r5/9"), (0.1, b"\x08\x08\x08\r6/9\n")],
            b"\r5/9\r6/9\n",
            id="as Keras draws",
        ),
        pytest.param([(0, b"done\r\n")], b"done\r\n", id="a carriage return"),
    ],
)
def test_a_line_that_overwrites_itself_is_logged_once_a_second(
    parts: list[tuple[float, bytes]], log: bytes, tmp_path: Path
) -> None:
    now_ns = 0
    script_log = ScriptLog(tmp_path, Clock(now_ns=lambda: now_ns))
    for at_s, data in parts:
        now_ns = round(at_s * 10**9)
        script_log.write(data)
    script_log.end()

    assert (tmp_path / LOG).read_bytes() == log


def test_a_log_has_the_last_state_of_each_line() -> None:
    lines = LogLines()
    for part in (b"10 %\r20", b" %\r", b"30 %\nnext\n1/", b"9\r2/9\x08\x08\x08"):
        lines.add(part)

    assert (lines.tail, lines.total, lines.unfinished) == (("30 %", "next"), 2, "2/9")


def test_an_endless_progress_bar_is_one_line() -> None:
    lines = LogLines()
    for n in range(10_000):
        lines.add(b"\r%d and much more of a progress bar" % n)

    assert (lines.tail, lines.unfinished) == ((), "9999 and much more of a progress bar")


@pytest.fixture
def hung_log(tmp_path: Path) -> ScriptLog:
    """The log of a run on a disk that takes 64 KB and then no byte: a pipe that nobody reads."""
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / LOG)
    log = ScriptLog(tmp_path)
    log.begin(tmp_path / "run")
    return log


def test_a_disk_that_hangs_does_not_hold_the_output(
    hung_log: ScriptLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pseudo_terminal, "_MOST_PARTS", 50)
    monkeypatch.setattr(pseudo_terminal, "_END_S", 0.05)
    log = LogThread(hung_log)
    for _ in range(200):
        log.write(b"x" * 9_999 + b"\n")
    log.end()

    disk = os.open(tmp_path / "run" / LOG, os.O_RDONLY | os.O_NONBLOCK)
    written = b""
    while len(written) < 400_000:  # the disk responds again
        with contextlib.suppress(BlockingIOError):
            written += os.read(disk, 10**6)
    os.close(disk)
    assert set(written) == set(b"x\n")


def test_runs_are_announced_by_their_process_alone(tmp_path: Path) -> None:
    announcements = Announcements(tmp_path / "runs")
    announce_in(str(tmp_path / "runs"))
    announce(tmp_path / "new\nline")
    pid = os.fork()
    if pid == 0:
        announce(tmp_path / "of a child")
        os._exit(0)
    os.waitpid(pid, 0)

    assert announcements.take() == [tmp_path / "new\nline"]
    announce(tmp_path / "second")
    assert announcements.take() == [tmp_path / "second"]
    (tmp_path / "runs").unlink()
    announce(tmp_path / "third")
    assert announcements.take() == []
    announcements.close()
