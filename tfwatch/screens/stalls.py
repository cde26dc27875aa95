"""The stalls of a run, the worst first: a letter jumps to a stall, or opens a group of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tfwatch.analysis.findings.situation import reading_text
from tfwatch.analysis.steps.stall_groups import StallGroup, arrange, arrange_group, period_text
from tfwatch.core import units
from tfwatch.widgets.basics.glyphs import QUIET_COLOUR
from tfwatch.widgets.basics.text import column, row
from tfwatch.widgets.live.timeline.picture import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.analysis.steps.stall_groups import Row
    from tfwatch.analysis.steps.stalls import Stall
    from tfwatch.live.view import RunView

#: The keys of the rows; q closes.
_LETTERS = "abcdefghijklmnoprstuvwxyz"
#: Rows of a window beside those of the stalls: frame, heading.
_OTHER_ROWS = 4
_LEAST_ROOM = 6
_HEADING = "   at        step          cost   cause"


class StallsScreen(ModalScreen["float | None"]):
    """Rows with a letter each; the result is the moment to jump to, seconds since the clock origin, or None.

    height: of the window: at most so many rows show, so that each stall is reached by two letters.
    """

    CSS_PATH = "text_screens.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="stalls.back"),
        Binding("q,question_mark,S,upper_s", "dismiss", "close", id="stalls.close"),
        *(Binding(letter, f"choose({at})", show=False) for at, letter in enumerate(_LETTERS)),
    ]

    def __init__(self, view: RunView, height: int, unicode: bool) -> None:
        super().__init__(classes="" if unicode else "-plain")
        self._view = view
        self._room = min(max(height - _OTHER_ROWS, _LEAST_ROOM), len(_LETTERS))
        self._levels: list[Sequence[Row]] = [arrange(view.stalls, self._room)]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="text", can_focus=False) as box:
            box.border_title = Content(_title(self._view))
            box.border_subtitle = Content("a letter jumps  escape back")
            yield Static(self._text(), id="stalls")

    def action_choose(self, at: int) -> None:
        """Jump to the stall of a row, or open its group."""
        rows = self._levels[-1]
        if at >= len(rows):
            return
        chosen = rows[at]
        if not isinstance(chosen, StallGroup):
            self.dismiss(chosen.start_ns / 1e9)
            return
        self._levels.append(arrange_group(chosen, self._room))
        self._update()

    def action_back(self) -> None:
        """Close the group, or the list."""
        if len(self._levels) == 1:
            self.dismiss(None)
            return
        self._levels.pop()
        self._update()

    def on_click(self, event: events.Click) -> None:
        """Choose the row below the pointer; a click beside the rows closes the list."""
        text = self.query_one("#stalls", Static)
        at = event.screen_y - text.region.y - 1
        if text.region.contains(event.screen_x, event.screen_y) and at >= 0:
            self.action_choose(at)
        else:
            self.dismiss(None)

    def _update(self) -> None:
        self.query_one("#stalls", Static).update(self._text())

    def _text(self) -> Content:
        lines = [row((_HEADING, QUIET_COLOUR))]
        for letter, what in zip(_LETTERS, self._levels[-1], strict=False):
            text = self._group_text(what) if isinstance(what, StallGroup) else self._stall_text(what)
            lines.append(Content.assemble((f"{letter}  ", "$accent bold"), row(text)))
        return Content("\n").join(lines)

    def _stall_text(self, stall: Stall) -> str:
        at = clock(self._view.snapshot, stall.start_ns / 1e9)
        cost = units.seconds(stall.lost_ms / 1e3)
        return f"{at}  {units.count(stall.step):<12}{column(cost, 7)}{stall.cause}"

    def _group_text(self, group: StallGroup) -> str:
        stalls, cost = group.stalls, units.seconds(group.lost_ms / 1e3)
        at = clock(self._view.snapshot, group.start_ns / 1e9)
        if group.period:
            every = period_text(group.period, self._view.snapshot.manifest.steps_per_epoch)
            return f"{at}  {f'+ {len(stalls) - 1} more':<12}{column(cost, 7)}{stalls[0].cause}, {every}"
        until = clock(self._view.snapshot, stalls[-1].start_ns / 1e9)
        return f"{at}  {f'to {until}':<12}{column(cost, 7)}{units.counted(len(stalls), 'stall')}"


def _title(view: RunView) -> str:
    lost_s, run_s = sum(stall.lost_ms for stall in view.stalls) / 1e3, view.snapshot.now_s
    share = f", {units.percent(lost_s / run_s)} of the run" if run_s > 0 else ""
    text = f"{units.counted(len(view.stalls), 'stall')} cost {units.seconds(lost_s)}{share}"
    searched = view.situation.searched
    return text if searched is None else f"{text}, {reading_text(searched)}"
