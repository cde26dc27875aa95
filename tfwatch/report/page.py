"""A run as one HTML page that needs no network and no script: the time that is lost and what gives
it back, the whole run with its stalls and switches, then figures and tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import numpy as np
from markupsafe import Markup

from tfwatch.core import units
from tfwatch.core.clock import local_time
from tfwatch.core.events import EpochEnded, EpochStarted, ExperimentEnded
from tfwatch.core.knobs import knob_name
from tfwatch.judge.effects.wording import kept_text, setting_text, subject_text
from tfwatch.judge.effects.wording import outcome_text as switch_text
from tfwatch.judge.event_rows import changes_of_run
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.findings.switch_lines import lines_of, proved_knobs
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.machine import PIPELINE
from tfwatch.judge.profile.step_groups import step_rows
from tfwatch.judge.steps.time_breakdown import PART_NAMES, PARTS
from tfwatch.report.facts import as_rows, if_any, known, pick, text
from tfwatch.report.run_facts import FIGURES, MACHINE, STALL, STEP_ROW, missing_stages
from tfwatch.report.text import SINCE, failure, loss_text, outcome_text, shown, time_parts
from tfwatch.runs.sums import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.judge.stages import Stage
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.judge.steps.time_breakdown import TimeSpent

#: The most stalls, and the most epochs.
MOST_STALLS, MOST_EPOCHS = 10, 500
#: Metrics beside the time of an epoch.
_MOST_METRICS = 6
MOST_CHANGES = 12
#: The columns of a stall.
_STALL = (
    *pick(STALL, "step", "start_s", "steps", "lost_ms"),
    text("waited for", "its cause and its place", "reason"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """One table. note: a sentence above it; of a table without rows, why it has none."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def make_sections(judged: JudgedRun) -> list[Section]:
    """Return the tables that have rows or a note, in the order of a report."""
    made = (
        _effects(judged),
        _pipeline(judged),
        _step(judged),
        _stalls(judged),
        _epoch_table(judged),
        Section("Machine", ("", ""), list(_machine(judged))),
        Section("Settings", ("", ""), list(_settings(judged))),
        Section("Versions", ("", ""), list(judged.run.manifest.versions.items())),
    )
    return [one for one in made if one.rows or one.note]


def _effects(judged: JudgedRun) -> Section:
    changes = changes_of_run(judged.run, judged.switches)
    rows = [(one.time, one.text) for one in changes[-MOST_CHANGES:]]
    more = len(changes) - len(rows)
    note = f"{units.counted(more, 'earlier one')} left out" if more else ""
    return Section("Switches and A/B tests", ("at", "change and effect"), rows, note)


def _pipeline(judged: JudgedRun) -> Section:
    stages = judged.pipeline.stages if judged.pipeline else ()
    head = ("stage", "work per batch", "workers", "buffer")
    bottleneck = if_any("pipeline.bottleneck.sentence")(judged)
    note = f"Bottleneck: {bottleneck}" if bottleneck else "No stage is found to limit the pipeline"
    missing = f"{units.MISSING}: {missing_stages(judged) or 'no stage of it was read'}"
    return Section("Input pipeline", head, list(map(_stage, stages)), note if stages else missing)


def _stage(stage: Stage) -> tuple[str, ...]:
    """Return the cells of a stage; a figure that it does not have is empty."""
    held = (stage.busy_ms, stage.parallelism, stage.buffered, stage.buffer_size)
    work, workers, buffered, size = (None if math.isnan(one) else one for one in held)
    return (
        stage.name,
        "" if work is None else units.milliseconds(work),
        "" if workers is None else units.number(workers, 0),
        "" if buffered is None else units.number(buffered, 0) + (f" of {size:.0f}" if size else ""),
    )


def _step(judged: JudgedRun) -> Section:
    """Return the step by layer; without a profile it has no table."""
    profile = judged.situation.profile
    if profile is None:
        return Section("Step by layer", (), ())
    of_steps = f"{units.counted(profile.steps, 'step')} up to step {units.count(profile.step)}"
    note = f"The operations of {of_steps}; they took {units.milliseconds(profile.step_ms)} each"
    return Section("Step by layer", *as_rows(STEP_ROW, step_rows(profile)), note)


def _stalls(judged: JudgedRun) -> Section:
    more = len(judged.stalls) - MOST_STALLS
    note = f"{units.counted(more, 'shorter one')} left out" if more > 0 else ""
    return Section("Stalls", *as_rows(_STALL, costliest_stalls(judged)), note)


def costliest_stalls(judged: JudgedRun) -> list[Stall]:
    """Return the stalls that lost most, in the order of time."""
    costliest = sorted(judged.stalls, key=attrgetter("lost_ms"), reverse=True)[:MOST_STALLS]
    return sorted(costliest, key=attrgetter("start_ns"))


