"""Snapshots of a reader that follows a run."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, add_steps, opened, read, reader_of, write_run
from tfwatch.core.events import EpochStarted, Noted, RunEnded, Slept
from tfwatch.core.rows import Phase
from tfwatch.runs import format as layout
from tfwatch.runs.buffers import HEAD_LINES, LOG_LINES
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import Pulse, decode_pulse
from tfwatch.runs.run import RECENT, Run


def test_local_time_includes_the_machines_sleep(tmp_path: Path) -> None:
    write_run(tmp_path, plain(1), Slept(10 * 10**9, 3_600_000.0), Slept(20 * 10**9, 60_000.0))
    snapshot = read(tmp_path)
    start = snapshot.local_time(0)

    passed_s = [(snapshot.local_time(at_s) - start).total_seconds() for at_s in (9.5, 10, 15, 30)]
    assert passed_s == [9.5, 3610, 3615, 3690]


def test_a_reader_follows_new_data(tmp_path: Path) -> None:
    rows = plain(RECENT + 500)
    clock = FakeClock(2)
    writer = write_run(tmp_path, rows[:100], clock=clock)
    reader = Run(RunFolder(tmp_path), clock.clock)
    first = reader.read()
    clock.at_s = 92
    add_steps(writer, rows[100:])
    writer.event(EpochStarted(0, 0, 1, None))
    writer.flush()

    then = reader.read()

    assert (first.steps_total, then.steps_total) == (100, RECENT + 500)
    assert then.recent["step"].tolist() == list(range(501, RECENT + 501))
    assert first.recent["step"].tolist() == list(range(1, 101))
    assert (tuple(first.events), tuple(then.events)) == ((), (EpochStarted(0, 0, 1, None),))


def test_a_reader_that_stood_still_takes_the_rows_of_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is suspended, or whose disk hangs: the pulse that it has read is old."""
    rows, clock = plain(9000), FakeClock(2)
    writer = write_run(tmp_path, rows[:100], clock=clock)
    folder = RunFolder(tmp_path)
    read_file = folder.read

    def read_late(name: str, offset: int, limit: int) -> bytes:
        if name == layout.STEPS and clock.at_s < 200:
            clock.at_s = 200
            add_steps(writer, rows[100:])
            writer.flush()
        return read_file(name, offset, limit)

    monkeypatch.setattr(folder, "read", read_late)
    snapshot = Run(folder, clock.clock).read()

    assert (snapshot.steps_total, snapshot.torn) == (9000, 0)
    assert snapshot.time_sums.end_s == pytest.approx(180)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(1, 3, [1, 2, 3]), (99, 200, [99, 100]), (-5, 2, [1, 2]), (50, 49, []), (101, 101, [])],
)
def test_steps_between_returns_the_existing_steps(
    tmp_path: Path, first: int, last: int, expected: list[int]
) -> None:
    write_run(tmp_path, plain(100))
    reader = Run(RunFolder(tmp_path), FakeClock(1).clock)

    assert reader.steps_between(first, last)["step"].tolist() == expected


@pytest.mark.parametrize("detail", ["", "read", "é" * 200, "x" * 95 + "é", "\udcff"])
def test_a_pulse_is_read_back(detail: str) -> None:
    pulse = decode_pulse(Pulse(5, 6, Phase.WAIT, 4, 412, 2, detail).encode(9))

    assert pulse is not None
    assert replace(pulse, detail="") == Pulse(5, 6, Phase.WAIT, 4, 412, 2)
    assert detail.encode(errors="replace").decode().startswith(pulse.detail)
    assert "\ufffd" not in pulse.detail


def test_images_per_second_cover_the_last_five_seconds(tmp_path: Path) -> None:
    clock = FakeClock()
    writer = write_run(None, plain(0), clock=clock)
    reader = reader_of(writer, clock.clock)
    rates = []
    for at_s, images in ((1, 0), (2, 100), (20, 1000), (22, 1400), (25, 1000)):
        clock.at_s = at_s
        writer.progress.append((images, 1, 0, 1, None))
        writer.flush()
        rates.append(reader.read().examples_s)

    assert rates == [None, 100.0, None, 200.0, 0.0]
    latest = reader.read().latest
    assert latest is not None
    assert latest.loss is None


def test_the_last_end_event_counts(tmp_path: Path) -> None:
    write_run(tmp_path, plain(5), RunEnded(1, "stopped", 5), Noted(2, "x"))

    assert read(tmp_path).ended == opened(tmp_path).ended == RunEnded(1, "stopped", 5)


def test_the_log_has_its_last_lines_with_any_bytes(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    lines = [b"line %d\r" % n for n in range(3000)] + [b"\xff\xfe [bold]", b"", b"open"]
    (tmp_path / layout.LOG).write_bytes(b"\n".join(lines))

    log = read(tmp_path).log_tail

    assert len(log) == LOG_LINES
    assert log[-3:] == ("line 2999", "\ufffd\ufffd [bold]", "")


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


def test_the_stages_of_the_last_seconds_are_kept(tmp_path: Path) -> None:
    clock = FakeClock(3600)
    writer = write_run(tmp_path, plain(3), clock=clock)
    for second in range(1, 3601):
        writer.stage(second * 10**9, 0, 0, 5, 1.0, 1.0, math.nan, math.nan, math.nan, 0.5)

    kept = reader_of(writer, clock.clock).read().recent_stages

    assert (kept["at_ns"] // 10**9).tolist() == list(range(3591, 3601))
