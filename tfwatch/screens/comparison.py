"""The comparison screen: two sides of runs on one axis, and the difference of each figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from textual import getters
from textual.binding import Binding
from textual.reactive import reactive
from textual.screen import Screen

from tfwatch.analysis.comparing.run_steps import PARTS, STEP
from tfwatch.core import units
from tfwatch.report.evidence.comparison_report import (
    SIDES,
    answer_text,
    change_lines,
    change_text,
    comparison_lines,
    figure_lines,
    pair_text,
    part_lines,
    sides_text,
    small_ms,
    spread_text,
)
from tfwatch.screens.themes import ThemedApp
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.basics.keyline import Key, KeyLine
from tfwatch.widgets.basics.pane import FramedPane, Pane, apply_glyphs
from tfwatch.widgets.basics.text import column, row, shorten, shorten_clauses, spread, wrap_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.live.evidence.compared_runs import ComparedFigure, ComparedRuns

BEFORE_COLOUR, AFTER_COLOUR = "$primary", "$warning"
#: The marks of A, B and both in one cell.
_MARKS, _PLAIN_MARKS = ("•", "○", "◉"), ("a", "b", "*")
_LABEL_CELLS = 9
#: The fewest steps whose median is a column of the chart.
_COLUMN_STEPS = 8
_STYLES = {
    "faster": "$text-success bold",
    "slower": "$text-error bold",
    "same": "bold",
    "unclear": "$text-warning bold",
}
#: Below this width the columns of both values are left out.
_NARROW = 60


class AnswerPane(Pane):
    """The answer in a row: which side is faster, with the interval."""

    DEFAULT_CSS = """
    AnswerPane { height: 1; }
    """

    found: reactive[tuple[ComparedRuns, str] | None] = reactive(None)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.found is None:
            return []
        found, letter = self.found
        words = "; ".join([answer_text(found, letter), *part_lines(found)])
        return [row((shorten_clauses(words, width), _STYLES[found.answer]))]


class StepTimesPane(FramedPane):
    """The step times of both sides over their steps in common."""

    found: reactive[tuple[ComparedRuns, str] | None] = reactive(None)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.found is None or width <= _LABEL_CELLS + 2 or height < 2:
            return []
        columns = width - _LABEL_CELLS
        curves = self.found[0].step_curves(
            min(columns, max(self.found[0].steps // _COLUMN_STEPS, 1))
        )
        low, high = axis([*curves[0], *curves[1]])
        wide = tuple(curve[np.arange(columns) * len(curve) // columns] for curve in curves)
        marks = plot(wide, low, high, height, _MARKS if self.glyphs.unicode else _PLAIN_MARKS)
        labels = {0: small_ms(high), height - 1: small_ms(low)}
        return [self._row(labels.get(at, ""), line) for at, line in enumerate(marks)]

    def _row(self, label: str, line: str) -> Content:
        first, second, both = _MARKS if self.glyphs.unicode else _PLAIN_MARKS
        styles = {first: BEFORE_COLOUR, second: AFTER_COLOUR, both: "$foreground"}
        pieces = [(mark, styles[mark]) if mark in styles else (mark, "") for mark in line]
        return row((f"{label:>{_LABEL_CELLS - 1}} ", "$foreground 65%"), *pieces)

    def legend(self) -> Content:
        """Return the title: the marks of both sides."""
        assert self.found
        first, second, _ = _MARKS if self.glyphs.unicode else _PLAIN_MARKS
        of = "time per example" if self.found[0].by_example else "step time"
        return row(
            f"{of}  ", (first, BEFORE_COLOUR), " A  ", (second, AFTER_COLOUR), f" {self.found[1]}"
        )


def axis(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis that holds nearly all values: one slow stretch does not flatten the rest."""
    low, high = float(min(values)), float(np.quantile(values, 0.98))
    room = max(0.1 * (high - low), 0.02 * high, 1e-6)
    return max(low - room, 0.0), high + room


