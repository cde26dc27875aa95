from __future__ import annotations

import json
import math
import os
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.steps import plain
from tests.runs.folders import FakeClock, add_steps, make_manifest, write_run
from tfwatch.core.events import EpochStarted, Noted, RunEnded, Slept, encode
from tfwatch.core.rows import PROGRESS, PULSE, SAMPLE, STEP, Phase
from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, NotARunError
from tfwatch.runs.loglines import HEAD_LINES, LOG_LINES
from tfwatch.runs.opened import Run, open_run, read_run
from tfwatch.runs.pulse import Pulse, decode_pulse
from tfwatch.runs.reader import RECENT, RECENT_PROGRESS, FolderSource, RunReader, Snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.rows import Rows

FILES = (*layout.STREAMS, layout.PULSES, layout.LOG)


def read(folder: Path) -> Snapshot:
    return RunReader(FolderSource(folder), FakeClock(1).clock).tail()


def opened(folder: Path) -> Run:
    return open_run(folder, FakeClock(1).clock)


def test_a_torn_row_waits_for_its_rest(tmp_path: Path) -> None:
    write_run(tmp_path, plain(10))
    data = (tmp_path / layout.STEPS).read_bytes()
    (tmp_path / layout.STEPS).write_bytes(data[:-7])
    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)

    torn = reader.tail().steps_total
    (tmp_path / layout.STEPS).write_bytes(data)
    whole = reader.tail().steps_total

    assert (torn, whole) == (9, 10)
    assert len(opened(tmp_path).steps) == 10


def test_the_time_of_day_goes_on_while_the_machine_sleeps_and_the_runs_clock_does_not(tmp_path: Path) -> None:
    write_run(tmp_path, plain(1), Slept(10 * 10**9, 3_600_000.0), Slept(20 * 10**9, 60_000.0))
    snapshot = read(tmp_path)
    start = snapshot.local_time(0)

    assert [(snapshot.local_time(at_s) - start).total_seconds() for at_s in (9.5, 10, 15, 30)] == [
        9.5,
        3610,
        3615,
        3690,
    ]


def test_a_torn_line_waits_for_its_rest(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    line = encode(Noted(1, "hello"))
    (tmp_path / layout.EVENTS).write_text(line[:20])
    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)
    first = reader.tail()
    (tmp_path / layout.EVENTS).write_text(line + "\n")

    assert (len(first.events), first.torn) == (0, 0)
    assert tuple(reader.tail().events) == (Noted(1, "hello"),)


def test_lines_that_are_no_events_are_counted(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    lines = [
        *("", "{", "[]", "7", "null", '{"event": "Unheard"}', '{"event": ["Noted"]}', "[" * 100_000),
        *('{"event": "Noted"}', '{"event": "Noted", "at_ns": "1", "text": "x"}', '{"event": "Noted", "at_ns": 1.5}'),
        '{"event": "RunEnded", "at_ns": 1%s, "cause": "finished", "steps": 1}' % ("0" * 30),
        '{"event": "EpochEnded", "at_ns": 1, "epoch": 0, "step": 1, "metrics": {"loss": "low"}}',
    ]
    (tmp_path / layout.EVENTS).write_text("\n".join([*lines, encode(Noted(1, "hello")), ""]))

    snapshot = read(tmp_path)

    assert tuple(snapshot.events) == opened(tmp_path).events == (Noted(1, "hello"),)
    assert snapshot.torn == len(lines)


def test_a_field_of_a_later_version_is_passed_over(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    (tmp_path / layout.EVENTS).write_text('{"event": "Noted", "at_ns": 1, "text": "x", "colour": "red"}\n')

    assert tuple(read(tmp_path).events) == (Noted(1, "x"),)


def test_a_reader_follows_what_comes(tmp_path: Path) -> None:
    rows = plain(RECENT + 500)
    writer = write_run(tmp_path, rows[:100])
    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)
    first = reader.tail()
    add_steps(writer, rows[100:])
    writer.event(EpochStarted(0, 0, 1, None))
    writer.flush()

    then = reader.tail()

    assert (first.steps_total, then.steps_total) == (100, RECENT + 500)
    assert then.steps["step"].tolist() == list(range(501, RECENT + 501))
    assert first.steps["step"].tolist() == list(range(1, 101))
    assert (tuple(first.events), tuple(then.events)) == ((), (EpochStarted(0, 0, 1, None),))


def test_snapshots_keep_the_samples_they_had(tmp_path: Path) -> None:
    writer = write_run(tmp_path, plain(0))
    reader = RunReader(writer, FakeClock(1).clock)
    seen = []
    for number in range(300):
        writer.sample(number, {"cpu_cores": float(number)})
        writer.flush()
        seen.append(reader.tail().samples)

    assert [len(samples) for samples in seen] == list(range(1, 301))
    assert seen[99]["at_ns"].tolist() == list(range(100))
    assert not seen[-1].flags.writeable


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (1, 3, [1, 2, 3]),
        (99, 200, [99, 100]),
        (-5, 2, [1, 2]),
        (50, 49, []),
        (101, 101, []),
        (5, -5, []),
    ],
)
def test_steps_between_are_as_many_as_there_are(tmp_path: Path, first: int, last: int, expected: list[int]) -> None:
    write_run(tmp_path, plain(100))
    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)

    assert reader.steps_between(first, last)["step"].tolist() == expected


