"""The tables of a run's page: a title, a head and rows."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import EpochEnded
from tfwatch.core.knobs import knob_name
from tfwatch.judge.event_rows import changes_of_run
from tfwatch.judge.machine import PIPELINE
from tfwatch.judge.profile.step_groups import step_rows
from tfwatch.judge.profile.step_parts import why_no_profile
from tfwatch.judge.steps.time_breakdown import PART_NAMES, PARTS
from tfwatch.report.facts import as_rows, if_any, known, pick, text
from tfwatch.report.run_facts import MACHINE, STAGE, STALL, STEP_ROW, missing_stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.judge.judged_run import JudgedRun
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
#: The columns of a stage.
_STAGE = pick(STAGE, "name", "busy_ms", "parallelism", "buffered", "buffer_size")


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
        changes_section(judged),
        _pipeline(judged),
        step_section(judged),
        _stalls(judged),
        _epoch_table(judged),
        Section("Machine", ("", ""), list(_machine(judged))),
        Section("Settings", ("", ""), list(_settings(judged))),
        Section("Versions", ("", ""), list(judged.run.manifest.versions.items())),
    )
    return [one for one in made if one.rows or one.note]


def changes_section(judged: JudgedRun) -> Section:
    """Return the newest changes of settings, with their effects."""
    changes = changes_of_run(judged.run, judged.switches)
    rows = [(one.time, one.text) for one in changes[-MOST_CHANGES:]]
    more = len(changes) - len(rows)
    note = f"{units.counted(more, 'earlier one')} left out" if more else ""
    return Section("Switches and A/B tests", ("at", "change and effect"), rows, note)


def _pipeline(judged: JudgedRun) -> Section:
    stages = judged.pipeline.stages if judged.pipeline else ()
    bottleneck = if_any("pipeline.bottleneck.sentence")(judged)
    note = f"Bottleneck: {bottleneck}" if bottleneck else "No stage is found to limit the pipeline"
    missing = f"{units.MISSING}: {missing_stages(judged) or 'no stage of it was read'}"
    return Section("Input pipeline", *as_rows(_STAGE, stages), note if stages else missing)


def step_section(judged: JudgedRun) -> Section:
    """Return the step by layer, or why a profile is missing; without one it has no table."""
    profile = judged.situation.profile
    if profile is None:
        why = why_no_profile(judged.run.events)
        return Section("Step by layer", (), (), f"{units.MISSING}: {why}" if why else "")
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
    rows = []
    for row in shown:
        values = ended.get(row.epoch or 0, {})
        figures = [f"{values[name]:.4g}" if name in values else "" for name in metrics]
        rows.append([*_times(row, parts), *figures])
    more = len(every) - len(shown)
    return Section("Epochs", head, rows, f"{more} more epochs are left out" if more else "")


def _times(row: TimeSpent, parts: list[str]) -> list[str]:
    spent = (units.seconds(getattr(row, part)) for part in parts)
    return [str((row.epoch or 0) + 1), units.count(row.steps), units.seconds(row.wall_s), *spent]


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
