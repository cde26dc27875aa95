"""The settings pane: each knob with its key, its value, its next value, and the expected step after
a switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.reactive import reactive

from tfwatch.judge.effects.wording import checked_forecast_text
from tfwatch.screens.basics.keyline import Pressed
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import column, row, shorten, shorten_clauses
from tfwatch.screens.live.settings.knob_rows import knob_rows, title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content
    from textual.geometry import Size

    from tfwatch.judge.view import RunView
    from tfwatch.screens.live.settings.knob_rows import KnobRow


#: The widest value, cells: the forecast behind it needs the room.
_LONGEST_VALUE = 12
#: The cells of a key, the head of the forecasts, and the rows of settings from which it gets no row
#: of its own.
_LABEL_CELLS, _HEAD, _ROWS_WITH_HEAD = 3, "expected step", 5
_NONE = "no settings to switch: the loop has its own pipeline"
_AWAITED = "the settings appear with the first fit"


class KnobsPane(FramedPane, can_focus=True):
    """The knobs in rows; a row that is entered, or clicked twice, posts `Pressed` with its key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("enter", "press", "switch this knob", show=False),
    ]

    knobs: reactive[tuple[KnobRow, ...]] = reactive((), repaint=False)
    cursor: reactive[int] = reactive(0, repaint=False)
    #: The row of the last click, until the pane loses the focus.
    _clicked: int | None = None
    #: The text without any knob.
    _none: str = _NONE

    watch_cursor = FramedPane.repaint_rows

    def on_mount(self) -> None:
        self.set_titles("live switches")

    def show(self, view: RunView) -> None:
        """Show the settings of a view."""
        live = view.situation.live
        self._none = _AWAITED if view.awaits_fit else _NONE
        self.knobs = knob_rows(view, live)
        self.show_titles(title(view, live), checked_forecast_text(view.situation.record))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return one row per knob, and one for the head."""
        return max(len(self.knobs), 1) + self._has_head_row

    def watch_knobs(self, old: tuple[KnobRow, ...], new: tuple[KnobRow, ...]) -> None:
        if len(new) != len(old) or any(k.has_forecast for k in old) != self._has_forecast:
            self.refresh(layout=True)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if not self.knobs:
            return [row((f" {self._none}", "$foreground 65%"))]
        at_rows = self._in_view(height)
        cells = _column_cells([self.knobs[at] for at in at_rows])
        head = row((" " * (_LABEL_CELLS + sum(cells)) + _HEAD, "$foreground 65%"))
        return [
            *([head] if self._has_head_row else []),
            *(self._row(at, width, cells) for at in at_rows),
        ]

    def show_titles(self, title: str, note: str) -> None:
        """Set the frame's texts, with the head of the forecasts above their column."""
        gap = _LABEL_CELLS + sum(_column_cells(self.knobs)) - len(title) - 3
        if gap < 1 or not self._has_forecast:
            self.set_titles(title, note)
            return
        rule = (f" {self.glyphs.rule * gap} ", "$foreground 30% not bold")
        self.set_titles(row(title, rule, (_HEAD, "not bold")), note)

    @property
    def _has_forecast(self) -> bool:
        return any(knob.has_forecast for knob in self.knobs)

    @property
    def _has_head_row(self) -> bool:
        """True without a frame, where the head of the forecasts needs a row and the settings leave
        one."""
        return self.has_class("-bare") and self._has_forecast and len(self.knobs) < _ROWS_WITH_HEAD

    def _in_view(self, height: int) -> list[int]:
        """Return the rows that fit; the row under the cursor always does."""
        kept = list(range(len(self.knobs)))
        while len(kept) > max(height - self._has_head_row, 1):
            others = (at for at in kept if at != self.cursor or not self.has_focus)
            kept.remove(max(others, key=lambda at: (self.knobs[at].rank, at)))
        return kept

    def _row(self, at: int, width: int, cells: tuple[int, int, int]) -> Content:
        knob = self.knobs[at]
        names, values, arrows = cells
        here = self.has_focus and at == self.cursor
        faint = "" if knob.enabled else "$foreground 65%"
        following = column(_next_text(knob), arrows) if knob.next else " "
        value_parts = (column(_value_text(knob), values), faint or "bold"), (following, faint)
        name_style = "reverse" if here else faint
        note_style = "$text-accent" if knob.busy else "$foreground 65%"
        content = row(
            (f"{knob.label:<2} ", faint or "$accent bold"),
            (knob.name, name_style),
            " " * max(names - len(knob.name), 1),
            *(value_parts if knob.now else ()),
        )
        content += row((shorten_clauses(knob.note, width - content.cell_length), note_style))
        interval = (
            row((f"  ({knob.forecast_range})", "$foreground 65%")) if knob.forecast_range else row()
        )
        return (
            content + interval if content.cell_length + interval.cell_length <= width else content
        )

    @property
    def chosen_key(self) -> str:
        """The key of the row under the cursor; empty without one."""
        return self.knobs[self.cursor].key if self.cursor < len(self.knobs) else ""

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + rows, 0), max(len(self.knobs) - 1, 0))

    def action_press(self) -> None:
        """Press the key of the row under the cursor."""
        self._choose(self.cursor)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        rows = self._in_view(self.content_size.height)
        if at is not None and 0 <= at.y - self._has_head_row < len(rows):
            self._select_or_choose(rows[at.y - self._has_head_row])

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self._clicked = None
        self.refresh()

    def _select_or_choose(self, at: int) -> None:
        """Select a row at the first click, press its key at the next."""
        if at == self._clicked:
            self._choose(at)
        self.cursor = self._clicked = at

    def _choose(self, at: int) -> None:
        if 0 <= at < len(self.knobs):
            self.cursor = at
            self.post_message(Pressed(self.knobs[at].key))


def _column_cells(knobs: Sequence[KnobRow]) -> tuple[int, int, int]:
    """Return the cells of the names, the values and the next values."""
    names = [knob.name for knob in knobs if knob.now]
    columns = ((1, names), (1, map(_value_text, knobs)), (1, map(_next_text, knobs)))
    name, value, following = (max(map(cell_len, texts), default=0) + gap for gap, texts in columns)
    return name, value, following


def _value_text(knob: KnobRow) -> str:
    return shorten(knob.now, _LONGEST_VALUE)


def _next_text(knob: KnobRow) -> str:
    return f"next: {shorten(knob.next, _LONGEST_VALUE)}" if knob.next else ""
