"""A run as one HTML page that needs no network and no script: the time that is lost and what gives
it back, the whole run with its stalls and switches, then figures and tables."""

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
from tfwatch.core.events import EpochStarted, ExperimentEnded
from tfwatch.judge.effects.wording import kept_text, setting_text, subject_text
from tfwatch.judge.effects.wording import outcome_text as switch_text
from tfwatch.judge.event_rows import changes_of_run
from tfwatch.judge.findings.finding import SINCE, Tone
from tfwatch.judge.findings.switch_lines import lines_of, proved_knobs
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.report.facts import known
from tfwatch.report.run_facts import FIGURES
from tfwatch.report.sections import MOST_CHANGES, costliest_stalls, make_sections
from tfwatch.report.text import (
    LONGEST_CODE,
    failure,
    loss_text,
    outcome_text,
    shown,
    time_parts,
)
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.judged_run import JudgedRun

_TEMPLATES = Path(__file__).parent / "templates"
#: The most columns of the chart.
_COLUMNS = 240
#: Its top, in 90th percentiles of the columns: a stall would flatten all the others.
_TOP = 1.6
#: The most numbers of epochs below it: they fit a phone.
_MOST_EPOCHS = 12
_PARTS = {"compute": "compute", "copy": "copy to the GPU", "host": "host", "wait": "data wait"}


def as_html(judged: JudgedRun) -> str:
    """Return the page of a run."""
    run, findings = judged.run, judged.findings
    losses = [one for one in findings if one in judged.losses or one.tone is Tone.BAD]
    page = {
        "style": Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),
        "title": outcome_text(judged),
        "name": run.manifest.run,
        "failure": failure(run),
        "date": local_time(run.manifest.origin_wall_ns).strftime("%d %b %Y, %H:%M"),
        "lost": lost_text(judged),
        "proof": proof_of(judged),
        "findings": [(one, loss_text(one), _basis(one)) for one in losses],
        "notes": [one for one in findings if one not in losses],
        "figures": known(FIGURES, judged),
        "chart": make_chart(judged),
        "parts": time_parts(judged.time_breakdown.total),
        "sections": make_sections(judged),
    }
    return _environment().get_template("page.html.j2").render(page)


def lost_text(judged: JudgedRun) -> str:
    """Return `27.1 s of 33.8 s avoidable since the last switch`, of the time that is judged; empty
    where no loss has seconds."""
    lost_s = sum(one.lost_s for one in judged.losses)
    if not lost_s:
        return ""
    regime = judged.regime
    since = SINCE.get(regime.cause, "while it trained")
    share = units.percent(regime.share(lost_s))
    return f"{units.seconds(lost_s)} of {units.seconds(regime.judged_s)} avoidable {since}, {share}"


def _basis(finding: Finding) -> str:
    """Return what stands before an advice, by whether the run has proved it."""
    forecast = finding.forecast
    if isinstance(forecast, Forecast) and forecast.measured:
        return "Next, by a measurement of this run"
    return "To try, not measured in this run" if finding.code or forecast else "Next"


def proof_of(judged: JudgedRun) -> tuple[list[str], str] | None:
    """Return the settings that the run has proved faster, as they differ from its start: sentences
    with their measurements, and their lines; None without a difference."""
    start, kept = judged.run.manifest.knobs, proved_knobs(judged.situation)
    changed = {(knob, value) for knob, value in kept.items() if value != start.get(knob, value)}
    measured = {
        (one.knob, one.new): f"{one.change.words}: {switch_text(one)}"
        for one in judged.switches
        if one.answer == "faster"
    }
    tested = {
        (one.knob, one.kept): f"A/B test of {subject_text(one.knob, one.values)}: {kept_text(one)}"
        for one in judged.run.events.of(ExperimentEnded)
    }
    texts = {**measured, **tested}
    sentences = [texts.get(one, setting_text(*one)) for one in sorted(changed)]
    return (sentences, lines_of(judged.situation, kept)) if changed else None


def _environment() -> jinja2.Environment:
    """Return an environment in which every text of a run is made harmless before it is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
    )
    made.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
    made.filters["code"] = lambda text: Markup.escape(shown(text, LONGEST_CODE))
    made.filters |= {"percent": units.percent, "seconds": units.seconds}
    return made


def _harmless(value: object) -> object:
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return shown(str(value)) if is_text else value


# -- the chart -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of the run. at: percent of its length; kind: `stall`, `switch` or `epoch`."""

    at: float
    kind: str
    label: str
    text: str


def make_chart(judged: JudgedRun) -> dict[str, object] | None:
    """Return the mean step time of each column of time, for the template; None without a step.

    columns: percent of the height of each part, from the bottom up; empty where there are no steps.
    column, top, length: in words the time of a column, the height of the chart, the length of the
    run. parts: those that some column has. marks: stalls and switches.
    """
    run = judged.run
    length_s = max(run.length_s, run.time_sums.end_s)
    width_s = BUCKET_S * max(1, math.ceil(length_s / _COLUMNS / BUCKET_S))
    columns = run.time_sums.columns(length_s, width_s, int(length_s / width_s) + 1)
    copy_ms = np.nan_to_num(columns.copy_ms)
    parts = np.array([columns.compute_ms - copy_ms, copy_ms, columns.host_ms, columns.wait_ms])
    known = parts.sum(axis=0)[np.isfinite(parts).all(axis=0)]
    if not len(known):
        return None
    top_ms = float(max(min(known.max(), _TOP * np.percentile(known, 90)), 1e-3))
    heights = np.round(100 * parts / top_ms, 1).T.tolist()
    drawn = [
        {part: height for part, height in zip(_PARTS, column, strict=True) if height > 0}
        for column in heights
    ]
    return {
        "columns": drawn,
        "column": units.seconds(width_s),
        "top": units.milliseconds(top_ms) if top_ms < 1e3 else units.seconds(top_ms / 1e3),
        "length": units.seconds(length_s),
        "parts": [(one, name) for one, name in _PARTS.items() if any(one in it for it in drawn)],
        "marks": list(_moments(judged, length_s)),
        "epochs": list(_epochs(judged, length_s)),
    }


def _moments(judged: JudgedRun, length_s: float) -> Iterator[Mark]:
    """Yield the costliest stalls and the newest changes of settings: those of the tables."""
    for stall in costliest_stalls(judged):
        text = f"stall of {units.seconds(stall.lost_ms / 1e3)}"
        yield Mark(_place(stall.start_ns / 1e9, length_s), "stall", "S", text)
    for one in changes_of_run(judged.run, judged.switches)[-MOST_CHANGES:]:
        yield Mark(_place(one.at_s, length_s), "switch", one.mark, one.text)


def _epochs(judged: JudgedRun, length_s: float) -> Iterator[Mark]:
    """Yield the begin of epochs, of many each so many, with their numbers."""
    starts = judged.run.events.of(EpochStarted)
    every = math.ceil(len(starts) / _MOST_EPOCHS)
    for at in range(0, len(starts), max(every, 1)):
        number = str(starts[at].epoch + 1)
        yield Mark(_place(starts[at].at_ns / 1e9, length_s), "epoch", number, f"epoch {number}")


def _place(at_s: float, length_s: float) -> float:
    return round(min(max(100 * at_s / length_s, 0.0), 100.0), 2)
