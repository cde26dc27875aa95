"""The page's tables in plain values: key figures, time breakdown, pipeline, stalls, machine and
settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import SensorMissing
from tfwatch.core.knobs import knob_name
from tfwatch.judge.findings.machine import PIPELINE
from tfwatch.judge.steps.patterns import Pattern, pattern_text
from tfwatch.judge.steps.stalls import (
    Stall,
    StallGroup,
    period_text,
    split_periodic,
    stall_place_text,
)
from tfwatch.judge.steps.time_breakdown import PART_NAMES, PARTS
from tfwatch.report.html.plot import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.judge.findings.bottleneck import Stage
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.judge.steps.spikes import Spike
    from tfwatch.judge.steps.time_breakdown import TimeSpent
    from tfwatch.judge.steps.verdict import Breakdown, Stat
    from tfwatch.runs.format import Manifest

#: The most rows of stalls, of causes of slow steps, and of epochs.
MOST_STALLS, _MOST_CAUSES, MOST_EPOCHS = 10, 8, 500
_LEAST_S = 0.05


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure. note: below it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the run's time. share: percent of the run."""

    name: str
    kind: str
    seconds: str
    share: float
    percent: str


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage of the pipeline. width: percent of the longest bar. is_limit: it limits the
    pipeline."""

    name: str
    batch: str
    width: float
    parallel: str
    buffer: str
    is_limit: bool


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The input pipeline. work: compute and host of a step, on the axis of the bars. sentence: the
    bottleneck."""

    stages: list[StageRow]
    total: str
    work: str
    work_at: float
    sentence: str
    missing: str


@dataclass(frozen=True, slots=True)
class Slow:
    """A stall, a pattern, or all slow steps of one cause."""

    when: str
    what: str
    lost: str


def make_figures(judged: JudgedRun) -> list[Figure]:
    """Return the key figures, those of the last setting first."""
    split, run = judged.setting.judgement.breakdown, judged.run
    last = "" if judged.setting.whole else "last setting: "
    figures = (
        _step_figures(split, run.manifest, last)
        if split
        else [Figure("step time", units.MISSING, "no steady step")]
    )
    lost = judged.lost
    share = f"{units.percent(lost.share)} of the run" if run.length_s else ""
    figures.append(Figure("waited for data", units.seconds(lost.data_wait_s), share))
    return [*figures, *_machine_figures(judged)]


def _step_figures(split: Breakdown, manifest: Manifest, last: str) -> list[Figure]:
    wait = " of ".join(units.in_one_unit(split.wait.mean, split.step.mean))
    spread = (
        f"{last}mean; median {units.milliseconds(split.step.median)}, p95"
        f" {units.milliseconds(split.step.p95)}"
    )
    figures = [
        Figure("step time", units.milliseconds(split.step.mean), spread),
        Figure("starving", units.percent(split.wait_share), f"{last}{wait} is data wait"),
    ]
    if manifest.batch_size and split.step.mean > 0:
        rate = manifest.batch_size / split.step.mean * 1e3
        figures.append(
            Figure(
                "throughput", f"{units.count(round(rate))} /s", "examples a second, in steady steps"
            )
        )
    return figures


def _machine_figures(judged: JudgedRun) -> list[Figure]:
    machine, accelerated = judged.hardware, judged.run.manifest.accelerated
    figures = []
    busy, cores = machine.medians["gpu_busy"], machine.medians["cpu_cores"]
    if accelerated:
        why = next((one.reason for one in machine.missing if one.sensor == "GPU"), "median")
        figures.append(
            Figure("GPU busy", units.percent(busy), "median" if busy is not None else why)
        )
    elif cores is not None:
        total = judged.run.manifest.machine.get("cores")
        figures.append(
            Figure("CPU", f"{cores:.1f} cores", f"median, of {total}" if total else "median")
        )
    if machine.process_memory:
        peak = units.memory(machine.process_memory.peak_bytes)
        figures.append(Figure("memory", peak, "peak of the process"))
    if machine.energy:
        wasted = f"{units.joules(machine.energy.starving_j)} of it while starving"
        figures.append(Figure("energy", units.joules(machine.energy.joules), wasted))
    return figures


