"""The figures beside a timeline: the means of its steps in a legend, and the GPU's use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import (
    GpuFound,
    GpusFound,
    PipelineSwitched,
    SensorMissing,
    without_experiments,
)
from tfwatch.judge import machine
from tfwatch.screens.basics.glyphs import COMPUTE_COLOUR, HOST_COLOUR, QUIET_COLOUR, WAIT_COLOUR
from tfwatch.screens.live.timeline.gpu_lane import rows_between
from tfwatch.screens.live.timeline.painting import NUMBER

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.judge.machine import GpuFigures
    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.basics.glyphs import Glyphs
    from tfwatch.screens.live.timeline.painting import Line
    from tfwatch.screens.live.timeline.step_bars import Bars, Bools, Floats


@dataclass(frozen=True, slots=True)
class StepMeans:
    """Means of steps, milliseconds; None where unknown. copy: None where compute has it."""

    wait: float | None = None
    host: float | None = None
    compute: float | None = None
    step: float | None = None
    p95: float | None = None
    copy: float | None = None


_UNKNOWN = StepMeans()


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures beside the rows; they change once a second."""

    #: The median step of the newest steady steps; None where unknown.
    median_ms: float | None = None
    #: Of the newest steady steps; a view of the past has those of its own steps.
    means: StepMeans = _UNKNOWN
    #: Over the last seconds.
    gpu: GpuFigures | None = None
    #: A sensor reads a GPU now.
    has_gpu: bool = False
    #: Of a strategy over several.
    gpus: tuple[GpuFigures, ...] = ()


def figures_of(snapshot: Snapshot, split: Breakdown | None) -> Figures:
    """Make the figures beside the rows. split: the breakdown of the newest steady steps."""
    switch = next(reversed(without_experiments(snapshot.events.of(PipelineSwitched))), None)
    seen = machine.recent(snapshot.samples, snapshot.now_s)
    status = machine.gpu_status(snapshot.events.of(GpuFound, SensorMissing))
    return Figures(
        median_ms=split.step.median if split else None,
        means=means_of(split),
        gpu=machine.gpu_figures(seen[seen["at_ns"] > switch.at_ns] if switch else seen),
        has_gpu=isinstance(status, GpuFound),
        gpus=_gpus_of(snapshot, machine.recent(snapshot.gpus, snapshot.now_s)),
    )


def means_of(split: Breakdown | None) -> StepMeans:
    """Return the means of a breakdown."""
    if split is None:
        return _UNKNOWN
    copy = split.copy.mean if split.copy else None
    parts = split.wait.mean, split.host.mean, split.compute.mean, split.step.mean, split.step.p95
    return StepMeans(*parts, copy)


def figures_in_view(figures: Figures, snapshot: Snapshot, bars: Bars) -> Figures:
    """Return the figures of the bars in view; columns are means, so they give no 95th percentile of
    steps."""
    counts = (bars.steps > 0) & np.isfinite(bars.total_ms) & ~bars.flagged
    parts = (bars.wait_ms, bars.host_ms, bars.compute_ms, bars.total_ms)
    means = [_mean(part, bars, counts) for part in parts] if counts.any() else []
    samples, gpus = (
        rows_between(rows, bars.starts_s[0], bars.end_s)
        for rows in (snapshot.samples, snapshot.gpus)
    )
    gpu = machine.gpu_figures(samples)
    of_gpus = _gpus_of(snapshot, gpus)
    return replace(figures, means=StepMeans(*means), gpu=gpu, gpus=of_gpus)


def _mean(part_ms: Floats, bars: Bars, counts: Bools) -> float:
    return float((part_ms * bars.steps)[counts].sum()) / int(bars.steps[counts].sum())


def _gpus_of(snapshot: Snapshot, seen: Rows) -> tuple[GpuFigures, ...]:
    return machine.gpu_lanes(seen, machine.find_gpus(snapshot.events.of(GpusFound)))


def legend_lines(
    means: StepMeans, glyphs: Glyphs, rows: int, is_wide: bool, when: str, is_stale: bool
) -> list[Line]:
    """Return the legend with the means of steps, in `rows` lines; where these are few, the step
    stays.

    The means of steady steps add up, and their ratio is the data wait in the banner. when: the
    moment of the steps. is_stale: the figures are not current.
    """
    parts = [
        (2, glyphs.wait, WAIT_COLOUR, "wait", means.wait),
        (3, glyphs.compute, COMPUTE_COLOUR, "copy", means.copy),
        (4, glyphs.host, HOST_COLOUR, "host", means.host),
        (1, glyphs.compute, COMPUTE_COLOUR, "compute", means.compute),
        (0, " ", "", "step", means.step),
        (5, " ", "", "p95", means.p95),
    ]
    absent = {"copy", "p95"} if means.step is not None else {"copy"}
    parts = [part for part in parts if part[-1] is not None or part[3] not in absent]
    kept = sorted(parts)[:rows]
    figures = QUIET_COLOUR if is_stale else NUMBER
    field = 9 if is_wide else 5
    lines: list[Line] = [
        (
            (" ", ""),
            (glyph, style),
            (f" {name if is_wide else name[:4]:<{field}}", QUIET_COLOUR),
            (_figure(value), figures),
        )
        for rank, glyph, style, name, value in parts
        if (rank, glyph, style, name, value) in kept
    ]
    if rows > len(lines):
        unit = "mean ms" if is_wide else "ms"
        lines.insert(0, ((f"   {when}, {unit}", QUIET_COLOUR),))
    if rows > len(lines) + 2:
        lines.insert(0, ())
    return [*lines, *[()] * (rows - len(lines))]


def _figure(value: float | None) -> str:
    if value is None:
        return f"{units.MISSING:>6}"
    return f"{value:6.1f}" if value < 10_000 else f"{value / 1e3:5.1f}s"
