"""The input pipeline, one row per stage, in the order of the code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import SensorMissing
from tfwatch.core.knobs import PREFETCH
from tfwatch.judge.machine import PIPELINE, missing_sensors
from tfwatch.judge.steps.steady_steps import Verdict
from tfwatch.runs.liveness import Life
from tfwatch.screens.basics.glyphs import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    MUTED_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
)
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import clock, column, plain, row, wrap_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

    from tfwatch.judge.stages import Stage, StageTable
    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.judge.view import RunView

_FAINT = "$foreground 65%"
#: The part of the data wait in no stage.
_FETCH = "fetch, threads"
#: Minimum cells: at 120 columns a buffer of a thousand elements fits beside its bar.
_NAME, _FIGURE, _BAR = 12, 6, 4
_WIDEST_BAR = 24
#: Below this many rows there are no column heads, and the sentence gets one row.
_LOW = 8


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage; a figure is None where the stage has none, or no batch has passed."""

    name: str
    #: Per batch, in this stage alone.
    cost_ms: float | None = None
    #: Its workers.
    parallel: str = ""
    #: Elements of `size`.
    buffered: int | None = None
    size: int | None = None
    #: It limits the pipeline.
    slowest: bool = False
    #: It delivers no element while the training waits.
    silent: bool = False

    @property
    def buffer(self) -> str:
        """The fill of the buffer, `4 of 4`; empty without a buffer."""
        if self.buffered is None:
            return ""
        return str(self.buffered) if self.size is None else f"{self.buffered} of {self.size}"


