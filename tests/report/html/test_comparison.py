"""The page of a comparison."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.commands.evidence.recorded import noisy_rows, record
from tests.report.hostile import HOSTILE
from tests.report.html.browser import BROWSER, measured
from tests.report.html.pages import HTML, parsed, paths, text_of
from tfwatch.live.evidence.compared_runs import compare_runs
from tfwatch.live.evidence.run_to_compare import RunToCompare
from tfwatch.report.html.comparison import comparison_html
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from pathlib import Path


def page_of(folder: Path, *, name: str = "", **changes: object) -> str:
    """Return the page of three runs of 20 ms, and three of 24 ms with prefetch, in turn."""
    sides: list[list[RunToCompare]] = [[], []]
    for n in range(6):
        knobs = {"prefetch": "4" if n % 2 else "off"}
        rows = noisy_rows(n, 24 if n % 2 else 20)
        path = record(folder / f"{n}_cnn", rows, start_s=20 * n, knobs=knobs, **changes)
        sides[n % 2].append(RunToCompare(open_run(path), name or f"run {n}"))
    return comparison_html(sides, compare_runs(sides))


def cells_of(page: str) -> list[list[str]]:
    """Return the text of each cell of each row."""
    rows = parsed(page).iter(f"{HTML}tr")
    return [["".join(cell.itertext()).strip() for cell in row] for row in rows]


def test_the_page_has_the_answer_the_sides_the_lines_and_what_differs(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    text = text_of(page)

    assert "A run 0, run 2, run 4 (cnn, 3 runs) B run 1, run 3, run 5 (cnn, 3 runs)" in text
    assert re.search(
        r"B IS SLOWER THAN A B is slower than A: step time \+\d\d\.\d % \(95 % interval \+", text
    )
    rows = cells_of(page)
    assert ["prefetch", "off", "4"] in rows
    (step,) = (row for row in rows if row[0] == "step time")
    assert step[-1].endswith(" ms clear")
    assert ["copy", "n/a", "n/a", "n/a", "", "not timed in every run: a part of compute"] in rows
    assert "measured by these runs." in text
    (before,), (after,) = paths(page, "train"), paths(page, "held")
    assert before.count("L") == after.count("L") > 20


def test_the_bar_of_a_clear_difference_does_not_touch_the_middle(tmp_path: Path) -> None:
    rows = [
        one
        for one in parsed(page_of(tmp_path)).iter(f"{HTML}tr")
        if "slower" in (one.get("class") or "")
    ]
    bars = [one.get("style") for row in rows for one in row.iter(f"{HTML}i")]

    assert bars
    for style in bars:
        left = re.match(r"left:([\d.]+)%", style)
        assert left
        assert 50 < float(left[1]) < 100


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = {
        "workload": HOSTILE,
        "device": HOSTILE,
        "settings": {HOSTILE: HOSTILE},
        "versions": {HOSTILE: HOSTILE},
    }
    page = page_of(tmp_path, name=HOSTILE, **hostile)

    elements = list(parsed(page).iter())
    assert not {f"{HTML}script", f"{HTML}img"} & {one.tag for one in elements}
    assert not [
        name
        for one in elements
        for name in one.attrib
        if name.startswith("on") or name in ("src", "href")
    ]
    assert not re.search(r"url\(|@import|\x1b|\x00|\u202e", page)
    assert "default-src 'none'" in page
    assert len(page) < 100_000


@pytest.mark.skipif(
    BROWSER is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)
def test_a_browser_draws_the_page_at_every_width(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page_of(tmp_path / "runs"), encoding="utf-8")

    for page in measured(tmp_path):
        assert (page["overflow"], page["clipped"], page["empty"], page["scripts"]) == (0, 0, 0, 0)
        assert page["paths"] == 2