def damaged(rows: Rows) -> Rows:
    rows["wait_ms"][1], rows["compute_ms"][2], rows["host_ms"][3] = math.nan, math.inf, -1
    rows["dispatch_ms"][4], rows["start_ns"][5], rows["step"][6] = 1e30, 2**63, 0
    return rows


def test_rows_that_no_training_wrote_are_counted_and_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, plain(10))
    damaged(plain(10)).tofile(tmp_path / layout.STEPS)

    snapshot = read(tmp_path)

    assert snapshot.steps["step"].tolist() == [1, 8, 9, 10]
    assert (snapshot.steps_total, snapshot.torn) == (10, 6)
    assert snapshot.pyramid.end_s == pytest.approx(0.2)


@pytest.mark.parametrize("days", [0.5, 99.0])
def test_an_absurd_start_takes_little_memory(tmp_path: Path, days: float) -> None:
    write_run(tmp_path, plain(0))
    rows = plain(10)
    rows["start_ns"][5] = int(days * 86_400e9)
    rows.tofile(tmp_path / layout.STEPS)

    snapshot = read(tmp_path)
    columns = snapshot.pyramid.columns(0.2, 0.25, 4)

    assert snapshot.steps_total == 10
    assert columns.steps.tolist() == [0, 0, 0, 9]


def rubbish(seed: int) -> bytes:
    chance = random.Random(seed)
    kinds = [
        chance.randbytes(chance.randrange(5000)),
        bytes(chance.randrange(5000)),
        b"\xff" * chance.randrange(5000),
        b"{" * chance.randrange(5000),
        b"\n".join(chance.randbytes(9) for _ in range(chance.randrange(300))),
        json.dumps({"event": "RunEnded", "at_ns": chance.choice([-1, 1e999, None, 2**70, [], {}])}).encode() + b"\n",
    ]
    return chance.choice(kinds)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(12))
def test_rubbish_in_a_file_is_read_as_nothing_or_as_data(tmp_path: Path, name: str, seed: int) -> None:
    write_run(tmp_path, plain(50), Noted(1, "x"))
    (tmp_path / name).write_bytes(rubbish(seed))

    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)
    for snapshot in (reader.tail(), reader.tail()):
        columns = snapshot.pyramid.columns(snapshot.now_s, 0.25, 120)
        assert len(columns.share) == 120
        assert math.isfinite(snapshot.now_s)
    assert len(reader.steps_between(1, 10)) <= 10
    assert opened(tmp_path).manifest.workload == "cnn"


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_the_place_of_a_file_is_no_data(tmp_path: Path, name: str) -> None:
    write_run(tmp_path, plain(50))
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()

    assert read(tmp_path).manifest == opened(tmp_path).manifest


@pytest.mark.parametrize("seed", range(60))
def test_rubbish_for_a_manifest_is_no_run(tmp_path: Path, seed: int) -> None:
    (tmp_path / layout.MANIFEST).write_bytes(rubbish(seed))

    with pytest.raises(NotARunError):
        RunReader(FolderSource(tmp_path))
    with pytest.raises(NotARunError):
        open_run(tmp_path)


@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_manifest_is_no_run_or_one_that_reads(tmp_path: Path, seed: int) -> None:
    write_run(tmp_path, plain(50))
    chance = random.Random(seed)
    values = json.loads((tmp_path / layout.MANIFEST).read_text())
    name = chance.choice(list(values))
    values[name] = chance.choice([None, -1, 1e300, 2**80, "x", [], {}, [[]], {"steps.bin": []}, True, ["a", 3]])
    (tmp_path / layout.MANIFEST).write_text(json.dumps(values))

    with suppress(NotARunError):
        snapshot = read(tmp_path)
        assert snapshot.steps_total == 50
        assert snapshot.manifest.encode()


