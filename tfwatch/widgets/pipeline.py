"""The input pipeline from inside: a row a stage, in the order of the code.

The input pipeline from inside: a row a stage, in the order of the code.

The input pipeline from inside, as its pane shows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from tfwatch.analysis.findings.machine import PIPELINE, missing_sensors
from tfwatch.analysis.steps.verdict import Verdict
from tfwatch.core import units
from tfwatch.core.events import SensorMissing
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life
from tfwatch.widgets.basics.glyphs import COMPUTE_COLOUR, HOST_COLOUR, MUTED_COLOUR, STALL_COLOUR, WAIT_COLOUR
from tfwatch.widgets.basics.pane import FramedPane
from tfwatch.widgets.basics.text import column, folded, plain, row
from tfwatch.widgets.timeline.picture import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

    from tfwatch.analysis.findings.bottleneck import Stage, StageTable
    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.live.view import RunView

_FAINT = "$foreground 65%"
#: Cells at least: the figures beside a bar are whole at 120 columns, a shuffle buffer of a thousand among them.
_NAME, _FIGURE, _BAR = 12, 6, 4
_WIDEST_BAR = 24
#: Below so many rows the column heads go, and a sentence gets one row.
_LOW = 8


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage. cost_ms: of a batch in it alone; at_a_time: in words; buffered: of `size` elements. None: it has none,
    or nothing passed.

    slowest: it bounds the pipeline. silent: it delivers nothing while the training waits.
    """

    name: str
    cost_ms: float | None = None
    at_a_time: str = ""
    buffered: int | None = None
    size: int | None = None
    slowest: bool = False
    silent: bool = False

    @property
    def buffer(self) -> str:
        """`4 of 4`; empty without a buffer."""
        if self.buffered is None:
            return ""
        return str(self.buffered) if self.size is None else f"{self.buffered} of {self.size}"


