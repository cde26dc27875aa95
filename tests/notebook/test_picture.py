"""The picture of a run: a bar with the parts of the mean step, the finding, and its code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tests.analysis.step_rows import make_steps
from tests.report.written_runs import FINISHED, open_written
from tfwatch.live.judged_run import JudgedRun
from tfwatch.notebook.picture import as_html

if TYPE_CHECKING:
    from pathlib import Path


def test_the_parts_of_the_bar_are_those_of_the_mean_step(tmp_path: Path) -> None:
    rows = make_steps(np.full(200, 10.0), compute=8.0, host=2.0, dispatch=2.0)
    judged = JudgedRun(open_written(tmp_path, rows, FINISHED))

    html = as_html(judged, "the summary & <more>")

    assert re.findall(r'width="([\d.]+)" height="22"', html) == ["320.0", "256.0", "64.0"]
    assert re.findall(r"<text [^>]*>([^<]*)</text>", html) == [
        "data wait 10.0 ms (50 %)",
        "compute 8.0 ms (40 %)",
        "host 2.0 ms (10 %)",
    ]
    assert judged.finding
    assert f"<b>{judged.finding.word}</b>" in html
    assert "<pre>the summary &amp; &lt;more&gt;</pre>" in html
