"""A run as one HTML page that needs no network and no script: its findings, chart and tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import numpy as np
from markupsafe import Markup

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.report.facts import known
from tfwatch.report.redaction import shown
from tfwatch.report.run_facts import FIGURES
from tfwatch.report.sections import make_sections
from tfwatch.report.text import failure, loss_text, outcome_text, time_parts
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.redaction import Redaction
    from tfwatch.runs.snapshot import Snapshot

_TEMPLATES = Path(__file__).parent / "templates"
#: A line of code may be longer than a name.
_LONGEST_CODE = 2000
#: The most columns of the chart.
_COLUMNS = 240
#: Its top, in 90th percentiles of the columns: a stall would flatten all the others.
_TOP = 1.6


def as_html(judged: JudgedRun, redaction: Redaction | None = None) -> str:
    """Return the page of a run. redaction: replaces paths, names and the host."""
    run = judged.run
    page = {
        "style": Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),
        "is_redacted": redaction is not None,
        "title": outcome_text(judged),
        "name": run.manifest.run,
        "failure": failure(run),
        "date": local_time(run.manifest.origin_wall_ns).strftime("%d %b %Y, %H:%M"),
        "findings": [(one, loss_text(one)) for one in judged.findings],
        "figures": known(FIGURES, judged),
        "chart": make_chart(run),
        "parts": time_parts(judged.time_breakdown.total),
        "sections": make_sections(judged, is_redacted=redaction is not None),
    }
    return _environment(redaction).get_template("page.html.j2").render(page)


def _environment(redaction: Redaction | None) -> jinja2.Environment:
    """Return an environment in which every text of a run is made harmless before it is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalizer(redaction),
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
    )
    made.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
    made.filters["code"] = lambda text: Markup.escape(shown(text, redaction, _LONGEST_CODE))
    made.filters |= {"percent": units.percent, "seconds": units.seconds}
    return made


def _finalizer(redaction: Redaction | None) -> Callable[[object], object]:
    def finalize(value: object) -> object:
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return shown(str(value), redaction) if is_text else value

    return finalize


# -- the chart -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepChart:
    """The mean step time of each column of time. columns: percent of the height of each part, from
    the bottom up; empty where there are no steps."""

    columns: list[dict[str, float]]
    #: In words: the time of a column, the height of the chart, the length of the run.
    column: str
    top: str
    length: str


def make_chart(run: Snapshot) -> StepChart | None:
    """Return the step time over a run; None where it has no step."""
    length_s = max(run.length_s, run.time_sums.end_s)
    width_s = BUCKET_S * max(1, math.ceil(length_s / _COLUMNS / BUCKET_S))
    columns = run.time_sums.columns(length_s, width_s, int(length_s / width_s) + 1)
    copy_ms = np.nan_to_num(columns.copy_ms)
    parts = np.array([columns.compute_ms - copy_ms, copy_ms, columns.host_ms, columns.wait_ms])
    known = parts.sum(axis=0)[np.isfinite(parts).all(axis=0)]
    if not len(known):
        return None
    top_ms = max(min(known.max(), _TOP * np.percentile(known, 90)), 1e-3)
    heights = np.round(100 * parts / top_ms, 1).T.tolist()
    names = ("compute", "copy", "host", "wait")
    return StepChart(
        [_drawn(dict(zip(names, column, strict=True))) for column in heights],
        units.seconds(width_s),
        units.milliseconds(float(top_ms)),
        units.seconds(length_s),
    )


def _drawn(column: dict[str, float]) -> dict[str, float]:
    """Return the parts of a column that have a height."""
    return {part: height for part, height in column.items() if height > 0}
