"""The report of a group: its page, and its summary in markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands.evidence.recorded import add_memory
from tests.groups import FINISHED, meeting_rows, write_group
from tests.report.hostile import HOSTILE, MARKDOWN, hostile_run
from tests.report.html.pages import HTML, parsed, text_of
from tests.report.html.test_page import KNOWN
from tests.runs.folders import FakeClock, write_run
from tfwatch.cli import main
from tfwatch.core.events import RunEnded, TrainingFailed
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.report.group_page import make_group_chart, make_group_figures
from tfwatch.runs.format import EVENTS
from tfwatch.runs.groups.group_file import GroupFile, folder_of_rank, write_group_file
from tfwatch.runs.groups.reading import open_group


def page_of(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["report", str(folder), "-o", "-", *words]) == 0
    return capsys.readouterr().out


def judged(folder: Path) -> JudgedGroup:
    return JudgedGroup(open_group(folder, FakeClock(2).clock))


def test_the_page_has_the_finding_a_row_a_rank_and_each_ranks_own_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(write_group(tmp_path / "late", [1, 1, 6, 1]), capsys)
    text = text_of(page)

    assert "STRAGGLER rank 2, 33 % The other ranks wait 5.0 of 15.0 ms/step for rank 2" in text
    assert "Without it a step takes about 10.0 of 15.0 ms: 33 % less" in text
    (late,) = [one for one in parsed(page).iter(f"{HTML}tr") if one.get("class") == "limit"]
    cells = [" ".join("".join(cell.itertext()).split()) for cell in late]
    assert cells == ["2", "60", "15.0 ms", "6.0 ms", "8.0 ms", "1.0 ms", "5.0 ms", "", "finished"]
    summaries = ["".join(one.itertext()) for one in parsed(page).iter(f"{HTML}summary")]
    assert summaries[2] == "rank 2: STARVING 40 %, finished"
    assert len(summaries) == 5
    assert "Steps that one rank held up" not in text


def test_a_large_group_has_the_figures_of_the_latest_ranks_and_of_those_that_no_longer_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_group(tmp_path / "one", [1.0, 1, 1, 1, 1, 1, 1, 1, 1, 6, 1, 1])
    (folder_of_rank(folder, 11) / EVENTS).write_text("")

    page = page_of(folder, capsys)

    summaries = ["".join(one.itertext()) for one in parsed(page).iter(f"{HTML}summary")]
    named = [int(text.split(":")[0].split()[1]) for text in summaries if text.startswith("rank ")]
    assert named == [0, 1, 2, 3, 4, 5, 9, 11]
    assert (
        "The 8 ranks of 12 that no longer train or come latest. Another one: tfwatch report one/rank-N"
        in text_of(page)
    )


def test_the_chart_stacks_the_parts_of_the_last_rank(tmp_path: Path) -> None:
    chart = make_group_chart(judged(write_group(tmp_path / "late", [1, 6], [1, 1])).steps)

    assert chart
    assert [(layer.part, layer.mean) for layer in chart.layers] == [
        ("wait", "6.0 ms"),
        ("host", "1.0 ms"),
        ("compute", "8.0 ms"),
    ]
    # All steps take 15 ms, of which the shared call is 8; the chart reaches 15 ms.
    assert [set(re.findall(r"V(\d+)H", layer.path)) for layer in chart.layers] == [
        {"0"},
        {"400"},
        {"467"},
    ]
    assert chart.hovers[0].text.startswith(
        "step 6: 15.0 ms/step: data wait 6.0 ms, host 1.0 ms, the call"
    )
    assert chart.per_column == "Each column is one step"


def test_single_long_steps_are_listed_and_left_out_of_the_groups_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    write_group_file(folder, GroupFile("one", "SLURM", 1.0, 10**9, 2))
    ranks = meeting_rows([1, 1], [1, 1])
    ranks[1]["wait_ms"][29] += 500
    ranks[0]["compute_ms"][29] += 500
    for rank, own in enumerate(ranks):
        write_run(folder_of_rank(folder, rank), own, FINISHED, group="one", rank=rank)

    page = page_of(folder, capsys)

    rows = [[cell.text for cell in row.iter(f"{HTML}td")] for row in parsed(page).iter(f"{HTML}tr")]
    assert ["30", "1", "data wait", "0.5 s"] in rows
    assert make_group_figures(judged(folder))[0].value == "10.0 ms"


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_group(tmp_path / "one", [1, 1], size=3, not_split="by Keras")
    failed = (TrainingFailed(1, 30, "ValueError: no", ""), RunEnded(10**9, "failed", 30, "no"))
    write_run(
        folder_of_rank(folder, 1), meeting_rows([1], [1])[0][:30], *failed, group="one", rank=1
    )

    text = text_of(page_of(folder, capsys))

    assert "STRAGGLER n/a The steps of rank 0 are not split: by Keras" in text
    assert "Rank 2 has no run" in text
    assert "Rank 1: failed at step 30, 30 steps behind: ValueError: no" in text
    assert "failed at step 30: ValueError: no" in text
    assert "group stepn/a" in text
    assert "The group's steps" not in text


def hostile_group(folder: Path) -> Path:
    """A group whose every text is hostile, with the run of the page's tests as rank 0."""
    write_group(
        folder, [1, 1, 9], workload=HOSTILE, device=HOSTILE, machine={"host": HOSTILE}, not_split=""
    )
    write_group_file(folder, GroupFile(HOSTILE[:500], HOSTILE[:500], 1.0, 10**9, 4))
    hostile_run(folder_of_rank(folder, 0))
    add_memory(folder_of_rank(folder, 1), 2**30)
    return folder


