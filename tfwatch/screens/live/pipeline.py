"""The input pipeline, one row per stage, in the order of the code: which stage limits it?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.cells import cell_len

from tfwatch.core import units
from tfwatch.core.events import SensorMissing
from tfwatch.core.knobs import PREFETCH
from tfwatch.judge.findings.situation import SourceKind
from tfwatch.judge.machine import PIPELINE, missing_sensors
from tfwatch.judge.steps.steady_steps import Verdict
from tfwatch.screens.pane import FramedPane
from tfwatch.screens.text import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    QUIET_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
    column,
    plain,
    row,
    wrap_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

    from tfwatch.judge.stages import Stage, StageTable
    from tfwatch.judge.view import RunView

#: Minimum cells: at 120 columns a buffer of a thousand elements fits beside its bar.
_NAME, _FIGURE, _BAR = 12, 6, 4
_WIDEST_BAR = 24
#: Below this many rows there are no column heads.
_LOW = 8
#: The stage reader examines waits from this length on.
_STALL_S = 3.0
#: Kinds of stages that can have a worker per core: the pane shows their workers of all cores.
_PARALLEL_KINDS = ("Map", "Parallel")
#: Several stages below both, a time and a share of the step, are one row.
_NOTHING_MS, _NOTHING_SHARE = 0.1, 0.01
_OF_KERAS = "the stages that Keras makes of arrays are no limit"
_NO_FIGURES = "waiting for tf.data's figures of the stages"


class PipelinePane(FramedPane):
    """The stages; where rows are few, the cheapest have none."""

    TITLE = "input pipeline"

    def news(self, view: RunView) -> object:
        """Return what was measured, which is new once a second."""
        now = view.situation
        return now.stages, now.split, view.snapshot.life, now.located, _stalled(view)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        view = self.view
        table = view.situation.stages if view else None
        if view is None or table is None:
            text = explain_unread(view) if view else ""
            return [row((line, QUIET_COLOUR)) for line in wrap_text(text, width)]
        heads = height >= _LOW
        limit = _limiting_stage(view, table)
        if view.situation.origin is SourceKind.ARRAYS and not (_starves(view) or limit):
            return [row((_OF_KERAS, QUIET_COLOUR)), *_total(view, table)]
        costly = _costly_stages(view, table, limit)
        few = len(table.stages) - len(costly)
        shown = _most_important(costly, limit, height - heads - 1 - bool(few))
        stages = self._stage_rows(view, shown, limit, width, heads) if shown else []
        folded = [row((f"  {few} stages of {_NOTHING_MS} ms at most", QUIET_COLOUR))] if few else []
        return [*stages, *folded, *_total(view, table)]

    def _stage_rows(
        self, view: RunView, stages: Sequence[Stage], limit: Stage | None, width: int, heads: bool
    ) -> list[Content]:
        cells = [(one, *_figures(view, one, is_limit=one is limit)) for one in stages]
        head = ("stage", "ms/batch", "parallel", "buffer")
        parallel = max([len(head[2]) * heads, *(len(cell[2]) for cell in cells)])
        buffer = max([0, *(len(cell[3]) for cell in cells)])
        fixed = 2 + 1 + _FIGURE + 1 + parallel + 1 + buffer + 1
        name = max(*(cell_len(plain(one.name)) for one in stages), _NAME)
        name = min(name, max(width - fixed - _BAR, _NAME))
        bar = max(_BAR, min(width - fixed - name, _WIDEST_BAR))
        most_ms = max(*(_cost_ms(one) for one in stages), 1e-9)
        rows = []
        if heads:
            words = f"  {head[0]:<{name}} {head[1]:<{_FIGURE + 1 + bar}} {head[2]:<{parallel}} "
            rows.append(row((words + head[3] * (buffer > 0), QUIET_COLOUR)))
        limit_style = f"{STALL_COLOUR} bold" if _stalled(view) else "bold"
        limit_colour = WAIT_COLOUR if _starves(view) else COMPUTE_COLOUR
        for stage, figure, workers, filled in cells:
            style = limit_style if stage is limit else ""
            cost = "█" * round(_cost_ms(stage) / most_ms * bar)
            if not cost and stage.busy_ms < most_ms:
                figure = ""  # next to nothing; n/a stays
            colour = limit_colour if stage is limit else HOST_COLOUR
            rows.append(
                row(
                    (f"{'→' if stage is limit else '':<2}", style),
                    (f"{column(stage.name, name, '…')} {figure:>{_FIGURE}} ", style),
                    (f"{cost:<{bar}}", colour),
                    (f" {workers:<{parallel}} {filled}", style or QUIET_COLOUR),
                )
            )
        return rows


def _figures(view: RunView, stage: Stage, *, is_limit: bool) -> tuple[str, str, str]:
    """Return `7.7`, `1 of 10` cores, `4 of 4` elements of a stage: the calls of the limit and of
    what runs in parallel, the elements of what only buffers; empty for others."""
    cores = view.snapshot.manifest.machine.get("cores")
    cost = "" if stage.is_buffer else units.number(stage.busy_ms)
    workers = buffer = ""
    if (is_limit or stage.parallelism > 1) and not (
        stage.is_buffer or math.isnan(stage.parallelism)
    ):
        of_cores = f" of {cores}" if cores and stage.kind.startswith(_PARALLEL_KINDS) else ""
        workers = f"{stage.parallelism:.0f}{of_cores}"
    if stage.is_buffer and not math.isnan(stage.buffered):
        size = "" if math.isnan(stage.buffer_size) else f" of {stage.buffer_size:.0f}"
        buffer = f"{stage.buffered:.0f}{size}"
    return cost, workers, buffer


def _cost_ms(stage: Stage) -> float:
    return 0.0 if math.isnan(stage.busy_ms) else stage.busy_ms


def _limiting_stage(view: RunView, table: StageTable) -> Stage | None:
    if _stalled(view):
        located = view.situation.located
        named = (one for one in table.stages if located and one.name == located.stage)
        return next(named, None)
    return table.limiting_stage


def _costly_stages(view: RunView, table: StageTable, limit: Stage | None) -> Sequence[Stage]:
    """Return the stages without those that take next to nothing, where these are several."""
    split = view.situation.split
    least_ms = min(_NOTHING_MS, _NOTHING_SHARE * split.step.mean) if split else 0.0
    costly = [
        one for one in table.stages if one is limit or one.is_buffer or not one.busy_ms < least_ms
    ]
    return costly if len(table.stages) - len(costly) > 1 else table.stages


def _most_important(stages: Sequence[Stage], limit: Stage | None, room: int) -> list[Stage]:
    """Return as many stages as fit: the limiting one, then buffers, then the most expensive."""

    def weight(stage: Stage) -> tuple[bool, bool, float]:
        return stage is limit, stage.is_buffer, _cost_ms(stage)

    kept = sorted(stages, key=weight, reverse=True)[: max(room, 1)]
    return [stage for stage in stages if any(stage is one for one in kept)]


def _total(view: RunView, table: StageTable) -> list[Content]:
    """Return the row that compares a batch in all stages with the step, none where that does not
    explain the step; the cause of a limit is on the banner.

    It begins with `23.0 ms a batch`: of the clock where stages run in parallel, else of the work of
    all calls for a batch.
    """
    if math.isnan(table.all_ms):
        stands = _stalled(view) or view.snapshot.life.is_stale or view.is_over
        none = "no batch passed in the last seconds" if stands else _NO_FIGURES
        return [row((_why_missing(view) or none, QUIET_COLOUR))]
    split, starves = view.situation.split, _starves(view)
    step_ms = split.step.mean if split else math.nan
    batch_ms = table.total(step_ms, split.wait.mean if split and starves else 0.0)
    if batch_ms is None:
        return []
    style = "$text-warning" if starves else QUIET_COLOUR
    batch = f"  {units.number(batch_ms)} ms a batch"
    return [row((batch, "bold"), (_compare(view, table), style))]


def _compare(view: RunView, table: StageTable) -> str:
    """Return `, overlapped with 13.8 compute + host`; where steps wait `; a step: 13.8 compute +
    host`."""
    now = view.situation
    part = now.split
    if part is None:
        return ""
    work = f"{units.number(part.work_mean_ms)} compute + host"
    if now.knobs.get(PREFETCH) == "off" and len(now.manifest.replicas) < 2:
        return f", then {work}: in turn"
    if table.rate_ms < part.work_mean_ms and not _starves(view):
        return f", overlapped with {work}"
    return f"; a step: {work}"


def _stalled(view: RunView) -> bool:
    return view.situation.is_waiting_long and view.situation.phase_s >= _STALL_S


def _starves(view: RunView) -> bool:
    split = view.situation.split
    verdict = split.verdict if split else None
    return verdict in (Verdict.MODERATELY, Verdict.HIGHLY) and not view.snapshot.life.is_stale


def explain_unread(view: RunView) -> str:
    """Return why there is no table of stages, with the stages of the code where they are known."""
    if why := _why_missing(view):
        newest = next(reversed([*view.snapshot.stages_found.values()]), None)
        return f"{why}. In the code: {', '.join(newest.names)}" if newest else why
    if view.snapshot.manifest.makes_batches:
        return "n/a: the script makes its batches itself, between two calls of train_on_batch"
    if view.is_over:
        return "n/a: tf.data's model of the pipeline was not read in this run"
    if view.snapshot.steps_total:
        return _NO_FIGURES
    return "the stages appear with the first batches"


def _why_missing(view: RunView) -> str:
    sensors = missing_sensors(view.snapshot.events.of(SensorMissing))
    missing = next((event for event in sensors if event.sensor == PIPELINE), None)
    return f"n/a: {missing.reason}{f'; {missing.fix}' if missing.fix else ''}" if missing else ""
