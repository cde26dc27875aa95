"""A run as one HTML page that needs no network and no script: its findings, chart and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.judge.log_lines import find_meanings
from tfwatch.report.facts import known
from tfwatch.report.redaction import shown
from tfwatch.report.run_facts import FIGURES
from tfwatch.report.sections import make_sections
from tfwatch.report.text import failure, loss_text, outcome_text, time_parts
from tfwatch.report.timeline import make_timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.redaction import Redaction

_TEMPLATES = Path(__file__).parent / "templates"
#: A line of code may be longer than a name.
_LONGEST_CODE = 2000


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
        "timeline": make_timeline(judged),
        "parts": time_parts(judged.time_breakdown.total),
        "sections": make_sections(judged, is_redacted=redaction is not None),
        "messages": [one.meaning.text for one in find_meanings(run.log)],
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