def plot(
    curves: Sequence[NDArray[np.float64]],
    low: float,
    high: float,
    height: int,
    marks: Sequence[str],
) -> list[str]:
    """Return the rows of a chart, from the top. marks: of the first curve, the second, and both in one cell."""
    columns = max(map(len, curves))
    cells = [[" "] * columns for _ in range(height)]
    for curve, mark in zip(curves, marks, strict=False):
        places = np.clip((curve - low) / (high - low), 0, 1) * (height - 1)
        for at, place in enumerate(places):
            line = cells[height - 1 - round(float(place))]
            line[at] = mark if line[at] == " " else marks[2]
    return ["".join(line) for line in cells]


class DifferencesPane(FramedPane):
    """The difference of step time and of each part, with its interval around zero."""

    found: reactive[tuple[ComparedRuns, str] | None] = reactive(None)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.found is None:
            return []
        found, letter = self.found
        figures = [
            one
            for one in found.figures
            if one.name in (STEP, *PARTS) and one.difference is not None
        ]
        values = 20 if width >= _NARROW else 0
        room = width - 12 - values - 12
        ends = [abs(end) for one in figures for end in (one.low, one.high) if end is not None]
        most = max(ends, default=1.0) or 1.0
        head = row(
            (
                f"{'':12}{self._values('A', letter, values)}{f'{letter} less A':>11} ",
                "$foreground 65%",
            )
        )
        return [head, *(self._figure(one, values, room, most) for one in figures)]

    def _values(self, before: str, after: str, cells: int) -> str:
        return f"{before:>10}{after:>10}" if cells else ""

    def _figure(self, one: ComparedFigure, values: int, room: int, most: float) -> Content:
        style = (
            ("$text-error" if (one.difference or 0) > 0 else "$text-success")
            if one.is_clear
            else ""
        )
        name = one.name if one.name == STEP else f"  {one.name}"
        figures = self._values(*pair_text(one), values)
        bar = whiskers(one, room, most, self.glyphs.unicode)
        return row(
            column(name, 12),
            figures,
            (f"{change_text(one):>11} ", f"{style} bold" if style else ""),
            (bar, style),
        )


