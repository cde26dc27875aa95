"""`tfwatch export`: where it writes, and what it refuses."""

from __future__ import annotations

import gzip
import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import exit_code
from tests.screens.canned import usual

if TYPE_CHECKING:
    from pathlib import Path

RUN = "2026-11-20T10-17-03_cnn"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run of 451 steps."""
    usual(tmp_path / "runs" / RUN).ended().writer.close()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "runs"


def export(runs: Path, *words: str) -> int:
    return exit_code("export", *words, "--runs-dir", str(runs))


def made(runs: Path) -> list[str]:
    here = runs.parent / "here"
    return sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())


def test_a_trace_is_a_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(runs, "latest", "--to", "perfetto") == 0

    assert made(runs) == [f"tfwatch-{RUN}.json"]
    assert capsys.readouterr().out.startswith(f"tfwatch-{RUN}.json, ")


def test_a_trace_is_compressed_by_its_name(runs: Path) -> None:
    assert export(runs, "--to", "perfetto", "-o", "trace.json.gz", "--steps", "1:9") == 0

    with gzip.open(runs.parent / "here" / "trace.json.gz") as file:
        assert sum(event["name"] == "step" for event in json.load(file)["traceEvents"]) == 9


def test_tables_are_files_of_a_new_folder(runs: Path) -> None:
    assert export(runs, "--to", "csv", "-o", "tables") == 0

    names = (
        "epochs",
        "events",
        "gpus",
        "progress",
        "samples",
        "stage_names",
        "stages",
        "steps",
    )
    assert made(runs) == [f"tables/{name}.csv" for name in names]


def test_a_folder_with_files_is_left_alone(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs.parent / "here" / "own").mkdir()
    (runs.parent / "here" / "own" / "steps.csv").write_text("mine", encoding="utf-8")

    assert export(runs, "--to", "csv", "-o", "own") == 2
    assert capsys.readouterr().err == "tfwatch: own is not empty: name another folder with -o\n"
    assert made(runs) == ["own/steps.csv"]


@pytest.mark.parametrize(
    ("to", "module"), [("parquet", "pyarrow"), ("tensorboard", "tensorboard.compat.proto")]
)
def test_a_missing_package_is_one_sentence(
    runs: Path,
    to: str,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    assert export(runs, "--to", to) == 2

    package = module.partition(".")[0]
    assert (
        capsys.readouterr().err
        == f"tfwatch: {to} needs the package {package}: pip install {package}\n"
    )
    assert list((runs.parent / "here").iterdir()) == []


def test_half_a_table_is_not_left(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill_disk(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tfwatch.report.exports.tables._csv_text", fill_disk)

    assert export(runs, "--to", "csv", "-o", "tables") == 2
    assert capsys.readouterr().err == "tfwatch: tables cannot be written: No space left on device\n"
    assert list((runs.parent / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--to", "csv", "--steps", "9"],
            "--steps: '9' is not a range of steps: give FIRST:LAST, e.g. 1000:2000",
        ),
        (
            ["--to", "csv", "--steps", "9:8"],
            "--steps: '9:8' is not a range of steps: give FIRST:LAST, e.g. 1000:2000",
        ),
        (["--to", "csv", "--steps", "452:999"], "the run has 451 steps, none from 452 on"),
        (["nothing", "--to", "csv"], "no run 'nothing' in {runs}: tfwatch runs lists them"),
        (
            ["--to", "perfetto", "-o", "none/x.json"],
            "none/x.json cannot be written: No such file or directory",
        ),
        ([], "--to is missing, as in: tfwatch export latest --to perfetto"),
    ],
    ids=["one step", "backwards", "beyond the run", "run", "folder", "no format"],
)
def test_bad_input_is_one_sentence(
    runs: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(runs, *words) == 2
    assert capsys.readouterr().err == f"tfwatch: {sentence.format(runs=runs)}\n"
    assert made(runs) == []
