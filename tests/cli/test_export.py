"""`tfwatch export`: where it writes, and what it refuses."""

from __future__ import annotations

import gzip
import json
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


def test_a_trace_is_compressed_by_its_name(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(runs, "latest") == 0
    assert export(runs, "-o", "trace.json") == 0

    assert made(runs) == [f"tfwatch-{RUN}.json.gz", "trace.json"]
    assert capsys.readouterr().out == f"tfwatch-{RUN}.json.gz\ntrace.json\n"
    with gzip.open(runs.parent / "here" / f"tfwatch-{RUN}.json.gz") as file:
        assert sum(event["name"] == "step" for event in json.load(file)["traceEvents"]) == 451


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "no run 'nothing' in {runs}: tfwatch runs lists them"),
        (["-o", "none/x.json"], "none/x.json cannot be written: No such file or directory"),
    ],
)
def test_bad_input_is_one_sentence(
    runs: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(runs, *words) == 2
    assert capsys.readouterr().err == f"tfwatch: {sentence.format(runs=runs)}\n"
    assert made(runs) == []
