"""Runs that are torn, damaged or unreadable."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, make_manifest, open_in, opened, read, write_run
from tfwatch.core.events import Noted, PipelineSwitched, SwitchAsked, encode
from tfwatch.core.rows import STEP, Phase, Rows
from tfwatch.runs import format as layout
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import Manifest, NotARunError, Pulse, decode_pulse
from tfwatch.runs.run import Run, open_run

FILES = (*layout.STREAMS, layout.PULSES, layout.LOG)


def test_a_torn_row_waits_for_its_rest(tmp_path: Path) -> None:
    write_run(tmp_path, plain(10))
    data = (tmp_path / layout.STEPS).read_bytes()
    (tmp_path / layout.STEPS).write_bytes(data[:-7])
    reader = Run(RunFolder(tmp_path), FakeClock(1).clock)

    torn = reader.read().steps_total
    (tmp_path / layout.STEPS).write_bytes(data)
    whole = reader.read().steps_total

    assert (torn, whole) == (9, 10)
    assert len(opened(tmp_path).steps) == 10


def test_a_torn_line_waits_for_its_rest(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    line = encode(Noted(1, "hello"))
    (tmp_path / layout.EVENTS).write_bytes(line[:20])
    reader = Run(RunFolder(tmp_path), FakeClock(1).clock)
    first = reader.read()
    (tmp_path / layout.EVENTS).write_bytes(line + b"\n")

    assert (len(first.events), first.torn) == (0, 0)
    assert tuple(reader.read().events) == (Noted(1, "hello"),)


def test_lines_that_are_not_events_are_counted(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    lines = [
        *("", "{", "[]", "7", "null", "[" * 100_000),
        *('{"event": "Unheard"}', '{"event": ["Noted"]}', '{"event": "Noted"}'),
        '{"event": "Noted", "at_ns": "1", "text": "x"}',
        '{"event": "Noted", "at_ns": 1.5}',
        '{"event": "RunEnded", "at_ns": 1%s, "cause": "finished", "steps": 1}' % ("0" * 30),
        '{"event": "EpochEnded", "at_ns": 1, "epoch": 0, "step": 1, "metrics": {"loss": "low"}}',
        encode(SwitchAsked(1, "device_prefetch", "off", "[b]", 1, "key")).decode(),
        encode(PipelineSwitched(1, "workers", "\u00b2", "4", 1, 2, 0.0, "key")).decode(),
    ]
    good = '{"event": "Noted", "at_ns": 1, "text": "hello", "of_a_newer_version": 1}'
    (tmp_path / layout.EVENTS).write_text("\n".join([*lines, good, ""]))

    snapshot = read(tmp_path)

    assert list(snapshot.events) == [Noted(1, "hello")]
    assert snapshot.torn == len(lines)


def damaged(rows: Rows) -> Rows:
    rows["wait_ms"][1], rows["compute_ms"][2], rows["host_ms"][3] = math.nan, math.inf, -1
    rows["dispatch_ms"][4], rows["start_ns"][5], rows["step"][6] = 1e30, 2**63, 0
    return rows


def test_implausible_rows_are_counted_and_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, plain(10))
    damaged(plain(10)).tofile(tmp_path / layout.STEPS)

    snapshot = read(tmp_path)

    assert snapshot.recent["step"].tolist() == [1, 8, 9, 10]
    assert (snapshot.steps_total, snapshot.torn) == (10, 6)
    assert snapshot.time_sums.end_s == pytest.approx(0.2)


@pytest.mark.parametrize(("column", "value"), [("start_ns", 7200 * 10**9), ("compute_ms", 1e8)])
def test_a_step_that_ends_later_than_the_run_is_left_out(
    tmp_path: Path, column: str, value: float
) -> None:
    write_run(tmp_path, plain(10), clock=FakeClock(1))
    rows = plain(10)
    rows[column][-1] = value
    rows.tofile(tmp_path / layout.STEPS)

    snapshot = read(tmp_path)

    assert (snapshot.steps_total, snapshot.torn, len(snapshot.steps)) == (10, 1, 9)
    assert snapshot.steps_between(1, 10)["step"].tolist() == list(range(1, 10))
    assert snapshot.time_sums.end_s == pytest.approx(0.18)


@pytest.mark.parametrize("name", [layout.SAMPLES, layout.PROGRESSES, layout.GPUS])
def test_a_row_that_is_later_than_the_run_is_left_out(tmp_path: Path, name: str) -> None:
    write_run(tmp_path, plain(1), clock=FakeClock(1))
    rows = np.zeros(2, layout.TABLES[name])
    rows["at_ns"] = 10**9, 7200 * 10**9
    rows.tofile(tmp_path / name)

    snapshot = read(tmp_path)

    tables = (snapshot.samples, snapshot.progress, snapshot.gpus)
    assert sum(table["at_ns"].tolist() == [10**9] for table in tables) == 1


def make_hole(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**42)


def link_to_text(path: Path) -> None:
    path.with_name("elsewhere").write_text("secret\n")
    path.symlink_to(path.with_name("elsewhere"))


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("put", [Path.mkdir, os.mkfifo, link_to_text, link_to_device, make_hole])
def test_what_stands_in_place_of_a_file_has_no_data(
    tmp_path: Path, name: str, put: Callable[[Path], None]
) -> None:
    write_run(tmp_path, plain(50))
    (tmp_path / name).unlink(missing_ok=True)
    put(tmp_path / name)

    run = read(tmp_path)

    assert open_in(tmp_path) == []
    assert run.manifest == opened(tmp_path).manifest
    assert run.log_tail == ()


def test_a_file_that_goes_on_as_a_hole_ends_before_it(tmp_path: Path) -> None:
    write_run(tmp_path, plain(10_000), clock=FakeClock(200))
    os.truncate(tmp_path / layout.STEPS, 2**42)

    run = opened(tmp_path)
    assert (run.steps_total - run.torn, run.recent["step"][-1]) == (10_000, 10_000)
    assert len(run.steps) < 10_500


def test_a_pipe_as_manifest_is_not_a_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / layout.MANIFEST)

    with pytest.raises(NotARunError, match="not a regular file"):
        opened(tmp_path)


def test_a_manifest_damaged_during_the_run_changes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, plain(5))
    clock = FakeClock(1)
    reader = Run(RunFolder(tmp_path), clock.clock)
    manifest = reader.read().manifest
    for text in (
        "",
        "{}",
        make_manifest(origin_ns=1).encode(),
        make_manifest(run="x", tables={}).encode(),
    ):
        clock.at_s += 2
        (tmp_path / layout.MANIFEST).write_text(text)
        assert reader.read().manifest == manifest


def test_a_run_with_an_unreadable_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, plain(10))
    closed = {tmp_path / layout.STEPS, tmp_path / layout.EVENTS}
    monkeypatch.setattr(os, "access", lambda path, _mode: path not in closed)

    with pytest.raises(
        NotARunError, match=r"no permission to read its steps.bin and events.jsonl$"
    ):
        opened(tmp_path)


def test_a_missing_folder_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(NotARunError, match="is not a run folder"):
        open_run(tmp_path / "nothing")


def test_a_torn_pulse_is_none() -> None:
    old, new = (Pulse(5, 6, Phase.WAIT, 4, step, 2).encode(step) for step in (1, 2))

    assert decode_pulse(new[:40] + old[40:]) is None
    assert decode_pulse(new[:-1]) is None
    assert decode_pulse(b"") is None


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param([*STEP.descr, ("extra", "<f8")], id="one more"),
        pytest.param([[name, "O"] for name in STEP.names or ()], id="of Python objects"),
        pytest.param(STEP.newbyteorder(">").descr, id="other bytes"),
        pytest.param("step", id="a text"),
    ],
)
def test_steps_with_other_columns_are_not_a_run(columns: object) -> None:
    values = json.loads(make_manifest().encode())
    values["tables"][layout.STEPS] = columns

    with pytest.raises(NotARunError, match=r"steps\.bin"):
        Manifest.decode(json.dumps(values))