def whiskers(one: ComparedFigure, width: int, most: float, unicode: bool) -> str:
    """Return `   ├──●─┤  │`, an interval on an axis from `-most` to `most` with its zero in the middle."""
    if width < 5 or one.low is None or one.high is None or one.difference is None:
        return ""
    begin, end, line, middle, zero = (
        ("├", "┤", "─", "●", "│") if unicode else ("[", "]", "-", "o", "|")
    )
    low, high, at = (
        round((1 + at / most) / 2 * (width - 1)) for at in (one.low, one.high, one.difference)
    )
    cells = [" "] * width
    cells[(width - 1) // 2] = zero
    cells[low : high + 1] = [line] * (high + 1 - low)
    cells[low], cells[high] = begin, end
    cells[at] = middle
    return "".join(cells)


class MoreFiguresPane(FramedPane):
    """The other figures of a large window: memory, energy, time breakdown, and those of the last common epoch."""

    found: reactive[tuple[ComparedRuns, str] | None] = reactive(None)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.found is None:
            return []
        found, letter = self.found
        others = [one for one in found.figures if one.name not in (STEP, *PARTS)]
        return [row(shorten(line, width)) for line in figure_lines(found, letter, others)][:height]


class FactsPane(FramedPane):
    """The origin of the intervals, and the facts that differ."""

    found: reactive[tuple[ComparedRuns, str] | None] = reactive(None)

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if self.found is None:
            return []
        lines = [*change_lines(self.found[0]), spread_text(self.found[0])]
        return [row(piece) for line in lines for piece in wrap_text(line, width, "  ")][:height]


class ComparisonHeader(Pane):
    """The first line: the runs of both sides.

    Attributes:
        names: of both sides.
    """

    DEFAULT_CSS = """
    ComparisonHeader { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    names: reactive[tuple[str, str]] = reactive(("", ""))

    def rows(self, width: int, height: int) -> Sequence[Content]:
        name = row(("tfwatch compare", "$accent bold"))
        first, second = (shorten(side, (width - 2) // 2) for side in self.names)
        sides = row((first, "$text-primary"), "  ", (second, "$text-warning"))
        return [spread(name, sides, width) if sides.cell_length < width - 18 else sides]


#: Below this many rows the facts are left out, and below the second one the chart.
_LOW, _LOWEST = 20, 15
#: From this many rows on there is room for all figures.
_HIGH = 46


class ComparisonScreen(Screen[None]):
    """Show the first side with one of the others at a time."""

    CSS_PATH = "comparison.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_side", "the next side", id="comparison.next"),
        Binding("y", "copy", "copy the comparison as text", id="comparison.copy"),
        Binding("escape,q", "app.quit", "quit", id="comparison.quit"),
        Binding(
            "colon",
            "app.command_palette",
            "search all commands",
            show=False,
            id="comparison.palette",
        ),
    ]

    header = getters.query_one(ComparisonHeader)
    step_times = getters.query_one(StepTimesPane)
    keys = getters.query_one(KeyLine)

    def __init__(self, found: Sequence[ComparedRuns], *, colour: bool, unicode: bool) -> None:
        super().__init__()
        self._found = found
        self._at = 0
        self._glyphs = choose_glyphs(colour, unicode)

    def compose(self) -> ComposeResult:
        yield ComparisonHeader()
        yield AnswerPane()
        yield StepTimesPane()
        yield DifferencesPane()
        yield MoreFiguresPane()
        yield FactsPane()
        yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        several = len(self._found) > 1
        self.keys.keys = (
            *([Key("n", "n", "next side")] if several else []),
            Key("y", "y", "copy"),
            Key("q", "q", "quit"),
        )
        self._show()

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < _LOW, "-low")
        self.set_class(self.app.size.height < _LOWEST, "-lowest")
        self.set_class(self.app.size.height >= _HIGH, "-high")

    def _show(self) -> None:
        one = self._found[self._at]
        letter = SIDES[self._at + 1]
        for pane in (self.query_one(AnswerPane), self.step_times, self.query_one(DifferencesPane)):
            pane.found = (one, letter)
        self.query_one(MoreFiguresPane).found = self.query_one(FactsPane).found = (one, letter)
        first, second = sides_text([one.before, one.after])
        self.header.names = (first, f"{letter}{second[1:]}")
        self.step_times.set_titles(
            self.step_times.legend(), f"the same {units.count(one.steps)} steady steps"
        )
        self.query_one(DifferencesPane).set_titles(
            "difference", "95 % interval, coloured where clear"
        )
        self.query_one(MoreFiguresPane).set_titles("other figures", "")
        self.query_one(FactsPane).set_titles("what differs, and the spread of equal runs", "")

    def action_next_side(self) -> None:
        """Show the next side."""
        self._at = (self._at + 1) % len(self._found)
        self._show()

    def action_copy(self) -> None:
        """Copy the comparison as text."""
        one = self._found[self._at]
        letter = SIDES[self._at + 1]
        lines = [*sides_text([one.before, one.after]), "", *comparison_lines(one, letter)]
        self.app.copy_to_clipboard("\n".join(lines))
        self.notify("copied")


class ComparisonApp(ThemedApp):
    """Show a comparison by itself. options: passed to `ThemedApp`."""

    TITLE = "tfwatch compare"

    def __init__(self, found: Sequence[ComparedRuns], **options: Any) -> None:
        super().__init__(**options)
        self._found = found

    def on_mount(self) -> None:
        super().on_mount()
        self.push_screen(ComparisonScreen(self._found, colour=self._colour, unicode=self._unicode))
        self.call_after_refresh(self.notify_painted)
