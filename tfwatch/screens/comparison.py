"""The comparison screen: two sides of runs on one axis, and the difference of each figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters
from textual.binding import Binding
from textual.screen import Screen

from tfwatch.report.evidence.comparison_report import SIDES, comparison_lines, sides_text
from tfwatch.screens.themes import ThemedApp
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.basics.keyline import Key, KeyLine
from tfwatch.widgets.basics.pane import apply_glyphs
from tfwatch.widgets.comparison import AnswerPane, ComparisonHeader, DifferencesPane, FactsPane, StepTimesPane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.live.evidence.compared_runs import ComparedRuns

#: Below this many rows the facts are left out, and below the second one the chart.
_LOW, _LOWEST = 20, 15


class ComparisonScreen(Screen[None]):
    """Show the first side with one of the others at a time."""

    CSS_PATH = "comparison.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_side", "the next side", id="comparison.next"),
        Binding("y", "copy", "copy the comparison as text", id="comparison.copy"),
        Binding("escape,q", "app.quit", "quit", id="comparison.quit"),
        Binding("colon", "app.command_palette", "search all commands", show=False, id="comparison.palette"),
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

    def _show(self) -> None:
        one = self._found[self._at]
        letter = SIDES[self._at + 1]
        for pane in (self.query_one(AnswerPane), self.step_times, self.query_one(DifferencesPane)):
            pane.found = (one, letter)
        self.query_one(FactsPane).found = (one, letter)
        first, second = sides_text([one.before, one.after])
        self.header.names = (first, f"{letter}{second[1:]}")
        self.step_times.set_titles(self.step_times.legend(), f"the same {one.steps} steady steps")
        self.query_one(DifferencesPane).set_titles("difference", "95 % interval, coloured where clear")
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