@pytest.mark.parametrize(
    "column",
    [["wait_ms", "O"], ["wait_ms", "S4"], ["wait_ms", "<i4"], ["wait_ms", "nonsense"], ["wait_ms"], "wait_ms", 7],
)
def test_a_layout_without_what_is_needed_is_no_run(column: object) -> None:
    values = json.loads(make_manifest().encode())
    table = values["tables"][layout.STEPS]
    table[[name for name, _ in table].index("wait_ms")] = column

    with pytest.raises(NotARunError):
        Manifest.decode(json.dumps(values))


def test_a_layout_with_more_columns_reads(tmp_path: Path) -> None:
    wider = np.dtype([("extra", "<f8"), *STEP.descr])
    rows = np.zeros(3, dtype=wider)
    rows["step"] = 1, 2, 3
    tables = {**make_manifest().tables, layout.STEPS: wider.descr}
    write_run(tmp_path, plain(0), tables=tables)
    rows.tofile(tmp_path / layout.STEPS)

    assert read(tmp_path).steps["step"].tolist() == [1, 2, 3]
    assert opened(tmp_path).steps["step"].tolist() == [1, 2, 3]


#: What tfwatch 0.1.0 sampled.
_FIRST_SAMPLE = SAMPLE.descr[: (SAMPLE.names or ()).index("late_ms") + 1]


def test_samples_of_an_older_run_lack_what_it_did_not_measure(tmp_path: Path) -> None:
    rows = np.ones(3, dtype=_FIRST_SAMPLE)
    rows["at_ns"] = 1, 2, 3
    write_run(tmp_path, plain(0), tables={**make_manifest().tables, layout.SAMPLES: _FIRST_SAMPLE})
    rows[:2].tofile(tmp_path / layout.SAMPLES)
    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)
    first = reader.tail().samples
    rows.tofile(tmp_path / layout.SAMPLES)

    run = opened(tmp_path)
    read = read_run(FolderSource(tmp_path), FakeClock(1).clock)
    for samples in (reader.tail().samples, run.samples, read.samples):
        assert samples.dtype == SAMPLE
        assert samples["at_ns"].tolist() == [1, 2, 3]
        assert samples["late_ms"].tolist() == [1, 1, 1]
        assert np.isnan([samples[name] for name in (SAMPLE.names or ())[len(_FIRST_SAMPLE) :]]).all()
        assert not samples.flags.writeable
    assert len(first) == 2


@pytest.mark.parametrize("table", [_FIRST_SAMPLE[1:], [*_FIRST_SAMPLE, ("gpu_busy", "S4")], [("at_ns", "<f8")]])
def test_a_sample_needs_its_time_and_numbers(table: list[tuple[str, str]]) -> None:
    manifest = make_manifest(tables={**make_manifest().tables, layout.SAMPLES: table})

    with pytest.raises(NotARunError, match=r"samples.bin lacks"):
        Manifest.decode(manifest.encode())


def test_a_manifest_goes_round() -> None:
    manifest = make_manifest(device="GPU:0", epochs=3, knobs={"prefetch": "off"})

    assert Manifest.decode(manifest.encode()).encode() == manifest.encode()


def test_another_schema_is_said_to_be_one() -> None:
    with pytest.raises(NotARunError, match="its schema is 7, this tfwatch reads 1"):
        Manifest.decode(make_manifest(schema=7).encode())


def test_a_manifest_that_is_damaged_later_changes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, plain(5))
    clock = FakeClock(1)
    reader = RunReader(FolderSource(tmp_path), clock.clock)
    manifest = reader.tail().manifest
    for text in ("", "{}", make_manifest(origin_ns=1).encode(), make_manifest(run="x", tables={}).encode()):
        clock.at_s += 2
        (tmp_path / layout.MANIFEST).write_text(text)
        assert reader.tail().manifest == manifest


def test_a_run_of_which_a_part_may_not_be_read_is_not_told_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, plain(10))
    closed = {tmp_path / layout.STEPS, tmp_path / layout.EVENTS}
    monkeypatch.setattr(os, "access", lambda path, _mode: path not in closed)

    with pytest.raises(NotARunError, match=r"no permission to read its steps.bin and events.jsonl$"):
        opened(tmp_path)


def test_no_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARunError, match="is no run folder"):
        open_run(tmp_path / "nothing")


