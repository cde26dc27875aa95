"""A group of ranks: the finding, the group's steps, and a row for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from textual.reactive import reactive

from tfwatch.analysis.groups.straggler import (
    LEAST_NAMED_MS,
    Level,
    banner_word,
    long_step_lines,
    no_straggler_sentence,
    straggler_sentence,
    without_sentence,
)
from tfwatch.core import units
from tfwatch.live.groups.rank_lines import held_briefly, held_s, state_lines, stopped_word
from tfwatch.report.text import fate
from tfwatch.runs.reading.liveness import Life
from tfwatch.widgets.basics.glyphs import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    QUIET_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
)
from tfwatch.widgets.basics.pane import FramedPane, Pane
from tfwatch.widgets.basics.row_list import ChoiceList
from tfwatch.widgets.basics.text import row, shorten, spread, wrap_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from textual.content import Content

    from tfwatch.analysis.groups.step_sums import GroupSteps, StepColumns
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState
    from tfwatch.widgets.basics.glyphs import Glyphs

_LEVEL_STYLES = {Level.CRITICAL: "$text-error bold", Level.WARNING: "$text-warning bold"}
_LABEL_CELLS = 9
#: Marks a column of the chart with one of the longest single steps, and their number: an epoch's end may recur often.
_LONG_STEP, _MARKED = "!", 20
#: Cells of a rank's figures; the bar of its parts takes the rest, where there is room.
_COLUMNS = (
    ("rank", 4),
    ("step", 10),
    ("ms/step", 8),
    ("wait", 8),
    ("compute", 8),
    ("host", 7),
    ("late by", 8),
)
_LEAST_BAR, _STATE_CELLS = 10, 21
#: Cells of a GPU's clock and temperature, and the width that has room for them.
_GPU_CELLS, _WITH_GPU = 17, 95


class GroupHeader(Pane):
    """The first line: what trains, and the group.

    Attributes:
        group: the newest judgement. trouble: why it is not up to date; empty where it is.
    """

    DEFAULT_CSS = """
    GroupHeader { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    group: reactive[JudgedGroup | None] = reactive(None)
    trouble: reactive[str] = reactive("")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        name = row(("tfwatch", "$accent bold"), f"  {self._title()}")
        note = (
            (self.trouble, "$text-error bold")
            if self.trouble
            else (self._group_name(), QUIET_COLOUR)
        )
        return [spread(name, row(note), width)]

    def _title(self) -> str:
        if self.group is None:
            return ""
        group = self.group.group
        size = group.file.size
        of_size = f" of {size}" if size and size != len(group.ranks) else ""
        title = next(iter(group.ranks.values())).manifest.title
        return f"{title}  {units.counted(len(group.ranks), 'rank')}{of_size}"

    def _group_name(self) -> str:
        return self.group.group.folder.name if self.group else ""


class GroupFindingPane(Pane):
    """The rank that the others wait for, why, and what the group would take without it.

    Attributes:
        group: the judgement. steps: those whose single long steps are listed.
    """

    DEFAULT_CSS = """
    GroupFindingPane { height: 4; }
    """

    group: reactive[JudgedGroup | None] = reactive(None)
    steps: reactive[GroupSteps | None] = reactive(None)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.group is None:
            return []
        title, style, sentences = _finding(self.group, self.steps)
        lines = [piece for one in sentences for piece in wrap_text(one, width, "  ")]
        return [row((title, style)), *(row(line) for line in lines)][:height]


def _finding(judged: JudgedGroup, steps: GroupSteps | None) -> tuple[str, str, list[str]]:
    """Return the word, its style, and the sentences below: a rank that no longer trains goes before a late one."""
    states = state_lines(judged)
    title, style, sentences = _straggler(judged)
    if stopped := stopped_word(judged):
        return stopped, "$text-error bold", [*states, *sentences]
    return title, style, [*sentences, *states, *long_step_lines(steps.long_steps if steps else [])]


def _straggler(judged: JudgedGroup) -> tuple[str, str, list[str]]:
    if judged.why_not:
        return "STRAGGLER n/a", QUIET_COLOUR, [judged.why_not]
    found = judged.straggler
    if found is None:
        sentence = no_straggler_sentence(judged.waiting_share, judged.aligned)
        return banner_word(None), "$text-success bold", [sentence]
    return (
        banner_word(found),
        _LEVEL_STYLES[found.level],
        [straggler_sentence(found), without_sentence(found)],
    )


class GroupStepsPane(FramedPane):
    """A group's steps: the call that all ranks share, and above it what the last rank does before.

    A mark at the top shows a column with a single long step, which a mean of thousands of steps hides.
    """

    steps: reactive[GroupSteps | None] = reactive(None)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        count = width - _LABEL_CELLS
        if self.steps is None or count < 1 or height < 2:
            return []
        columns = self.steps.columns(count)
        wide = np.arange(count) * len(columns.first) // count
        parts = [part[wide] for part in columns.parts]
        top = float(np.quantile(sum(parts), 0.98)) * 1.05 or 1.0
        labels = {0: f"{top:.1f} ms", height - 1: "0"}
        cells = [self._cells(parts, top, height - at, height) for at in range(height)]
        for at in np.flatnonzero(has_long_step(self.steps, columns)[wide]):
            cells[0][at] = (_LONG_STEP, STALL_COLOUR)
        return [
            row((f"{labels.get(at, ''):>{_LABEL_CELLS - 1}} ", QUIET_COLOUR), *line)
            for at, line in enumerate(cells)
        ]

    def _cells(
        self, parts: Sequence[NDArray[np.float64]], top: float, level: int, height: int
    ) -> list[tuple[str, str]]:
        """Return a row of cells; a cell is of the part that its middle lies in."""
        middle = (level - 0.5) / height * top
        edges = np.cumsum(parts, axis=0)
        within = (edges <= middle).sum(axis=0)
        marks = (self.glyphs.compute, self.glyphs.host, self.glyphs.wait, " ")
        styles = (COMPUTE_COLOUR, HOST_COLOUR, WAIT_COLOUR, "")
        return [(marks[part], styles[part]) for part in within]


def has_long_step(steps: GroupSteps, columns: StepColumns) -> NDArray[np.bool_]:
    """Return a mask of the columns that have one of the longest single steps."""
    marked = [one.step for one in steps.long_steps[:_MARKED] if one.lost_ms >= LEAST_NAMED_MS]
    long = np.array(marked, dtype=np.int64)
    found: NDArray[np.bool_] = np.zeros(len(columns.first), dtype=np.bool_)
    found[np.searchsorted(columns.first, long, side="right") - 1] = True
    return found


class RankList(ChoiceList):
    """A row a rank; enter opens the rank's own screen."""

    def __init__(self) -> None:
        super().__init__()
        self._judged: JudgedGroup | None = None
        self._ranks: list[RankState] = []
        self.latest_first = False
        self.unicode = True

    def show(self, judged: JudgedGroup, chosen: int | None = None) -> None:
        """Show a judgement; the cursor stays at its rank. chosen: the rank to put it at."""
        if chosen is not None:  # once the list has its height
            self.call_after_refresh(self.watch_cursor)
        chosen = self.chosen if chosen is None else chosen
        self._judged = judged
        self._ranks = sorted(judged.ranks, key=self._place)
        places = [one.rank for one in self._ranks]
        if chosen in places:
            self.set_reactive(RankList.cursor, places.index(chosen) + 1)
        self.cursor = min(max(self.cursor, 1), len(places))
        self.rows_changed()

    @property
    def chosen(self) -> int | None:
        """The rank under the cursor."""
        at = self.cursor - 1
        return self._ranks[at].rank if 0 <= at < len(self._ranks) else None

    def _place(self, one: RankState) -> tuple[float, int]:
        return (-(one.late_ms or 0.0) if self.latest_first else 0.0, one.rank)

    def count(self) -> int:
        """Return the number of ranks and the heading."""
        return len(self._ranks) + 1

    def row_at(self, index: int, width: int) -> Content:
        """Return the heading, or a rank."""
        gpu_cells = _GPU_CELLS if width >= _WITH_GPU and any(map(_gpu, self._ranks)) else 0
        if index == 0:
            gpu = f"{'GPU':>{gpu_cells}}" if gpu_cells else ""
            return row(
                (
                    "".join(f"{name:>{cells}}" for name, cells in _COLUMNS) + f"{gpu}  state",
                    QUIET_COLOUR,
                )
            )
        state = self._ranks[index - 1]
        here = "reverse" if index == self.cursor and self.has_focus else ""
        figures = "".join(
            f"{text:>{cells}}" for text, (_, cells) in zip(_figures(state), _COLUMNS, strict=True)
        )
        room = width - len(figures) - gpu_cells - _STATE_CELLS - 4
        has_bar = room >= _LEAST_BAR
        return row(
            (figures, f"{self._style(state)} {here}".strip()),
            f"{_gpu(state):>{gpu_cells}}" if gpu_cells else "",
            "  ",
            (
                shorten(self._state(state), _STATE_CELLS).ljust(_STATE_CELLS if has_bar else 0),
                self._state_style(state),
            ),
            *([("  ", ""), *self._bar(state, room)] if has_bar else []),
        )

    def _style(self, state: RankState) -> str:
        found = self._judged.straggler if self._judged and not self._judged.why_not else None
        return _LEVEL_STYLES[found.level] if found and found.rank == state.rank else ""

    def _state(self, state: RankState) -> str:
        assert self._judged
        if state.life is Life.KILLED:
            return "killed"
        run = self._judged.group.ranks[state.rank]
        if state.life is Life.NOT_RESPONDING:
            return f"not responding {units.seconds(run.silent_s)}"
        if (seconds := held_s(self._judged, state)) is not None:
            return f"{held_briefly(run)} {units.seconds(seconds)}"
        return f"{state.behind} steps behind" if state.is_lagging else fate(run)

    def _state_style(self, state: RankState) -> str:
        assert self._judged
        if (
            state.life in (Life.KILLED, Life.NOT_RESPONDING)
            or held_s(self._judged, state) is not None
        ):
            return "$text-error"
        return "$text-warning" if state.is_lagging else QUIET_COLOUR

    def _bar(self, state: RankState, cells: int) -> list[tuple[str, str]]:
        """Return the parts of the rank's step as a bar; all ranks have one scale."""
        longest = max((one.split.step.mean for one in self._ranks if one.split), default=0.0)
        if state.split is None or longest <= 0:
            return []
        split, marks = state.split, "█▓▒" if self.unicode else "W#="
        ends = (
            np.cumsum([0.0, split.wait.mean, split.compute.mean, split.host.mean]) / longest * cells
        )
        counts = np.diff(np.minimum(np.rint(ends), cells)).astype(int)
        styles = (WAIT_COLOUR, COMPUTE_COLOUR, HOST_COLOUR)
        return [
            (mark * count, style) for mark, count, style in zip(marks, counts, styles, strict=True)
        ]

    def action_move(self, rows: int) -> None:
        """Move the cursor; the heading is no row."""
        self.cursor = min(max(self.cursor + rows, 1), max(len(self._ranks), 1))


def _figures(state: RankState) -> tuple[str, ...]:
    split = state.split
    means = (
        (split.step.mean, split.wait.mean, split.compute.mean, split.host.mean)
        if split
        else (None,) * 4
    )
    return (
        str(state.rank),
        units.count(state.step),
        *(units.number(one) for one in (*means, state.late_ms)),
    )


def _gpu(state: RankState) -> str:
    """Return `1980 MHz  44 °C`; empty where neither is known."""
    clock, heat = state.machine.clock_mhz, state.machine.temperature_c
    return "  ".join(
        [*([f"{clock:.0f} MHz"] if clock else []), *([f"{heat:.0f} °C"] if heat else [])]
    )


def legend(judged: JudgedGroup, glyphs: Glyphs) -> Content:
    """Return the title of the group's steps: its parts beside their colours."""
    found = judged.straggler if not judged.why_not else None
    last = f"rank {found.rank}" if found and not found.is_least else "the last rank"
    call, host, wait = (
        (glyphs.compute, COMPUTE_COLOUR),
        (glyphs.host, HOST_COLOUR),
        (glyphs.wait, WAIT_COLOUR),
    )
    return row(
        "the group's ms/step: ",
        call,
        " the call, ",
        host,
        " host and ",
        wait,
        f" data wait of {last}",
    )
