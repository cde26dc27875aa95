"""Requests as lines of a run folder: their words, writers side by side, and what is no request."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from tfwatch.core.events import AutopilotBegan, ExperimentBegan, Noted
from tfwatch.runs import requests
from tfwatch.runs.format import REQUESTS
from tfwatch.runs.requests import (
    LONGEST,
    NoRequestsError,
    Request,
    RequestFile,
    StopRequest,
    SwitchRequest,
    TunerNote,
    append,
    decode_request,
    encode_request,
    why_no_requests,
)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(SwitchRequest("prefetch", "4", "key"), id="prefetch"),
        pytest.param(SwitchRequest("cache", "on", "code"), id="code"),
        pytest.param(SwitchRequest("cache", "on", "command", at_step=100), id="at a step"),
        pytest.param(SwitchRequest("workers", "auto", "autopilot", after=812), id="tuner"),
        pytest.param(StopRequest("key"), id="stop"),
        pytest.param(TunerNote(AutopilotBegan(1, 2), 7, 1.5), id="note"),
        pytest.param(TunerNote(Noted(1, "no", is_refusal=True), 7, 1.5), id="refusal"),
    ],
)
def test_a_request_is_read_as_it_was_written(request_: Request) -> None:
    line = encode_request(request_)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_request(line) == request_


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 4000,
        b"{}",
        b'{"do": "format"}',
        b'{"do": ["switch"]}',
        b'{"do": "switch"}',
        b'{"do": "switch", "knob": "gain", "value": "4", "by": "key"}',
        b'{"do": "switch", "knob": "prefetch", "value": 4, "by": "key"}',
        b'{"do": "switch", "knob": "prefetch", "value": "99999", "by": "key"}',
        b'{"do": "switch", "knob": "prefetch", "value": "4", "by": "root"}',
        b'{"do": "switch", "knob": "prefetch", "value": "4", "by": "key", "at_step": -1}',
        b'{"do": "switch", "knob": "prefetch", "value": "4", "by": "key", "at_step": 1e9}',
        b'{"do": "switch", "knob": "prefetch", "value": "4", "by": "key", "more": 1}',
        b'{"do": "stop"}',
        b'{"do": "stop", "by": "key", "at_step": true}',
        b'{"do": "note"}',
        b'{"do": "note", "event": {"event": "ExperimentBegan"}, "pid": 1, "started_s": 1}',
    ],
)
def test_what_is_no_request_is_named(line: bytes) -> None:
    with pytest.raises(ValueError, match="this is no request"):
        decode_request(line)


def test_lines_are_read_in_order_and_once(tmp_path: Path) -> None:
    file = RequestFile(tmp_path)
    assert file.read() == []

    append(tmp_path, SwitchRequest("prefetch", "4", "key"))
    append(tmp_path, StopRequest("key"))

    assert [line.request for line in file.read()] == [
        SwitchRequest("prefetch", "4", "key"),
        StopRequest("key"),
    ]
    assert file.read() == []
    assert file.offset == (tmp_path / REQUESTS).stat().st_size
    assert (tmp_path / REQUESTS).stat().st_mode & 0o777 == 0o600


def test_what_stands_there_can_be_left_out(tmp_path: Path) -> None:
    append(tmp_path, StopRequest("key"))
    file = RequestFile(tmp_path)

    file.skip_all()
    append(tmp_path, SwitchRequest("prefetch", "4", "key"))

    assert [line.request for line in file.read()] == [SwitchRequest("prefetch", "4", "key")]


_WRITER = """
import sys
from pathlib import Path
from tfwatch.runs.requests import SwitchRequest, append
for number in range(1, 201):
    append(Path(sys.argv[1]), SwitchRequest("prefetch", str(number), "key", at_step=int(sys.argv[2])))