@dataclass(frozen=True, slots=True)
class PipelineView:
    """What the pane shows.

    all_ms: a batch in all stages, one after another; against: what that is held against, the longest words first.
    said: a sentence: what bounds the pipeline, where it stands in a stall, or why it cannot be read.
    starves: the device waits for this pipeline. age: of the reading, in words.
    """

    stages: tuple[StageRow, ...] = ()
    all_ms: float | None = None
    against: tuple[str, ...] = ()
    said: str = ""
    starves: bool = False
    age: str = ""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Cells of each column; 0: it is not there."""

    name: int
    cost: int
    at_a_time: int
    buffer_bar: int
    most_ms: float


class PipelinePane(FramedPane):
    """Its stages; where rows are few those that cost least are summed up in one."""

    view: reactive[PipelineView] = reactive(PipelineView(), repaint=False)

    def on_mount(self) -> None:
        self.entitle("input pipeline")

    def watch_view(self) -> None:
        self.entitle("input pipeline", self.view.age)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        view = self.view
        if not view.stages:
            return [row((line, _FAINT)) for line in folded(view.said, width)]
        said = self._said(width, height)
        heads = height >= _LOW
        stages = _folded(view.stages, height - heads - 1 - len(said))
        columns = _columns(stages, width)
        lines = [_heads(columns)] if heads else []
        return [*lines, *(self._row(stage, columns) for stage in stages), _sum(view, columns, width), *said]

    def _said(self, width: int, height: int) -> list[Content]:
        view = self.view
        stalled = any(stage.silent for stage in view.stages)
        style = f"{STALL_COLOUR} bold" if stalled else "$text-warning" if view.starves else _FAINT
        lines = [view.said] if height < _LOW else folded(view.said, width)
        return [row((line, style)) for line in lines if line]

    def _row(self, stage: StageRow, columns: _Columns) -> Content:
        glyphs = self.glyphs
        colour = WAIT_COLOUR if self.view.starves else COMPUTE_COLOUR
        style = f"{STALL_COLOUR} bold" if stage.silent else "bold" if stage.slowest else ""
        end = "…" if glyphs.unicode else "."
        mark = glyphs.to if stage.slowest or stage.silent else ""
        cells = round((stage.cost_ms or 0.0) / columns.most_ms * columns.cost) if columns.most_ms else 0
        parts = [
            (f"{mark:<2}", style or "bold"),
            (f"{column(stage.name, columns.name, end)} ", style),
            (f"{_cost(stage):>{_FIGURE}} ", style),
            (f"{glyphs.bar * cells:<{columns.cost}}", colour if stage.slowest else HOST_COLOUR),
        ]
        if columns.at_a_time:
            parts.append((f" {stage.at_a_time:<{columns.at_a_time}}", style or _FAINT))
        if stage.buffer:
            parts += _buffer(stage, columns.buffer_bar, glyphs.bar, glyphs.bar_rest)
        return row(*parts)


def _folded(stages: tuple[StageRow, ...], room: int) -> list[StageRow]:
    """As many stages as there is room for; the cheapest in one row, where the first of them stood."""
    room = max(room, 2)
    if len(stages) <= room:
        return list(stages)
    dear = sorted(range(len(stages)), key=lambda n: _weight(stages[n]), reverse=True)
    kept = set(dear[: room - 1])
    cheap = [n for n in range(len(stages)) if n not in kept]
    known = [cost for n in cheap if (cost := stages[n].cost_ms) is not None]
    others = StageRow(f"{len(cheap)} others", sum(known) if known else None)
    return [others if n == cheap[0] else stages[n] for n in sorted({*kept, cheap[0]})]


def _weight(stage: StageRow) -> tuple[bool, bool, float]:
    hands_over = stage.cost_ms is None and stage.buffered is not None
    return stage.slowest or stage.silent, hands_over, stage.cost_ms or 0.0


def _columns(stages: Sequence[StageRow], width: int) -> _Columns:
    at_a_time = max((len(stage.at_a_time) for stage in stages), default=0)
    at_a_time = max(at_a_time, len("at a time")) if at_a_time else 0
    buffer = max((len(stage.buffer) for stage in stages), default=0)
    bars = 2 if buffer else 1
    fixed = 2 + 1 + _FIGURE + 1 + (at_a_time and at_a_time + 1) + (buffer and buffer + 2)
    name = max(min(max(cell_len(plain(stage.name)) for stage in stages), width - fixed - bars * _BAR), _NAME)
    bar = max(_BAR, min((width - fixed - name) // bars, _WIDEST_BAR))
    most = max((stage.cost_ms or 0.0 for stage in stages), default=0.0)
    return _Columns(name, bar, at_a_time, bar if buffer else 0, most)


def _heads(columns: _Columns) -> Content:
    cost = _FIGURE + 1 + columns.cost
    words = f"  {'stage':<{columns.name}} {'ms/batch':>{len('ms/batch')}}".ljust(3 + columns.name + cost)
    words += f" {'at a time':<{columns.at_a_time}}" if columns.at_a_time else ""
    words += " buffer" if columns.buffer_bar else ""
    return row((words, _FAINT))


def _sum(view: PipelineView, columns: _Columns, width: int) -> Content:
    figure = units.number(view.all_ms)
    starts = f"  {'all':<{columns.name}} {figure:>{_FIGURE}} ", f"  all {figure} "
    fitting = [(start, text) for text in view.against for start in starts if len(start) + len(text) <= width]
    start, against = fitting[0] if fitting else (starts[0], "")
    return row((start, "bold"), (against, "$text-warning" if view.starves else _FAINT))


def _cost(stage: StageRow) -> str:
    return units.number(stage.cost_ms) if stage.cost_ms is not None or stage.buffered is None else ""


def _buffer(stage: StageRow, cells: int, bar: str, rest: str) -> list[tuple[str, str]]:
    full = min((stage.buffered or 0) / stage.size, 1.0) if stage.size else 0.0
    # One element is seen as one, and one that is missing too.
    filled = min(max(round(full * cells), full > 0), cells - (0 < full < 1))
    return [(" " + bar * filled, COMPUTE_COLOUR), (rest * (cells - filled), MUTED_COLOUR), (f" {stage.buffer}", "")]


_EARLY = (Phase.STARTING, Phase.IMPORT, Phase.DATA_SET, Phase.COMPILE)
#: A wait this long is looked into by what reads the stages; a shorter one says nothing of them.
_STALL_S = 3.0
#: Stages that could have workers, of all cores: what they have is told of so many.
_WIDENS = ("Map", "Parallel")


def pipeline_view(view: RunView) -> PipelineView:
    """The stages as they were read last; without a reading why there is none."""
    table = view.situation.stages
    if table is None:
        return PipelineView(said=_unread(view))
    stages = tuple(_row(view, table, n, stage) for n, stage in enumerate(table.stages))
    part = view.situation.judgement.breakdown
    return PipelineView(
        stages,
        _known(table.all_ms),
        _against(view, table, part),
        _said(view, table),
        not view.snapshot.life.is_stale and (_stalled(view) or _starves(view)),
        _age(view, table),
    )


def _row(view: RunView, table: StageTable, n: int, stage: Stage) -> StageRow:
    located = view.situation.located if _stalled(view) else None
    return StageRow(
        stage.name,
        _known(stage.busy_ms),
        _at_a_time(view, stage),
        _whole(stage.buffered),
        _whole(stage.buffer_size),
        slowest=not _stalled(view) and table.bottleneck is not None and table.bottleneck.stage == n,
        silent=located is not None and located.stage == stage.name,
    )


def _at_a_time(view: RunView, stage: Stage) -> str:
    """`1 of 10` cores where it could have workers, `1` where not; empty where it does no work."""
    if math.isnan(stage.parallelism) or stage.hands_over:
        return ""
    cores = view.snapshot.manifest.machine.get("cores")
    of_cores = f" of {cores}" if cores and stage.kind.startswith(_WIDENS) else ""
    return f"{stage.parallelism:.0f}{of_cores}"


def _against(view: RunView, table: StageTable, part: Breakdown | None) -> tuple[str, ...]:
    """`< 13.8 compute + host: all hidden`, the longest words first."""
    if part is None or math.isnan(table.all_ms):
        return ()
    work, waits = part.work_mean_ms, units.number(part.wait.mean)
    beside = f"{units.number(work)} compute + host"
    if view.situation.knobs.get("prefetch") == "off":
        return f"+ {beside}: none is made ahead", f"+ {beside}"
    sign = "<" if table.rate_ms < work else ">"
    outcome = "all hidden" if sign == "<" and not _starves(view) else f"{waits} waited for"
    at_once = f"at once {units.number(table.rate_ms)} "
    several = at_once if table.rate_ms < 0.9 * table.all_ms else ""
    return (
        f"{several}{sign} {beside}: {outcome}",
        f"{several}{sign} {units.number(work)}: {outcome}",
        outcome,
    )


def _said(view: RunView, table: StageTable) -> str:
    now = view.situation
    if not _stalled(view):
        if math.isnan(table.all_ms):
            return _why_missing(view) or "nothing has passed in the last seconds"
        return table.bottleneck.sentence if table.bottleneck else ""
    located = now.located
    if located is None or not located.stage:
        since_s = now.now_s - now.phase_s
        place = f"; the {located.thread} stands at {located.place}" if located and located.place else ""
        return f"no batch since {clock(view.snapshot, since_s)}{place}"
    stands = f"; the generator stands at {located.place}" if located.thread == "generator" else ""
    return f"nothing from {located.stage} since {clock(view.snapshot, located.since_ns / 1e9)}{stands}"


def _stalled(view: RunView) -> bool:
    return view.situation.waits_long and view.situation.phase_s >= _STALL_S


def _starves(view: RunView) -> bool:
    return view.situation.judgement.verdict in (Verdict.MODERATELY, Verdict.HIGHLY)


def _age(view: RunView, table: StageTable) -> str:
    if view.snapshot.life not in (Life.RUNNING, Life.SILENT):  # their clock alone goes on
        return "as it was read last"
    age_s = max(1, math.ceil(view.snapshot.now_s - table.at_ns / 1e9))
    return f"tf.data, {age_s} s ago"


def _unread(view: RunView) -> str:
    if why := _why_missing(view):
        return why
    if view.is_over:
        return "n/a: tf.data's model of the pipeline was not read in this run"
    if view.situation.phase in _EARLY or not view.snapshot.steps_total:
        return "stage by stage, from the first batches on"
    return "n/a: tf.data's model of the pipeline has not been read lately"


def _why_missing(view: RunView) -> str:
    """`n/a: the batches come from no tf.data iterator`; empty where nothing is known."""
    told = next((event for event in _missing(view) if event.sensor == PIPELINE), None)
    return f"n/a: {told.reason}{f'; {told.fix}' if told.fix else ''}" if told else ""


def _missing(view: RunView) -> list[SensorMissing]:
    return missing_sensors(view.snapshot.events.of(SensorMissing))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else round(value)