def make_parts(total: TimeSpent) -> list[Part]:
    """Return where each second of the run went; parts that would read 0.0 s are left out."""
    wall_s = total.wall_s
    return [
        Part(
            name,
            field.removesuffix("_s"),
            units.seconds(spent_s),
            round(spent_s / wall_s * 100, 3),
            units.percent(spent_s / wall_s),
        )
        for field, name in PART_NAMES.items()
        if (spent_s := getattr(total, field)) >= _LEAST_S and wall_s > 0
    ]


def make_pipeline(judged: JudgedRun) -> Pipeline:
    """Return the stages as they were read last."""
    table, split = judged.pipeline, judged.setting.judgement.breakdown
    reasons = [event.reason for event in judged.run.events if isinstance(event, SensorMissing)]
    sensors = [event.sensor for event in judged.run.events if isinstance(event, SensorMissing)]
    missing = next(
        (why for why, sensor in zip(reasons, sensors, strict=True) if sensor == PIPELINE), ""
    )
    if table is None:
        return Pipeline([], "", "", 0.0, "", missing or "no stage of it was read")
    work_ms = split.work_mean_ms if split else math.nan
    known = [
        stage.batch_ms
        for stage in table.stages
        if not math.isnan(stage.batch_ms) and not stage.is_buffer
    ]
    longest = max([*known, *([work_ms] if not math.isnan(work_ms) else [])], default=0.0) or 1.0
    limit = table.bottleneck.stage if table.bottleneck else None
    return Pipeline(
        stages=[_stage(stage, longest, n == limit) for n, stage in enumerate(table.stages)],
        total=units.milliseconds(table.all_ms),
        work="" if math.isnan(work_ms) else units.milliseconds(work_ms),
        work_at=0.0 if math.isnan(work_ms) else round(work_ms / longest * 100, 2),
        sentence=table.bottleneck.sentence if table.bottleneck else "",
        missing=missing if math.isnan(table.all_ms) else "",
    )


def _stage(stage: Stage, longest: float, is_limit: bool) -> StageRow:
    is_timed = not math.isnan(stage.batch_ms) and not stage.is_buffer
    size = "" if math.isnan(stage.buffer_size) else f" of {stage.buffer_size:.0f}"
    return StageRow(
        name=stage.name,
        batch=units.milliseconds(stage.batch_ms) if is_timed else "",
        width=round(stage.batch_ms / longest * 100, 2) if is_timed else 0.0,
        parallel="" if math.isnan(stage.parallelism) else f"{stage.parallelism:.0f}",
        buffer="" if math.isnan(stage.buffered) else f"{stage.buffered:.0f}{size}",
        is_limit=is_limit,
    )


def make_stalls(judged: JudgedRun) -> list[Slow]:
    """Return the patterns and the worst stalls, the costliest first; stalls that recur are one
    row."""
    groups, single = split_periodic(judged.summary.stalls)
    slow: list[Stall | StallGroup | Pattern] = [*groups, *single, *judged.summary.patterns]
    slow.sort(key=attrgetter("lost_ms"), reverse=True)
    return [_slow(one, judged) for one in slow[:MOST_STALLS]]


def _slow(one: Stall | StallGroup | Pattern, judged: JudgedRun) -> Slow:
    if isinstance(one, StallGroup):
        first, times = one.stalls[0], period_text(one.period, judged.run.manifest.steps_per_epoch)
        what = f"no data, {len(one.stalls)} times, {times}: {first.cause}"
    elif isinstance(one, Stall):
        first, over = one, f" over {units.counted(one.steps, 'step')}" if one.steps > 1 else ""
        what = f"no data{over}: {one.cause}{stall_place_text(one, judged.run.events)}"
    else:
        return Slow(
            _when(one),
            f"{pattern_text(one)}, {units.counted(one.steps, 'step')}",
            _lost(one.lost_ms),
        )
    return Slow(_when(first), what, _lost(one.lost_ms))