"""  # noqa: E501


def test_four_writers_at_once_lose_no_request(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), str(one)])
        for one in range(1, 5)
    ]
    file, read = RequestFile(tmp_path), list[SwitchRequest]()

    def take() -> None:
        for line in file.read():
            assert isinstance(line.request, SwitchRequest)
            read.append(line.request)

    while any(writer.poll() is None for writer in writers):
        take()
    take()

    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    for one in range(1, 5):
        of_writer = [request.value for request in read if request.at_step == one]
        assert of_writer == [str(number) for number in range(1, 201)]


def test_a_line_is_taken_once_it_is_whole(tmp_path: Path) -> None:
    file, path = RequestFile(tmp_path), tmp_path / REQUESTS
    whole = encode_request(StopRequest("key"))
    path.write_bytes(whole[:9])
    path.chmod(0o600)
    assert file.read() == []

    with path.open("ab") as torn:
        torn.write(whole[9:])

    assert [line.request for line in file.read()] == [StopRequest("key")]


def test_a_torn_line_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / REQUESTS
    path.write_bytes(b'{"do": "sto')
    path.chmod(0o600)

    append(tmp_path, StopRequest("key"))

    torn, whole = RequestFile(tmp_path).read()
    assert (torn.request, whole.request) == (None, StopRequest("key"))
    assert torn.problem.startswith("this is no request")


@pytest.mark.parametrize("size", [LONGEST, 100_000, 10_000_000])
def test_a_long_line_is_left_out_and_the_next_one_taken(tmp_path: Path, size: int) -> None:
    path = tmp_path / REQUESTS
    path.write_bytes(b"x" * size + b"\n")
    path.chmod(0o600)
    append(tmp_path, StopRequest("key"))
    file = RequestFile(tmp_path)

    lines = [line for _ in range(200) for line in file.read()]

    assert [line.request for line in lines] == [None, StopRequest("key")]
    assert lines[0].problem.startswith("this is no request")


def test_a_request_that_is_too_long_is_not_appended(tmp_path: Path) -> None:
    note = TunerNote(ExperimentBegan(1, "prefetch", ("off", "x" * 5000), 1, 1), 1, 1.0)

    with pytest.raises(NoRequestsError, match="at most 4096 bytes"):
        append(tmp_path, note)
    assert not (tmp_path / REQUESTS).exists()


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_BYTES", 90)
    file = RequestFile(tmp_path)
    for _ in range(4):
        append(tmp_path, StopRequest("key"))
    assert len(file.read()) == 4

    with pytest.raises(NoRequestsError, match="too many requests"):
        append(tmp_path, StopRequest("key"))
    with pytest.raises(NoRequestsError, match="too many requests"):
        file.read()


def _link(folder: Path) -> None:
    (folder / "other").write_bytes(encode_request(StopRequest("key")))
    (folder / REQUESTS).symlink_to(folder / "other")


def _shared_file(folder: Path) -> None:
    append(folder, StopRequest("key"))
    (folder / REQUESTS).chmod(0o620)


def _shared_folder(folder: Path) -> None:
    append(folder, StopRequest("key"))
    folder.chmod(0o777)


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / REQUESTS, 0o600)


def _directory(folder: Path) -> None:
    (folder / REQUESTS).mkdir(0o700)


@pytest.mark.parametrize("make", [_link, _shared_file, _shared_folder, _pipe, _directory])
def test_a_file_that_others_may_have_written_gives_no_request(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path)

    with pytest.raises(NoRequestsError):
        RequestFile(tmp_path).read()
    with pytest.raises(NoRequestsError):
        append(tmp_path, StopRequest("key"))
    assert why_no_requests(tmp_path)


def test_a_run_of_another_user_takes_and_gives_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, StopRequest("key"))
    assert why_no_requests(tmp_path) == ""
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    monkeypatch.setattr(tempfile, "TemporaryFile", Mock(side_effect=PermissionError))

    with pytest.raises(NoRequestsError, match="belongs to another user"):
        RequestFile(tmp_path).read()
    with pytest.raises(NoRequestsError, match="belongs to another user"):
        append(tmp_path, StopRequest("key"))


def test_a_folder_that_is_gone_takes_none(tmp_path: Path) -> None:
    with pytest.raises(NoRequestsError, match="folder is gone"):
        append(tmp_path / "run", StopRequest("key"))
    assert RequestFile(tmp_path / "run").read() == []
