"""The page in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.report.browser import BROWSER, measured
from tests.report.pages import page_of
from tests.screens.canned import STAGES, usual
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(
    BROWSER is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)
def test_a_browser_draws_the_page_at_every_width(tmp_path: Path) -> None:
    run = usual(tmp_path / "run").staged(*STAGES)
    run.ended().writer.close()
    (tmp_path / "page.html").write_text(
        page_of(open_run(tmp_path / "run", run.clock)), encoding="utf-8"
    )

    found = measured(tmp_path)

    assert [page["overflow"] for page in found] == [0, 0, 0]
    assert [page["clipped"] for page in found] == [0, 0, 0]
    for page in found:
        assert page["paths"] == 3  # compute, host, data wait
        assert (page["empty"], page["scripts"]) == (0, 0)
        assert len(page["fills"]) == 3
        assert page["height"] > 1000
