"""The report of a group: its Markdown and its JSON object."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.recorded import add_memory
from tests.groups import write_group
from tests.report.hostile import HOSTILE, MARKDOWN, hostile_run
from tfwatch.cli import main
from tfwatch.runs.group import GroupFile, folder_of_rank, write_group_file


def report_of(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["report", str(folder), *words]) == 0
    return capsys.readouterr().out


def hostile_group(folder: Path) -> Path:
    """A group whose every text is hostile, with the run of the page's tests as rank 0."""
    write_group(
        folder, [1, 1, 9], workload=HOSTILE, device=HOSTILE, machine={"host": HOSTILE}, not_split=""
    )
    write_group_file(folder, GroupFile(HOSTILE[:500], HOSTILE[:500], 1.0, 10**9, 4))
    hostile_run(folder_of_rank(folder, 0))
    add_memory(folder_of_rank(folder, 1), 2**30)
    return folder


def test_the_markdown_has_the_finding_and_a_row_a_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_group(tmp_path / "late", [1, 1, 6], device=MARKDOWN, workload="cnn")

    assert main(["report", str(folder), "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "### cnn, 3 ranks"
    assert lines[2].startswith("**STRAGGLER rank 2, 33 %**: the other ranks wait 5.0 of 15.0 ms")
    assert (
        "| 2 | 60 | 15.0 ms | 6.0 ms | 8.0 ms | 1.0 ms | 5.0 ms | data wait | finished |" in lines
    )


def test_hostile_text_is_no_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = hostile_group(tmp_path / "one")
    capsys.readouterr()

    assert main(["report", str(folder), "--markdown"]) == 0
    text = capsys.readouterr().out

    assert {line[:1] for line in text.split("\n")} <= {"#", "*", "F", "|", ""}
    assert not re.search(r"(?<!\\)[<>]|@\w|://", text)


def test_json_goes_to_standard_output_and_one_rank_has_a_report_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_group(tmp_path / "one", [1, 21])

    assert main(["report", "one", "--json", "--runs-dir", str(tmp_path)]) == 0
    group = json.loads(capsys.readouterr().out)
    assert main(["report", "one/rank-1", "--json", "--runs-dir", str(tmp_path)]) == 0
    rank = json.loads(capsys.readouterr().out)

    assert group["straggler"]["rank"] == 1
    assert rank["run"] == "one/rank-1"


def test_a_damaged_group_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    (folder / "group.json").write_text("{")

    assert main(["report", str(folder), "--json"]) == 2

    assert "its group.json cannot be read" in capsys.readouterr().err


def test_a_comparison_takes_one_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_group(tmp_path / "one", [1, 1])

    assert main(["compare", "one", "one", "--runs-dir", str(tmp_path)]) == 2

    sentence = "it is a group of ranks: name one of them, as one/rank-0"
    assert capsys.readouterr().err.endswith(f"{sentence}\n")
