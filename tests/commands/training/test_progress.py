"""Progress lines: a renewed line in a terminal, one every two seconds in a file, and never a failure."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from tfwatch.commands.training.train_session import Progress
from tfwatch.core.clock import Clock
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.reading.streams import FolderSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.runs.reading.reader import Snapshot


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal of unknown width."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def reader(tmp_path: Path) -> RunReader:
    writer, _ = begin_run(tmp_path, "cnn")
    writer.close()
    assert writer.folder
    return RunReader(FolderSource(writer.folder))


def show_every(seconds: float, times: int, stream: io.StringIO, reader: RunReader) -> str:
    now = [0]
    progress = Progress(
        stream, reader, lambda *_: f"at {now[0] / 1e9:g} s", Clock(now_ns=lambda: now[0])
    )
    for _ in range(times):
        progress.show()
        now[0] += int(seconds * 1e9)
    return stream.getvalue()


def test_a_file_gets_a_line_every_two_seconds(reader: RunReader) -> None:
    assert show_every(0.5, 10, io.StringIO(), reader) == "at 0 s\nat 2 s\nat 4 s\n"


def test_a_terminal_gets_one_line_that_renews_itself(
    reader: RunReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Terminal, "fileno", lambda _: -1)
    assert show_every(0.25, 4, Terminal(), reader) == "\rat 0 s\x1b[K\rat 0.5 s\x1b[K"


def test_a_line_is_cut_to_the_terminal(reader: RunReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "fileno", lambda _: -1)
    stream = Terminal()
    Progress(stream, reader, lambda *_: "x" * 500, Clock()).show()
    assert stream.getvalue() == "\r" + "x" * 79 + "\x1b[K"


def test_a_terminal_limits_the_line_and_a_file_does_not(
    reader: RunReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Terminal, "fileno", lambda _: -1)
    widths: list[int | None] = []

    def line(_: Snapshot, width: int | None) -> str:
        widths.append(width)
        return "line"

    for stream in (Terminal(), io.StringIO()):
        Progress(stream, reader, line, Clock()).show()

    assert widths == [79, None]


def test_a_sentence_stands_on_a_line_of_its_own(
    reader: RunReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Terminal, "fileno", lambda _: -1)
    stream = Terminal()
    progress = Progress(stream, reader, lambda *_: "half done", Clock())
    progress.show()
    progress.notify("stopping")
    assert stream.getvalue() == "\rhalf done\x1b[K\r\x1b[Ktfwatch: stopping\n"


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by zero"), KeyError("x")], ids=["arithmetic", "lookup"]
)
def test_a_failure_is_reported_once_and_training_goes_on(
    error: Exception, reader: RunReader
) -> None:
    def fail(_: Snapshot, width: int | None) -> str:
        raise error

    line: Callable[[Snapshot, int | None], str] = fail
    stream = io.StringIO()
    now = [0]
    progress = Progress(stream, reader, line, Clock(now_ns=lambda: now[0]))
    for _ in range(3):
        progress.show()
        now[0] += 10**10
    assert (
        stream.getvalue()
        == f"tfwatch: no more progress is shown: {type(error).__name__}: {error}\n"
    )
