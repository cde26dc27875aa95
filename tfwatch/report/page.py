"""A run as one HTML page that needs no network and no script: its sections, in one template."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.core.events import EpochEnded
from tfwatch.core.knobs import knob_name
from tfwatch.judge.log_lines import find_meanings, summarise_log
from tfwatch.judge.machine import PIPELINE
from tfwatch.judge.steps.time_breakdown import PART_NAMES, PARTS
from tfwatch.report.effects import STAT, STEADY, make_effects, most_informative
from tfwatch.report.facts import as_rows, if_any, known
from tfwatch.report.redaction import shown
from tfwatch.report.run_facts import (
    FIGURES,
    MACHINE,
    STAGE,
    STALL,
    missing_stages,
)
from tfwatch.report.text import failure, loss_text, state_text, time_parts, trained_text
from tfwatch.report.timeline import make_timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.judge.steps.time_breakdown import TimeSpent
    from tfwatch.report.redaction import Redaction

_TEMPLATES = Path(__file__).parent / "templates"
#: A line of code may be longer than a name.
_LONGEST_CODE = 2000
#: The most stretches of slow steps, and the most epochs.
MOST_SLOW, MOST_EPOCHS = 10, 500
#: Metrics beside the time of an epoch.
_MOST_METRICS = 6


@dataclass(frozen=True, slots=True)
class FindingText:
    """A finding on the page."""

    tone: str
    word: str
    sentence: str
    advice: str
    code: list[str]


def as_html(judged: JudgedRun, redaction: Redaction | None = None) -> str:
    """Return the page of a run. redaction: replaces paths, names and the host."""
    run, effects = judged.run, make_effects(judged)
    page = {
        "style": page_style(),
        "is_redacted": redaction is not None,
        "title": run.manifest.workload,
        "name": run.manifest.run,
        "device": run.manifest.device,
        "state": state_text(run),
        "failure": failure(run),
        "date": local_time(run.manifest.origin_wall_ns).strftime("%d %b %Y, %H:%M"),
        "trained": trained_text(judged),
        "findings": make_findings(judged),
        "figures": known(FIGURES, judged),
        "timeline": make_timeline(judged),
        "parts": time_parts(judged.time_breakdown.total),
        "stages": as_rows(STAGE, judged.pipeline.stages if judged.pipeline else ()),
        "no_stages": missing_stages(judged) or "no stage of it was read",
        "bottleneck": if_any("pipeline.bottleneck.sentence")(judged) or "",
        "effects": most_informative(effects),
        "more_effects": max(len(effects) - len(most_informative(effects)), 0),
        "slow": slow_steps(judged),
        "machine": _machine(judged, redaction is not None),
        "versions": list(run.manifest.versions.items()),
        "settings": make_settings(judged),
        "messages": [one.text for one in summarise_log(find_meanings(run.log)) if not one.harmless],
        "splits": _splits(judged),
        "epochs": _epochs(judged),
        "epochs_left": max(len(judged.time_breakdown.epochs) - MOST_EPOCHS, 0),
    }
    return environment(redaction).get_template("page.html.j2").render(page)


def make_findings(judged: JudgedRun) -> list[FindingText]:
    """Return the findings in rank; without one, that too little is known."""
    return [
        FindingText(
            one.tone.value,
            one.word,
            loss_text(one),
            one.advice,
            [line for line in one.code.split("\n") if line],
        )
        for one in judged.findings
    ] or [FindingText("calm", "NOT ENOUGH DATA", "too few steps to judge", "", [])]


# -- tables ----------------------------------------------------------------------------------------


def _machine(judged: JudgedRun, is_redacted: bool) -> list[tuple[str, str]]:
    """Return the machine, its median figures, and why a figure is missing."""
    about, machine = judged.run.manifest.machine, judged.machine
    facts = {
        "host": "" if is_redacted else str(about.get("host") or ""),
        "system": str(about.get("system") or ""),
        "cores": str(about.get("cores_allowed") or about.get("cores") or ""),
        "memory": units.gigabytes(about.get("memory_bytes")),
    }
    figures = [(fact.name, words) for fact, words in known(MACHINE, machine)]
    missing = [(one.sensor, one.reason) for one in machine.missing if one.sensor != PIPELINE]
    absent = [(name, f"{units.MISSING}: {why}") for name, why in missing]
    return [*((name, value) for name, value in facts.items() if value), *figures, *absent]


def make_settings(judged: JudgedRun) -> list[tuple[str, str]]:
    """Return the settings of the start, and those of the knobs that were switched since."""
    manifest, now = judged.run.manifest, judged.situation.setting.knobs
    knobs = [
        (knob_name(knob), value if now.get(knob, value) == value else f"{value} → {now[knob]}")
        for knob, value in manifest.knobs.items()
    ]
    given = [
        (str(name).replace("_", " "), str(value))
        for name, value in manifest.settings.items()
        if value not in (None, "", False)
    ]
    return [*knobs, *given]


def slow_steps(judged: JudgedRun) -> tuple[list[str], list[list[str]]]:
    """Return the costliest stalls."""
    stretches = sorted(judged.summary.stalls, key=attrgetter("lost_ms"), reverse=True)
    return as_rows(STALL, stretches[:MOST_SLOW])


def _splits(judged: JudgedRun) -> list[tuple[str, tuple[list[str], list[list[str]]]]]:
    """Return the tables of the parts of a step: of the whole run, and of the last setting."""
    tables = [("whole run, steady steps", judged.summary.steady)]
    if not judged.setting.whole:
        tables.append(("last setting", judged.setting.judgement.breakdown))
    return [(name, _parts(split)) for name, split in tables if split]


def _parts(split: Breakdown) -> tuple[list[str], list[list[str]]]:
    """Return the parts of a step in milliseconds."""
    parts = [fact for fact in STEADY if fact.table and fact.of(split)]
    head, cells = as_rows(STAT, [fact.of(split) for fact in parts])
    return ["ms", *head], [[fact.name, *row] for fact, row in zip(parts, cells, strict=True)]


def _epochs(judged: JudgedRun) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the epochs: their time, by parts that some epoch has, and
    their metrics."""
    rows = list(judged.time_breakdown.epochs)[:MOST_EPOCHS]
    ended = {one.epoch: one.metrics for one in judged.run.events if isinstance(one, EpochEnded)}
    parts = [part for part in PARTS if any(getattr(row, part) > 0 for row in rows)]
    metrics = list(dict.fromkeys(name for one in ended.values() for name in one))[:_MOST_METRICS]
    head = ["epoch", "steps", "wall", *(PART_NAMES[part] for part in parts), *metrics]
    return head, [
        [*_epoch_cells(row, parts), *(_metric(ended, row, name) for name in metrics)]
        for row in rows
    ]


def _epoch_cells(row: TimeSpent, parts: list[str]) -> list[str]:
    spent = (units.seconds(getattr(row, part)) for part in parts)
    return [str((row.epoch or 0) + 1), units.count(row.steps), units.seconds(row.wall_s), *spent]


def _metric(ended: dict[int, dict[str, float]], row: TimeSpent, name: str) -> str:
    value = ended.get(row.epoch or 0, {}).get(name)
    return "" if value is None else f"{value:.4g}"


# -- the template ----------------------------------------------------------------------------------


def page_style() -> Markup:
    """Return the style sheet of the pages."""
    return Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8"))


def environment(redaction: Redaction | None = None) -> jinja2.Environment:
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