def test_the_log_is_its_last_lines_whatever_they_hold(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    lines = [b"line %d\r" % n for n in range(3000)] + [b"\xff\xfe [bold]", b"", b"open"]
    (tmp_path / layout.LOG).write_bytes(b"\n".join(lines))

    log = read(tmp_path).log

    assert len(log) == LOG_LINES
    assert log[-3:] == ("line 2999", "\ufffd\ufffd [bold]", "")


def test_of_a_long_log_the_first_lines_are_kept_too(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)
    heads = []
    for count in (3, 400, HEAD_LINES + 5, 9000):
        (tmp_path / layout.LOG).write_text("".join(f"{number}\n" for number in range(count)))
        snapshot = reader.tail()
        heads.append(len(snapshot.log_head))
        assert snapshot.log_total == count

    assert heads == [3, 400, HEAD_LINES, HEAD_LINES]
    assert (snapshot.log_head[0], snapshot.log_head[-1], snapshot.log[-1]) == ("0", "499", "8999")


@pytest.mark.parametrize("count", [0, 3, HEAD_LINES, LOG_LINES + 7, LOG_LINES + HEAD_LINES + 9])
def test_a_whole_run_has_the_logs_ends_each_line_once(tmp_path: Path, count: int) -> None:
    write_run(tmp_path, plain(0))
    lines = [str(number) for number in range(count)]
    (tmp_path / layout.LOG).write_text("".join(f"{line}\n" for line in lines))

    kept = [line for at, line in enumerate(lines) if at < HEAD_LINES or at >= count - LOG_LINES]
    assert list(opened(tmp_path).log) == kept


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    (tmp_path / layout.LOG).write_bytes(b"x" * 10_000_000 + b"\nshort\n")

    log = read(tmp_path).log

    assert [len(line) for line in log] == [2**22, 2**22, 10_000_000 - 2**23, 5]


@pytest.mark.parametrize("detail", ["", "read", "é" * 200, "x" * 95 + "é", "\udcff"])
def test_a_pulse_goes_round(detail: str) -> None:
    pulse = decode_pulse(Pulse(5, 6, Phase.WAIT, 4, 412, 2, detail).encode(9), PULSE)

    assert pulse is not None
    assert (pulse.now_ns, pulse.wall_ns, pulse.phase, pulse.since_ns, pulse.step, pulse.epoch) == (
        5,
        6,
        Phase.WAIT,
        4,
        412,
        2,
    )
    assert detail.encode(errors="replace").decode().startswith(pulse.detail)
    assert "\ufffd" not in pulse.detail


def test_a_torn_pulse_is_none() -> None:
    old, new = (Pulse(5, 6, Phase.WAIT, 4, step, 2).encode(step) for step in (1, 2))

    assert decode_pulse(new[:40] + old[40:], PULSE) is None
    assert decode_pulse(new[:-1], PULSE) is None
    assert decode_pulse(b"", PULSE) is None


def test_images_a_second_are_of_the_last_five(tmp_path: Path) -> None:
    clock = FakeClock()
    writer = write_run(None, plain(0), clock=clock)
    reader = RunReader(writer, clock.clock)
    rates = []
    for at_s, images in ((1, 0), (2, 100), (20, 1000), (22, 1400), (25, 1000)):
        clock.at_s = at_s
        writer.progress = (images, 1, 0, 1, math.nan, math.nan)
        writer.flush()
        rates.append(reader.tail().images_s)

    assert rates == [None, 100.0, None, 200.0, 0.0]
    latest = reader.tail().latest
    assert latest is not None
    assert (latest.loss, latest.metric) == (None, None)


def test_batches_that_show_no_images_have_no_rate_of_them() -> None:
    clock = FakeClock()
    writer = write_run(None, plain(0), clock=clock)
    reader = RunReader(writer, clock.clock)
    for step in (1, 2, 3):
        clock.at_s = step
        writer.progress = (0, step, 0, step, math.nan, math.nan)
        writer.flush()
    assert reader.tail().images_s is None


def test_a_run_that_ended_is_known_by_its_last_end(tmp_path: Path) -> None:
    write_run(tmp_path, plain(5), RunEnded(1, "stopped", 5), Noted(2, "x"))

    assert read(tmp_path).ended == opened(tmp_path).ended == RunEnded(1, "stopped", 5)


def test_of_the_progress_the_newest_is_kept(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    rows = np.zeros(3000, dtype=PROGRESS)
    rows["at_ns"], rows["step"] = np.arange(3000) * 10**9, np.arange(3000)
    reader = RunReader(FolderSource(tmp_path), FakeClock(1).clock)
    seen = []
    for count in (5, 1500, 3000):
        rows[:count].tofile(tmp_path / layout.PROGRESSES)
        seen.append(reader.tail().progress["step"].tolist())

    assert seen == [list(range(max(0, count - RECENT_PROGRESS), count)) for count in (5, 1500, 3000)]
