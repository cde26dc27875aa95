"""The report of a group: its Markdown and its JSON object."""

import json
import re
from pathlib import Path

from tests.cli.commands import typed
from tests.cli.recorded import add_memory
from tests.groups import write_group
from tests.report.hostile import HOSTILE, MARKDOWN, hostile_run
from tfwatch.runs.group import GroupFile, folder_of_rank, write_group_file


def hostile_group(folder: Path) -> Path:
    """A group whose every text is hostile, with the run of the page's tests as rank 0."""
    write_group(
        folder, [1, 1, 9], workload=HOSTILE, device=HOSTILE, machine={"host": HOSTILE}, not_split=""
    )
    write_group_file(folder, GroupFile(HOSTILE[:500], HOSTILE[:500], 1.0, 10**9, 4))
    hostile_run(folder_of_rank(folder, 0))
    add_memory(folder_of_rank(folder, 1), 2**30)
    return folder


def test_the_markdown_has_the_finding_and_a_row_a_rank(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "late", [1, 1, 6], device=MARKDOWN, workload="cnn")

    code, out, _ = typed("report", folder, "--markdown")
    lines = out.splitlines()

    assert code == 0
    assert lines[0] == "### cnn, 3 ranks"
    assert lines[2].startswith("**STRAGGLER rank 2, 33 %**: the other ranks wait 5.0 of 15.0 ms")
    assert (
        "| 2 | 60 | 15.0 ms | 6.0 ms | 8.0 ms | 1.0 ms | 5.0 ms | data wait | finished |" in lines
    )


def test_hostile_text_is_no_markdown(tmp_path: Path) -> None:
    code, text, _ = typed("report", hostile_group(tmp_path / "one"), "--markdown")

    assert code == 0
    assert {line[:1] for line in text.split("\n")} <= {"#", "*", "F", "|", ""}
    assert not re.search(r"(?<!\\)[<>]|@\w|://", text)


def test_json_goes_to_standard_output_and_one_rank_has_a_report_of_its_own(tmp_path: Path) -> None:
    write_group(tmp_path / "one", [1, 21])

    group, rank = (
        json.loads(typed("report", name, "--json", "--runs-dir", tmp_path).out)
        for name in ("one", "one/rank-1")
    )

    assert group["straggler"]["rank"] == 1
    assert rank["run"] == "one/rank-1"


def test_a_damaged_group_is_bad_input(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "one", [1, 21])
    (folder / "group.json").write_text("{")

    done = typed("report", folder, "--json")

    assert done.code == 2
    assert "its group.json cannot be read" in done.err


def test_a_comparison_takes_one_rank(tmp_path: Path) -> None:
    write_group(tmp_path / "one", [1, 1])

    done = typed("compare", "one", "one", "--runs-dir", tmp_path)

    assert done.code == 2
    assert done.err.endswith("it is a group of ranks: name one of them, as one/rank-0\n")
