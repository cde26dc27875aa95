"""CSV, Parquet and TensorBoard: every figure comes back, a missing one is missing."""

from __future__ import annotations

import csv
import io
import struct
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.judge.step_rows import make_steps
from tests.report.hostile import FORMULA, hostile_run
from tests.report.written_runs import FINISHED, open_written
from tests.screens.canned import PREFETCHED, STAGES, usual
from tfwatch.core.events import EpochEnded
from tfwatch.report.exports import tables
from tfwatch.report.exports.tables import Recording, write_csv, write_parquet
from tfwatch.report.exports.tensorboard import write_scalars
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot


class Files:
    """Files in memory."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def create(self, name: str) -> IO[bytes]:
        files = self

        class File(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    files.data[name] = self.getvalue()
                super().close()

        return File()

    def rows(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.data[name].decode())))


def recorded(run: Snapshot, steps: tuple[int, int] | None = None) -> Recording:
    assert run.folder
    return Recording(RunFolder(run.folder), run, steps)


def csv_of(run: Snapshot, steps: tuple[int, int] | None = None) -> Files:
    files = Files()
    write_csv(recorded(run, steps), files.create)
    return files


@pytest.fixture
def run(tmp_path: Path) -> Snapshot:
    canned = usual(tmp_path / "run").staged(*STAGES, PREFETCHED)
    canned.ended().writer.close()
    return open_run(tmp_path / "run", canned.clock)


def test_every_step_comes_back_from_csv_bit_for_bit(
    run: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_CHUNK", 100)

    rows = csv_of(run).rows("steps.csv")

    assert len(rows) == len(run.steps)
    for name in (
        "start_ns",
        "step",
        "epoch",
        "flags",
        "wait_ms",
        "dispatch_ms",
        "compute_ms",
        "host_ms",
    ):
        back = np.array([row[name] for row in rows]).astype(run.steps.dtype[name])
        assert (back == run.steps[name]).all()


def test_a_missing_figure_is_an_empty_cell(run: Snapshot) -> None:
    files = csv_of(run)

    assert {row["copy_ms"] for row in files.rows("steps.csv")} == {""}
    assert {row["gpu_busy"] for row in files.rows("samples.csv")} == {""}
    assert {row["cpu_cores"] for row in files.rows("samples.csv")} == {"1.60000002"}


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", make_steps([1.0])[:0], FINISHED)

    files = csv_of(run)

    assert files.data["steps.csv"].startswith(b"start_ns,step,epoch,")
    assert (
        files.data["gpus.csv"]
        == b"at_ns,gpu,busy,process_busy,power_w,temperature_c,freq_mhz,memory_bytes\n"
    )
    assert all(data.count(b"\n") == 1 for name, data in files.data.items() if name != "events.csv")


def test_text_of_a_cell_is_no_formula_and_no_control_character(tmp_path: Path) -> None:
    files = csv_of(hostile_run(tmp_path / "run"))

    names = [row["name"] for row in files.rows("stage_names.csv")]
    assert f"'{FORMULA}" in names
    assert all(name.isprintable() for name in names)
    (missing,) = [
        row["value"] for row in files.rows("epochs.csv") if row["metric"] == f"'{FORMULA}"
    ]
    assert missing == ""
    for name, data in files.data.items():
        assert b"\x1b" not in data, name


def test_only_the_asked_steps_and_their_time_are_written(run: Snapshot) -> None:
    files = csv_of(run, (10, 20))

    assert [int(row["step"]) for row in files.rows("steps.csv")] == list(range(10, 21))
    kinds = {row["event"] for row in files.rows("events.csv")}
    assert kinds == {"StagesFound"}  # kept, because it names the stages


def test_every_table_comes_back_from_parquet(run: Snapshot) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    files = Files()

    write_parquet(recorded(run), files.create)

    steps = pq.read_table(io.BytesIO(files.data["steps.parquet"]))
    assert (steps["wait_ms"].to_numpy() == run.steps["wait_ms"]).all()
    assert steps["copy_ms"].null_count == len(run.steps)
    epochs = pq.read_table(io.BytesIO(files.data["epochs.parquet"])).to_pylist()
    assert [(row["metric"], row["value"]) for row in epochs] == [("loss", 1.31), ("accuracy", 0.42)]
    stages = pq.read_table(io.BytesIO(files.data["stage_names.parquet"])).to_pylist()
    assert stages[2]["name"] == "map(decode)"


def test_hostile_text_and_empty_tables_are_parquet(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    files, without = Files(), Files()

    write_parquet(recorded(hostile_run(tmp_path / "run")), files.create)
    write_parquet(
        recorded(open_written(tmp_path / "none", make_steps([1.0])[:0], FINISHED)), without.create
    )

    assert pq.read_table(io.BytesIO(files.data["events.parquet"])).num_rows > 10
    empty = pq.read_table(io.BytesIO(without.data["steps.parquet"]))
    assert (empty.num_rows, empty.column_names[-1]) == (0, "copy_ms")


def test_tensorboard_gets_the_means_and_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    rows = make_steps(np.repeat([5.0, 10.0], 2000), compute=10.0, host=0.0)
    rows["copy_ms"] = np.nan
    epoch = EpochEnded(50_000_000_000, 0, 4000, {"loss": 0.5, "val_loss": float("nan")})
    run, files = open_written(tmp_path / "run", rows, epoch, FINISHED), Files()

    write_scalars(recorded(run), 4000, files.create)

    ((name, data),) = files.data.items()
    assert name.startswith("events.out.tfevents.")
    scalars = _scalars(data)
    steps = scalars["step time, ms/total"]
    assert len(steps) == 1000
    assert steps[0] == pytest.approx((4, 15.0))
    assert steps[-1] == pytest.approx((4000, 20.0))
    assert scalars["data wait, %"][-1] == pytest.approx((4000, 50.0))
    assert scalars["epoch/loss"] == [(4000, 0.5)]
    assert not {"epoch/val_loss", "step time, ms/copy to the GPU"} & set(scalars)


def test_hostile_names_are_scalars(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    files = Files()

    write_scalars(recorded(hostile_run(tmp_path / "run")), 345, files.create)

    assert len(_scalars(next(iter(files.data.values())))) > 8


def _scalars(data: bytes) -> dict[str, list[tuple[int, float]]]:
    """Read an event file: records with two checksums."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    found: dict[str, list[tuple[int, float]]] = {}
    at = 0
    while at < len(data):
        head, (length,) = data[at : at + 8], struct.unpack_from("<Q", data, at)
        body = data[at + 12 : at + 12 + length]
        checks: tuple[Any, ...] = (
            *struct.unpack_from("<I", data, at + 8),
            *struct.unpack_from("<I", data, at + 12 + length),
        )
        assert checks == (masked_crc32c(head), masked_crc32c(body))
        event = Event.FromString(body)
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
        at += 16 + length
    return found