def _epoch_table(judged: JudgedRun) -> Section:
    every = list(judged.time_breakdown.epochs)
    shown = every[:MOST_EPOCHS]
    ended = {one.epoch: one.metrics for one in judged.run.events.of(EpochEnded)}
    parts = [part for part in PARTS if any(getattr(row, part) > 0 for row in shown)]
    metrics = list(dict.fromkeys(name for one in ended.values() for name in one))[:_MOST_METRICS]
    head = ["epoch", "steps", "wall", *(PART_NAMES[part] for part in parts), *metrics]
    rows = [
        [*_times(row, parts), *_metrics(ended.get(row.epoch or 0, {}), metrics)] for row in shown
    ]
    more = len(every) - len(shown)
    return Section("Epochs", head, rows, f"{more} more epochs are left out" if more else "")


def _times(row: TimeSpent, parts: list[str]) -> list[str]:
    spent = (units.seconds(getattr(row, part)) for part in parts)
    return [str((row.epoch or 0) + 1), units.count(row.steps), units.seconds(row.wall_s), *spent]


def _metrics(values: dict[str, float], names: list[str]) -> list[str]:
    return [f"{values[name]:.4g}" if name in values else "" for name in names]


def _machine(judged: JudgedRun) -> Iterator[tuple[str, str]]:
    about, machine = judged.run.manifest.machine, judged.machine
    facts = {
        "system": str(about.get("system") or ""),
        "cores": str(about.get("cores_allowed") or about.get("cores") or ""),
        "memory": units.memory(about.get("memory_bytes")),
    }
    yield from ((name, value) for name, value in facts.items() if value)
    yield from ((fact.name, words) for fact, words in known(MACHINE, machine))
    missing = (one for one in machine.missing if one.sensor != PIPELINE)
    yield from ((one.sensor, f"{units.MISSING}: {one.reason}") for one in missing)


def _settings(judged: JudgedRun) -> Iterator[tuple[str, str]]:
    manifest, now = judged.run.manifest, judged.situation.knobs
    for knob, value in manifest.knobs.items():
        is_kept = now.get(knob, value) == value
        yield knob_name(knob), value if is_kept else f"{value} → {now[knob]}"
    for name, setting in manifest.settings.items():
        if setting:
            yield name.replace("_", " "), str(setting)


# -- the page --------------------------------------------------------------------------------------

_TEMPLATES = Path(__file__).parent / "templates"
#: A line of code may be longer than a name.
_LONGEST_CODE = 2000
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
    """Return `27.1 of 33.8 s are lost since the last switch`, of the time that is judged; empty
    where no loss has seconds."""
    lost_s = sum(one.lost_s for one in judged.losses)
    if not lost_s:
        return ""
    regime = judged.regime
    since = SINCE.get(regime.cause, "while it trained")
    share = units.percent(regime.share(lost_s))
    return f"{units.seconds(lost_s)} of {units.seconds(regime.judged_s)} lost {since}, {share}"


def _basis(finding: Finding) -> str:
    forecast = finding.forecast
    if isinstance(forecast, Forecast) and forecast.measured:
        return "Next, by a measurement of this run"
    return "To try, not measured in this run" if finding.code or forecast else "Next"


@dataclass(frozen=True, slots=True)
class Proof:
    """The settings that the run has proved faster. sentences: each with its measurement; code:
    their lines."""

    sentences: list[str]
    code: str


def proof_of(judged: JudgedRun) -> Proof | None:
    """Return what the run has proved, as it differs from its start; None without a difference."""
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
    return Proof(sentences, lines_of(judged.situation, kept)) if changed else None


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
    made.filters["code"] = lambda text: Markup.escape(shown(text, _LONGEST_CODE))
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


@dataclass(frozen=True, slots=True)
class StepChart:
    """The mean step time of each column of time. columns: percent of the height of each part, from
    the bottom up; empty where there are no steps."""

    columns: list[dict[str, float]]
    #: In words: the time of a column, the height of the chart, the length of the run.
    column: str
    top: str
    length: str
    #: The parts that some column has.
    parts: list[tuple[str, str]]
    #: Stalls and switches; epochs, of many each so many.
    marks: list[Mark]
    epochs: list[Mark]


def make_chart(judged: JudgedRun) -> StepChart | None:
    """Return the step time over a run; None where it has no step."""
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
    drawn = [_drawn(dict(zip(_PARTS, column, strict=True))) for column in heights]
    return StepChart(
        drawn,
        units.seconds(width_s),
        units.milliseconds(top_ms) if top_ms < 1e3 else units.seconds(top_ms / 1e3),
        units.seconds(length_s),
        [(part, name) for part, name in _PARTS.items() if any(part in one for one in drawn)],
        list(_moments(judged, length_s)),
        list(_epochs(judged, length_s)),
    )


def _drawn(column: dict[str, float]) -> dict[str, float]:
    return {part: height for part, height in column.items() if height > 0}


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