def _when(one: Stall | Pattern) -> str:
    return f"{time_text(one.start_ns / 1e9)}, step {units.count(one.step)}"


def _lost(lost_ms: float) -> str:
    return units.seconds(lost_ms / 1e3)


def make_causes(spikes: Iterable[Spike]) -> list[Slow]:
    """Return the single slow steps by cause, the costliest cause first."""
    seconds: dict[str, list[float]] = {}
    for spike in spikes:
        name = (
            spike.detail
            if spike.cause in ("callback", "checkpoint") and spike.detail
            else spike.cause
        )
        seconds.setdefault(name, []).append(spike.extra_ms)
    ranked = sorted(seconds.items(), key=lambda one: -sum(one[1]))[:_MOST_CAUSES]
    return [
        Slow(units.counted(len(extra), "step"), name, _lost(sum(extra))) for name, extra in ranked
    ]


def make_machine(judged: JudgedRun) -> list[tuple[str, str]]:
    """Return the machine: its device, its parts, its median figures, and why a figure is
    missing."""
    manifest, machine = judged.run.manifest, judged.hardware
    facts = {
        "device": manifest.device,
        "GPU": machine.found.name if machine.found else "",
        "host": str(manifest.machine.get("host") or ""),
        "system": str(manifest.machine.get("system") or ""),
        "cores": str(manifest.machine.get("cores_allowed") or manifest.machine.get("cores") or ""),
        "memory": units.gigabytes(manifest.machine.get("memory_bytes")),
        "memory of the process": machine.process_memory.text if machine.process_memory else "",
        "GPU power": (
            units.watts(machine.medians["gpu_power_w"]) if machine.medians["gpu_power_w"] else ""
        ),
        "energy": "" if machine.energy else f"{units.MISSING}: {machine.energy_missing}",
        "slowed down by heat": units.seconds(machine.heat_s) if machine.heat_s else "",
        "slowed down by swapping": units.seconds(machine.swap_s) if machine.swap_s else "",
    }
    missing = [
        (one.sensor, f"{units.MISSING}: {one.reason}")
        for one in machine.missing
        if one.sensor != PIPELINE
    ]
    return [*((name, value) for name, value in facts.items() if value), *missing]


def make_settings(judged: JudgedRun) -> list[tuple[str, str]]:
    """Return the settings of the start, and those of the knobs that were switched since."""
    manifest, now = judged.run.manifest, judged.situation.setting.knobs
    knobs = [
        (
            knob_name(knob),
            value if now.get(knob, value) == value else f"{value} → {now[knob]}",
        )
        for knob, value in manifest.knobs.items()
    ]
    given = [
        (str(name).replace("_", " "), str(value))
        for name, value in manifest.settings.items()
        if value not in (None, "", False)
    ]
    return [*knobs, *given]


def parts_table(split: Breakdown | None) -> list[tuple[str, str, str, str]]:
    """Return the parts of a step: name, median, mean and 95th percentile."""
    if split is None:
        return []
    stats: dict[str, Stat | None] = {
        "step": split.step,
        "data wait": split.wait,
        "copy": split.copy,
        "compute": split.compute,
        "of it, launching": split.dispatch,
        "host": split.host,
    }
    ms = units.milliseconds
    return [
        (name, ms(stat.median), ms(stat.mean), ms(stat.p95)) for name, stat in stats.items() if stat
    ]


def epochs_table(epochs: Iterable[TimeSpent]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the time breakdown by epoch: parts that no epoch has are left
    out."""
    rows = list(epochs)[:MOST_EPOCHS]
    parts = [part for part in PARTS if any(getattr(row, part) > 0 for row in rows)]
    head = ["epoch", "steps", "wall", *(PART_NAMES[part] for part in parts)]
    return head, [
        [
            str((row.epoch or 0) + 1),
            units.count(row.steps),
            units.seconds(row.wall_s),
            *(units.seconds(getattr(row, part)) for part in parts),
        ]
        for row in rows
    ]