@pytest.mark.parametrize("words", [[], ["--redact"]], ids=["plain", "redacted"])
def test_hostile_text_stays_text(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(hostile_group(tmp_path / "one"), capsys, *words)

    elements = list(parsed(page).iter())
    assert {str(one.tag).rpartition("}")[2] for one in elements} <= KNOWN
    assert not [
        name
        for one in elements
        for name in one.attrib
        if name.startswith("on") or name in ("src", "href")
    ]
    assert not re.search(r"url\(|@import|\x1b|\x00|\u202e", page)
    assert page.encode().decode() == page
    assert len(page) < 400_000


@pytest.mark.parametrize(
    "words", [["--redact"], ["--redact", "--markdown"]], ids=["page", "markdown"]
)
def test_a_redacted_report_has_no_names(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {
        "workload": "secret.py",
        "machine": {"host": "node7"},
        "settings": {"data": "/data/ada"},
    }
    folder = write_group(tmp_path / "night_ada", [1, 1, 6], **names)
    write_group_file(folder, GroupFile("night_ada", "TFWATCH_GROUP", 1.0, 10**9, 3))
    plain = page_of(folder, capsys)

    report = page_of(folder, capsys, *words)

    assert all(secret in plain for secret in ("night_ada", "secret.py", "node7", "/data/ada"))
    assert not [
        one for one in ("night_ada", "secret", "node7", "/data", str(tmp_path)) if one in report
    ]
    assert "STRAGGLER rank 2" in report


def test_the_markdown_has_the_finding_and_a_row_a_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_group(tmp_path / "late", [1, 1, 6], device=MARKDOWN, workload="cnn")

    assert main(["report", str(folder), "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "### cnn, 3 ranks"
    assert lines[2].startswith("**STRAGGLER rank 2, 33 %**: the other ranks wait 5.0 of 15.0 ms")
    assert "| 2 | 60 | 15.0 ms | 6.0 ms | 8.0 ms | 1.0 ms | 5.0 ms | n/a | finished |" in lines


def test_hostile_text_is_no_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = hostile_group(tmp_path / "one")
    capsys.readouterr()

    assert main(["report", str(folder), "--markdown"]) == 0
    text = capsys.readouterr().out

    assert {line[:1] for line in text.split("\n")} <= {"#", "*", "G", "|", ""}
    assert not re.search(r"(?<!\\)[<>]|@\w|://", text)


def test_the_page_is_named_after_its_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_group(tmp_path / "late", [1, 6])
    monkeypatch.chdir(tmp_path)

    assert main(["report", "late", "--runs-dir", str(tmp_path)]) == 0

    assert capsys.readouterr().out == "tfwatch-late.html\n"
    assert Path("tfwatch-late.html").read_text(encoding="utf-8").endswith("</html>\n")


def test_a_long_group_has_a_chart_of_as_many_columns(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    write_group_file(folder, GroupFile("one", "SLURM", 1.0, 10**9, 2))
    for rank, own in enumerate(meeting_rows([1, 3], [1, 1], count=2000)):
        write_run(folder_of_rank(folder, rank), own, FINISHED, group="one", rank=rank)

    chart = make_group_chart(judged(folder).steps)

    assert chart
    assert len(chart.hovers) == 480
    assert chart.per_column == "Each column is the mean of 5 steps at most"
    widths = np.array([hover.width for hover in chart.hovers])
    assert widths.sum() == pytest.approx(1000, abs=30)