@dataclass(frozen=True, slots=True)
class PipelineView:
    """The content of the pane."""

    stages: tuple[StageFigures, ...] = ()
    #: A batch in all stages, and its fetch, one after another.
    all_ms: float | None = None
    #: Compares that with the step, longest text first.
    comparison: tuple[str, ...] = ()
    #: The bottleneck, the silent stage of a stall, or the reason why there is no reading.
    sentence: str = ""
    #: The device waits for this pipeline.
    starves: bool = False
    #: Of the reading.
    age: str = ""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The cells of each column; 0 for a column that is not shown."""

    name: int
    cost: int
    parallel: int
    buffer_bar: int
    most_ms: float


class PipelinePane(FramedPane, can_focus=True):
    """The stages; where rows are few, one row sums up the cheapest."""

    view: reactive[PipelineView] = reactive(PipelineView(), repaint=False)

    def on_mount(self) -> None:
        self.set_titles("input pipeline")

    _shown: tuple[object, ...] = ()

    def show(self, view: RunView) -> None:
        """Show the stages of a view, once a second: faster figures are unreadable."""
        now = view.situation
        key = (
            second_of(now.now_s, Slot.SEARCH),
            view.snapshot.life,
            now.setting.stages,
            now.located,
        )
        if key != self._shown:
            self._shown, self.view = key, pipeline_view(view)

    def watch_view(self) -> None:
        self.set_titles("input pipeline", self.view.age)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        view = self.view
        if not view.stages:
            return [row((line, _FAINT)) for line in wrap_text(view.sentence, width)]
        sentence = self._sentence_rows(width, height)
        heads = height >= _LOW
        stages = _folded(view.stages, height - heads - 1 - len(sentence))
        columns = _columns(stages, width)
        lines = [_heads(columns)] if heads else []
        rows = [self._row(stage, columns) for stage in stages]
        return [*lines, *rows, _sum(view, columns, width), *sentence]

    def _sentence_rows(self, width: int, height: int) -> list[Content]:
        view = self.view
        stalled = any(stage.silent for stage in view.stages)
        style = f"{STALL_COLOUR} bold" if stalled else "$text-warning" if view.starves else _FAINT
        lines = [view.sentence] if height < _LOW else wrap_text(view.sentence, width)
        return [row((line, style)) for line in lines if line]

    def _row(self, stage: StageFigures, columns: _Columns) -> Content:
        glyphs = self.glyphs
        colour = WAIT_COLOUR if self.view.starves else COMPUTE_COLOUR
        style = f"{STALL_COLOUR} bold" if stage.silent else "bold" if stage.slowest else ""
        end = "…" if glyphs.unicode else "."
        mark = glyphs.to if stage.slowest or stage.silent else ""
        cells = (
            round((stage.cost_ms or 0.0) / columns.most_ms * columns.cost) if columns.most_ms else 0
        )
        parts = [
            (f"{mark:<2}", style or "bold"),
            (f"{column(stage.name, columns.name, end)} ", style),
            (f"{_cost(stage):>{_FIGURE}} ", style),
            (f"{glyphs.bar * cells:<{columns.cost}}", colour if stage.slowest else HOST_COLOUR),
        ]
        if columns.parallel:
            parts.append((f" {stage.parallel:<{columns.parallel}}", style or _FAINT))
        if stage.buffer:
            parts += _buffer(stage, columns.buffer_bar, glyphs.bar, glyphs.bar_rest)
        return row(*parts)


def _folded(stages: tuple[StageFigures, ...], room: int) -> list[StageFigures]:
    """Return as many stages as fit; one row, in place of the first of them, sums up the
    cheapest."""
    room = max(room, 2)
    if len(stages) <= room:
        return list(stages)
    by_weight = sorted(range(len(stages)), key=lambda n: _weight(stages[n]), reverse=True)
    kept = set(by_weight[: room - 1])
    cheap = [n for n in range(len(stages)) if n not in kept]
    known = [cost for n in cheap if (cost := stages[n].cost_ms) is not None]
    others = StageFigures(f"{len(cheap)} others", sum(known) if known else None)
    return [others if n == cheap[0] else stages[n] for n in sorted({*kept, cheap[0]})]


def _weight(stage: StageFigures) -> tuple[bool, bool, float]:
    is_buffer = stage.cost_ms is None and stage.buffered is not None
    return stage.slowest or stage.silent, is_buffer, stage.cost_ms or 0.0


def _columns(stages: Sequence[StageFigures], width: int) -> _Columns:
    parallel = max((len(stage.parallel) for stage in stages), default=0)
    parallel = max(parallel, len("parallel")) if parallel else 0
    buffer = max((len(stage.buffer) for stage in stages), default=0)
    bars = 2 if buffer else 1
    fixed = 2 + 1 + _FIGURE + 1 + (parallel and parallel + 1) + (buffer and buffer + 2)
    name = max(
        min(max(cell_len(plain(stage.name)) for stage in stages), width - fixed - bars * _BAR),
        _NAME,
    )
    bar = max(_BAR, min((width - fixed - name) // bars, _WIDEST_BAR))
    most = max((stage.cost_ms or 0.0 for stage in stages), default=0.0)
    return _Columns(name, bar, parallel, bar if buffer else 0, most)


def _heads(columns: _Columns) -> Content:
    cost = _FIGURE + 1 + columns.cost
    words = f"  {'stage':<{columns.name}} {'ms/batch':>{len('ms/batch')}}".ljust(
        3 + columns.name + cost
    )
    words += f" {'parallel':<{columns.parallel}}" if columns.parallel else ""
    words += " buffer" if columns.buffer_bar else ""
    return row((words, _FAINT))


def _sum(view: PipelineView, columns: _Columns, width: int) -> Content:
    figure = units.number(view.all_ms)
    starts = f"  {'total':<{columns.name}} {figure:>{_FIGURE}} ", f"  total {figure} "
    pairs = ((start, text) for text in view.comparison for start in starts)
    fitting = (pair for pair in pairs if sum(map(len, pair)) <= width)
    start, comparison = next(fitting, (starts[0], ""))
    return row((start, "bold"), (comparison, "$text-warning" if view.starves else _FAINT))


def _cost(stage: StageFigures) -> str:
    return (
        units.number(stage.cost_ms) if stage.cost_ms is not None or stage.buffered is None else ""
    )


def _buffer(stage: StageFigures, cells: int, bar: str, rest: str) -> list[tuple[str, str]]:
    full = min((stage.buffered or 0) / stage.size, 1.0) if stage.size else 0.0
    # A single element always shows, and so does a single missing one.
    filled = min(max(round(full * cells), full > 0), cells - (0 < full < 1))
    return [
        (" " + bar * filled, COMPUTE_COLOUR),
        (rest * (cells - filled), MUTED_COLOUR),
        (f" {stage.buffer}", ""),
    ]


#: The stage reader examines waits from this length on.
_STALL_S = 3.0
#: Kinds of stages that can have a worker per core: the pane shows their workers of all cores.
_PARALLEL_KINDS = ("Map", "Parallel")


def pipeline_view(view: RunView) -> PipelineView:
    """Make the content of the pane from the newest reading, or from the reason why there is
    none."""
    table = view.situation.setting.stages
    if table is None:
        return PipelineView(sentence=_explain_unread(view))
    stages = tuple(_row(view, table, n, stage) for n, stage in enumerate(table.stages))
    part = view.situation.setting.judgement.breakdown
    fetch_ms = table.fetch_ms(part.wait.mean) if part else math.nan
    if not math.isnan(fetch_ms):
        stages = (*stages, StageFigures(_FETCH, _known(fetch_ms)))
    return PipelineView(
        stages,
        _known(table.all_ms + (0.0 if math.isnan(fetch_ms) else fetch_ms)),
        _compare(view, table, part),
        _describe(view, table),
        not view.snapshot.life.is_stale and (_stalled(view) or _starves(view)),
        _age(view, table),
    )


def _row(view: RunView, table: StageTable, n: int, stage: Stage) -> StageFigures:
    located = view.situation.located if _stalled(view) else None
    return StageFigures(
        stage.name,
        _known(stage.busy_ms),
        _parallel(view, stage),
        _whole(stage.buffered),
        _whole(stage.buffer_size),
        slowest=not _stalled(view) and table.bottleneck is not None and table.bottleneck.stage == n,
        silent=located is not None and located.stage == stage.name,
    )


def _parallel(view: RunView, stage: Stage) -> str:
    """Return `1 of 10` cores for a stage that can have workers, else `1`; empty for a stage without
    work."""
    if math.isnan(stage.parallelism) or stage.is_buffer:
        return ""
    cores = view.snapshot.manifest.machine.get("cores")
    of_cores = f" of {cores}" if cores and stage.kind.startswith(_PARALLEL_KINDS) else ""
    return f"{stage.parallelism:.0f}{of_cores}"


def _compare(view: RunView, table: StageTable, part: Breakdown | None) -> tuple[str, ...]:
    """Return `< 13.8 compute + host: fully overlapped with compute`, longest text first."""
    if part is None or math.isnan(table.all_ms):
        return ()
    now, work = view.situation, units.number(part.work_mean_ms)
    beside = f"{work} {'copy + ' if part.copy else ''}compute + host"
    if now.setting.knobs.get(PREFETCH) == "off" and len(now.manifest.replicas) < 2:
        alone = "no batch is prepared ahead"
        return f"+ {beside}: {alone}", f"+ {work}: {alone}", f"+ {beside}"
    is_quicker = table.rate_ms < part.work_mean_ms
    outcome = f"{units.number(part.wait.mean)} data wait"
    if is_quicker and not _starves(view):
        outcome = "fully overlapped with compute"
    wall = f"wall {units.number(table.rate_ms)} " if table.rate_ms < 0.9 * table.all_ms else ""
    compared = f"{wall}{'<' if is_quicker else '>'} "
    return f"{compared}{beside}: {outcome}", f"{compared}{work}: {outcome}", outcome


def _describe(view: RunView, table: StageTable) -> str:
    now = view.situation
    if not _stalled(view):
        if math.isnan(table.all_ms):
            return _why_missing(view) or "no batch passed in the last seconds"
        return table.bottleneck.sentence if table.bottleneck else ""
    located = now.located
    if located is None or not located.stage:
        since_s = now.now_s - now.phase_s
        place = f"; the {located.thread} is at {located.place}" if located and located.place else ""
        return f"no batch since {clock(view.snapshot, since_s)}{place}"
    place = f"; the generator is at {located.place}" if located.thread == "generator" else ""
    return (
        f"no element from {located.stage} since"
        f" {clock(view.snapshot, located.since_ns / 1e9)}{place}"
    )


def _stalled(view: RunView) -> bool:
    return view.situation.is_waiting_long and view.situation.phase_s >= _STALL_S


def _starves(view: RunView) -> bool:
    return view.situation.setting.judgement.verdict in (Verdict.MODERATELY, Verdict.HIGHLY)


def _age(view: RunView, table: StageTable) -> str:
    if view.snapshot.life not in (
        Life.RUNNING,
        Life.NOT_RESPONDING,
    ):  # the run no longer reads the stages
        return "newest reading"
    age_s = max(1, math.ceil(view.snapshot.now_s - table.at_ns / 1e9))
    return f"tf.data, {age_s} s ago"


def _explain_unread(view: RunView) -> str:
    if why := _why_missing(view):
        return f"{why}{_code_stages_text(view)}"
    if view.is_over:
        return "n/a: tf.data's model of the pipeline was not read in this run"
    if view.snapshot.steps_total:
        return "waiting for tf.data's figures of the stages"
    return "the stages appear with the first batches"


def _code_stages_text(view: RunView) -> str:
    """Return `. In the code: range, map(decode), batch(32)`, the stages of a pipeline without a
    model."""
    newest = next(reversed([*view.snapshot.stages_found.values()]), None)
    return f". In the code: {', '.join(newest.names)}" if newest else ""


def _why_missing(view: RunView) -> str:
    """Return `n/a: the batches come from no tf.data iterator`; empty where no reason is known."""
    sensors = missing_sensors(view.snapshot.events.of(SensorMissing))
    missing = next((event for event in sensors if event.sensor == PIPELINE), None)
    return f"n/a: {missing.reason}{f'; {missing.fix}' if missing.fix else ''}" if missing else ""


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else round(value)
