"""A run as markdown."""

import re
from pathlib import Path

import pytest

from tests.judge.profiles import PROFILE
from tests.report.hostile import MARKDOWN, hostile_run
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report.markdown import as_markdown


def test_the_summary_begins_with_the_verdict(tmp_path: Path) -> None:
    run = open_written(
        tmp_path / "run", switched_run(), *SWITCH, FINISHED, device="GPU", accelerated=True
    )
    judged = JudgedRun(run)
    first, *_ = judged.findings

    lines = as_markdown(judged).split("\n")

    assert lines[0] == "### cnn on GPU finished: 200 steps in 12:04"
    assert lines[2].startswith(f"**{first.word}**: ")
    assert first.sentence in lines[2]
    assert any("| prefetch off → 4 at step 101: " in line and "x faster" in line for line in lines)


def test_the_step_by_layer_is_a_table(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", switched_run(), PROFILE, FINISHED)

    lines = as_markdown(JudgedRun(run)).split("\n")

    assert "**Step by layer**" in lines
    assert any(line.startswith("| metric | auc | AUC | 2.0 ms |") for line in lines)


def test_each_row_of_a_table_has_its_cells(tmp_path: Path) -> None:
    text = as_markdown(JudgedRun(hostile_run(tmp_path / "run")))

    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    cells = [{len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()} for table in tables]
    assert tables
    assert all(len(counts) == 1 for counts in cells)


@pytest.mark.parametrize(
    "text",
    [
        MARKDOWN,
        "<img src=x>",
        "a`b",
        "[x](http://evil.example)",
        "@team and #12",
        "www.evil.example",
    ],
)
def test_a_name_is_no_markup(tmp_path: Path, text: str) -> None:
    run = open_written(tmp_path / "run", switched_run(), FINISHED, device=text)

    (head, *_) = as_markdown(JudgedRun(run)).split("\n")

    assert not re.search(r"(?<!\\)[<>`*\[\]|]", head.removeprefix("### "))
    assert not re.search(r"[@#]\w|://|www\.", head.removeprefix("### "))


def test_hostile_text_reaches_no_line_of_its_own(tmp_path: Path) -> None:
    text = as_markdown(JudgedRun(hostile_run(tmp_path / "run")))

    without_code = re.sub(r"^```python\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    starts = {line[:1] for line in without_code.split("\n")}
    assert starts <= {"#", "*", "|", ""}
    assert text.encode().decode() == text
