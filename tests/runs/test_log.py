"""The log of a run: its first and its last lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, opened, read, write_run
from tfwatch.runs import format as layout
from tfwatch.runs.buffers import HEAD_LINES, LOG_LINES
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run

if TYPE_CHECKING:
    from pathlib import Path


def test_the_log_has_its_last_lines_with_any_bytes(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    lines = [b"line %d\r" % n for n in range(3000)] + [b"\xff\xfe [bold]", b"", b"open"]
    (tmp_path / layout.LOG).write_bytes(b"\n".join(lines))

    log = read(tmp_path).log_tail

    assert len(log) == LOG_LINES
    assert log[-3:] == ("line 2999", "\ufffd\ufffd [bold]", "")


def test_a_long_log_keeps_its_first_lines_too(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    reader = Run(RunFolder(tmp_path), FakeClock(1).clock)
    heads = []
    for count in (3, 400, HEAD_LINES + 5, 9000):
        (tmp_path / layout.LOG).write_text("".join(f"{number}\n" for number in range(count)))
        snapshot = reader.read()
        heads.append(len(snapshot.log_head))
        assert snapshot.log_total == count

    assert heads == [3, 400, HEAD_LINES, HEAD_LINES]
    assert (snapshot.log_head[0], snapshot.log_head[-1], snapshot.log_tail[-1]) == (
        "0",
        "499",
        "8999",
    )


@pytest.mark.parametrize("count", [0, 3, HEAD_LINES, LOG_LINES + 7, LOG_LINES + HEAD_LINES + 9])
def test_a_whole_run_has_each_line_of_the_log_once(tmp_path: Path, count: int) -> None:
    write_run(tmp_path, plain(0))
    lines = [str(number) for number in range(count)]
    (tmp_path / layout.LOG).write_text("".join(f"{line}\n" for line in lines))

    kept = [line for at, line in enumerate(lines) if at < HEAD_LINES or at >= count - LOG_LINES]
    assert list(opened(tmp_path).log) == kept


def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    (tmp_path / layout.LOG).write_bytes(b"x" * 10_000_000 + b"\nshort\n")

    log = read(tmp_path).log_tail

    assert [len(line) for line in log] == [2**22, 2**22, 10_000_000 - 2**23, 5]
