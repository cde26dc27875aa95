"""The settings pane: each knob with its key, its value, its next value, and the expected step after a switch.

`KNOB_KEYS` defines the keys once, for the bindings, the footer and the pane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.knobs import KEYS
from tfwatch.widgets.basics.keyline import Pressed
from tfwatch.widgets.basics.pane import FramedPane
from tfwatch.widgets.basics.text import column, row, shorten, shorten_clauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content
    from textual.geometry import Size

    from tfwatch.analysis.tuning.knob_state import KnobState
    from tfwatch.runs.reader import Snapshot


@dataclass(frozen=True, slots=True)
class KnobKey:
    """A key, by its Textual name, that switches a knob off and on again.

    name: the knob's name on the screen. does: the key's action, for the help. purpose: describes the knob; empty where
    the run describes it. rank: where room is short, the footer and the pane drop the highest rank first.
    in_footer: the footer lists the key. brief: a shorter name for a narrow footer; empty where there is none.
    """

    key: str
    knob: str
    name: str
    does: str
    purpose: str
    rank: int
    in_footer: bool = True
    brief: str = ""


PREFETCH = KnobKey(
    KEYS["prefetch"],
    "prefetch",
    "prefetch",
    "prefetch off, or back on",
    "prepares batches during a step",
    0,
    brief="pre",
)
#: Each has a row in the settings pane; a row for the depth follows that of prefetch.
KNOB_KEYS = (
    PREFETCH,
    KnobKey(KEYS["workers"], "workers", "workers", "workers off, or back on", "parallel map calls", 1, brief="work"),
    KnobKey(KEYS["cache"], "cache", "cache", "cache the prepared examples, or drop the cache", "", 2),
    KnobKey(
        KEYS["fast_form"], "fast_form", "fast pipeline", "the fast pipeline, or the slow one again", "", 2, brief="fast"
    ),
    KnobKey(
        KEYS["latency_ms"], "latency_ms", "latency", "simulated latency off, or back on", "simulated, per batch", 7
    ),
    KnobKey(
        KEYS["shuffle"],
        "shuffle",
        "shuffle",
        "shuffle off, or back on, from the next epoch on",
        "examples in the buffer",
        8,
        False,
    ),
)


def undo_key(knob: str) -> str:
    """Return the key that undoes a knob's switch: its own."""
    return next(one.key for one in KNOB_KEYS if one.knob == knob)


def cache_note(snapshot: Snapshot, state: KnobState) -> str:
    """Return `needs 338 MB of 16.2 GB`, or `uses 338 MB` where the cache is on; empty before its size is known."""
    needs = snapshot.manifest.cache_bytes
    if needs is None:
        return ""
    if state.coming == "on":
        return f"uses {units.memory(needs)}"
    return f"needs {units.memory(needs)} of {units.memory(available_bytes(snapshot))}"


def cache_size(snapshot: Snapshot, state: KnobState) -> str:
    """Return `, 338 MB` to follow the cache's forecast; empty where the size is unknown or the cache is on."""
    needs = snapshot.manifest.cache_bytes
    return "" if needs is None or state.coming == "on" else f", {units.memory(needs)}"


def available_bytes(snapshot: Snapshot) -> float | None:
    """Return the free memory of the newest sample; None before the first sample."""
    return float(snapshot.samples[-1]["memory_available_bytes"]) if len(snapshot.samples) else None


#: The widest value, cells: the forecast behind it needs the room.
_LONGEST_VALUE = 12
#: The cells of a key, the head of the forecasts, and the rows of settings from which it gets no row of its own.
_LABEL_CELLS, _HEAD, _ROWS_WITH_HEAD = 3, "expected step", 5


@dataclass(frozen=True, slots=True)
class KnobRow:
    """A row of the pane.

    key: the key's Textual name. label: the key on the screen. now: the current value. next: the value that the key
    requests, empty where it requests none. note: the text beside it. has_forecast: the note is a forecast.
    forecast_range: its prediction interval, shown where there is room. busy: a switch is requested or being measured.
    enabled: the key has an effect. rank: where rows are few, the highest rank goes first.
    """

    key: str
    label: str
    name: str
    now: str
    next: str
    note: str
    has_forecast: bool = False
    forecast_range: str = ""
    busy: bool = False
    enabled: bool = True
    rank: int = 0


class KnobsPane(FramedPane, can_focus=True):
    """The knobs in rows; posts `Pressed` with the key of the row that was entered, or clicked twice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("enter", "press", "switch this knob", show=False),
    ]

    knobs: reactive[tuple[KnobRow, ...]] = reactive((), repaint=False)
    cursor: reactive[int] = reactive(0, repaint=False)
    #: The row of the last click, until the pane loses the focus.
    _clicked: int | None = None

    watch_cursor = FramedPane.repaint_rows

    def on_mount(self) -> None:
        self.set_titles("live switches")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return one row per knob, and one for the head."""
        return max(len(self.knobs), 1) + self._has_head_row

    def watch_knobs(self, old: tuple[KnobRow, ...], new: tuple[KnobRow, ...]) -> None:
        if len(new) != len(old) or any(k.has_forecast for k in old) != self._has_forecast:
            self.refresh(layout=True)
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if not self.knobs:
            return [row((" no settings to switch: the loop has its own pipeline", "$foreground 65%"))]
        at_rows = self._in_view(height)
        cells = _column_cells([self.knobs[at] for at in at_rows])
        head = row((" " * (_LABEL_CELLS + sum(cells)) + _HEAD, "$foreground 65%"))
        return [*([head] if self._has_head_row else []), *(self._row(at, width, cells) for at in at_rows)]

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
        """True without a frame, where the head of the forecasts needs a row and the settings leave one."""
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
        found = row(
            (f"{knob.label:<2} ", faint or "$accent bold"),
            (knob.name, name_style),
            " " * max(names - len(knob.name), 1),
            *(value_parts if knob.now else ()),
        )
        found += row((shorten_clauses(knob.note, width - found.cell_length), note_style))
        interval = row((f"  ({knob.forecast_range})", "$foreground 65%")) if knob.forecast_range else row()
        return found + interval if found.cell_length + interval.cell_length <= width else found

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
