"""`tfwatch report --json`: a run as one JSON object, from its folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.screens import hardware
from tests.screens.canned import usual
from tfwatch.cli import main
from tfwatch.report.run_facts import as_json
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("words", [["run"], []], ids=["by name", "the newest"])
def test_a_run_is_printed_as_its_training_printed_it(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hardware.starving(tmp_path / "run").ended().writer.close()

    assert main(["report", *words, "--json", "--runs-dir", str(tmp_path)]) == 0

    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(as_json(open_run(tmp_path / "run"))))
    assert printed["machine"]["gpu"] == "Apple M2 Pro"


def test_a_run_that_still_trains_is_printed_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual(tmp_path / "run").writer.flush()

    assert main(["report", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 451
