"""A call on a disk that may hang: who waits for it, and what is said meanwhile."""

import errno
import os
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.runs.folders import FakeClock
from tests.screens.canned import usual
from tfwatch.runs import folder as disk_call
from tfwatch.runs import format as layout
from tfwatch.runs.folder import DiskCall, LateCall, RunFolder, call_and_report


def test_the_silence_lasts_until_the_answer() -> None:
    clock, responds = FakeClock(0), threading.Event()
    call = DiskCall(lambda: responds.wait(30), clock.clock)
    clock.at_s = 41.0
    assert (call.is_done, call.silent_s) == (False, 41.0)
    responds.set()
    assert call.wait(30)
    assert (call.answer(), call.silent_s) == (True, 0.0)


def test_a_command_says_that_it_waits_and_goes_on_with_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_call, "SLOW_S", 0.01)
    said: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(disk_call, "warn_user", said.put)
    sentence = call_and_report(lambda: said.get(timeout=30), tmp_path)
    assert f"waiting for the disk of {tmp_path}, which has not responded for" in sentence


def test_a_file_system_that_went_away_before_the_file_is_closed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual(tmp_path).writer.flush()
    close = os.close

    def fail(fd: int) -> None:
        close(fd)
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", fail)
        assert RunFolder(tmp_path).read(layout.STEPS, 0, 32)


def test_an_error_of_the_disk_is_raised_by_the_call_that_it_belongs_to() -> None:
    def fail() -> None:
        raise OSError("stale file handle")

    call: LateCall[None] = LateCall(10.0)
    for _ in range(2):
        with pytest.raises(OSError, match="stale"):
            call.ask(fail)
    assert call.ask(lambda: None) is None
