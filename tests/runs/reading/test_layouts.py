"""Runs of older and newer versions of tfwatch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.step_rows import plain
from tests.runs.folders import FakeClock, make_manifest, opened, read, write_run
from tfwatch.core.events import DatasetReady, Noted
from tfwatch.core.rows import SAMPLE, STEP, Phase
from tfwatch.report.document import as_json
from tfwatch.report.text import as_text
from tfwatch.runs import format as layout
from tfwatch.runs.format import Manifest, NotARunError, Pulse
from tfwatch.runs.reading.opened import read_run
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.reading.streams import FolderSource

if TYPE_CHECKING:
    from pathlib import Path


def test_a_field_of_a_newer_version_is_ignored(tmp_path: Path) -> None:
    write_run(tmp_path, plain(0))
    (tmp_path / layout.EVENTS).write_text(
        '{"event": "Noted", "at_ns": 1, "text": "x", "colour": "red"}\n'
    )

    assert tuple(read(tmp_path).events) == (Noted(1, "x"),)


@pytest.mark.parametrize(
    "column",
    [
        ["wait_ms", "O"],
        ["wait_ms", "S4"],
        ["wait_ms", "<i4"],
        ["wait_ms", "nonsense"],
        ["wait_ms", "(1,"],
        ["wait_ms"],
        "wait_ms",
        7,
    ],
)
def test_a_layout_without_a_required_column_is_not_a_run(column: object) -> None:
    values = json.loads(make_manifest().encode())
    table = values["tables"][layout.STEPS]
    table[[name for name, _ in table].index("wait_ms")] = column

    with pytest.raises(NotARunError):
        Manifest.decode(json.dumps(values))


def test_a_layout_with_more_columns_is_readable(tmp_path: Path) -> None:
    wider = np.dtype([("extra", "<f8"), *STEP.descr])
    rows = np.zeros(3, dtype=wider)
    rows["step"] = 1, 2, 3
    tables = {**make_manifest().tables, layout.STEPS: wider.descr}
    write_run(tmp_path, plain(0), tables=tables)
    rows.tofile(tmp_path / layout.STEPS)

    assert read(tmp_path).steps["step"].tolist() == [1, 2, 3]
    assert opened(tmp_path).steps["step"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "theirs", [np.dtype(STEP.descr[::-1]), STEP.newbyteorder(">")], ids=["columns", "bytes"]
)
def test_columns_in_another_order_are_converted(tmp_path: Path, theirs: np.dtype[np.void]) -> None:
    rows, ours = np.zeros(200, dtype=theirs), plain(200)
    for name in STEP.names or ():
        rows[name] = ours[name]
    write_run(tmp_path, plain(0), tables={**make_manifest().tables, layout.STEPS: theirs.descr})
    rows.tofile(tmp_path / layout.STEPS)
    pulse = Pulse(5 * 10**9, 0, Phase.WAIT, 4 * 10**9, 201, 0)
    (tmp_path / layout.PULSES).write_bytes(
        pulse.encode(1)
    )  # killed in a wait, which is added to the rows

    run = opened(tmp_path)

    assert run.steps.tobytes() == read(tmp_path).steps.tobytes() == ours.tobytes()
    assert as_json(run)["whole_run"]["data_wait_share"] == pytest.approx(0.1)


def test_steps_of_an_older_run_have_no_time_of_their_copy(tmp_path: Path) -> None:
    older = np.dtype(STEP.descr[:-1])
    rows, ours = np.zeros(50, dtype=older), plain(50)
    for name in older.names or ():
        rows[name] = ours[name]
    write_run(tmp_path, plain(0), tables={**make_manifest().tables, layout.STEPS: older.descr})
    rows.tofile(tmp_path / layout.STEPS)

    run = opened(tmp_path)

    assert np.isnan(run.steps["copy_ms"]).all()
    assert run.steps.tobytes() == read(tmp_path).steps.tobytes() == ours.tobytes()
    assert as_json(run)["whole_run"]["copy_ms"]["median"] is None


#: The samples of tfwatch 0.1.0.
_FIRST_SAMPLE = SAMPLE.descr[: (SAMPLE.names or ()).index("late_ms") + 1]


def test_samples_of_an_older_run_have_nan_in_new_columns(tmp_path: Path) -> None:
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
        assert np.isnan(
            [samples[name] for name in (SAMPLE.names or ())[len(_FIRST_SAMPLE) :]]
        ).all()
        assert not samples.flags.writeable
    assert len(first) == 2


@pytest.mark.parametrize(
    "table", [_FIRST_SAMPLE[1:], [*_FIRST_SAMPLE, ("gpu_busy", "S4")], [("at_ns", "<f8")]]
)
def test_a_sample_needs_its_time_and_numbers(table: list[tuple[str, str]]) -> None:
    manifest = make_manifest(tables={**make_manifest().tables, layout.SAMPLES: table})

    with pytest.raises(NotARunError, match=r"samples.bin lacks|not the type of a column"):
        Manifest.decode(manifest.encode())


def test_a_manifest_is_read_back() -> None:
    manifest = make_manifest(device="GPU:0", epochs=3, knobs={"prefetch": "off"})

    assert Manifest.decode(manifest.encode()).encode() == manifest.encode()


def test_another_schema_is_an_error_with_both_numbers() -> None:
    with pytest.raises(NotARunError, match="its schema is 7, this tfwatch reads 1"):
        Manifest.decode(make_manifest(schema=7).encode())


def test_an_older_run_of_a_file_of_functions_is_readable(tmp_path: Path) -> None:
    """Its settings were those of the file; it had no batch size, no number of examples, and only prefetch switched."""
    settings = {"epochs": 1, "mode": "graph", "file": "~/own.py", "fast_pipeline": ""}
    knobs = {"prefetch": "off", "workers": "off"}
    write_run(
        tmp_path,
        plain(50),
        workload="flowers",
        settings=settings,
        knobs=knobs,
        switchable=["prefetch"],
    )
    ready = (
        '{"event": "DatasetReady", "at_ns": 1, "images": null, "skipped": 0, "took_ms": 1500.0}\n'
    )
    (tmp_path / layout.EVENTS).write_text(ready)

    run = opened(tmp_path)

    assert as_text(run, tmp_path).startswith("flowers: ")
    assert as_json(run)["settings"] == settings
    assert tuple(run.events) == (DatasetReady(1, None, 0, 1500.0),)
