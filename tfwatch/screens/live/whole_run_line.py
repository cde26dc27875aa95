"""The whole run in one to three rows: step time, switches and stalls, epochs; and the chart's
window in brackets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.message import Message
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.core.events import EpochStarted, PipelineSwitched, without_experiments
from tfwatch.core.knobs import KNOBS
from tfwatch.screens.basics.glyphs import Glyphs, choose_glyphs
from tfwatch.screens.basics.pane import PaintedRows
from tfwatch.screens.live.timeline import step_bars
from tfwatch.screens.live.timeline import window as views
from tfwatch.screens.live.timeline.rows import GUTTER, joined
from tfwatch.screens.live.timeline.style import PREFIX, ROLE_CSS, ROLES, Paint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.strip import Strip

    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.live.timeline.rows import Line, Piece
    from tfwatch.screens.live.timeline.step_bars import Bars

#: Columns for the run's length, right of the line.
_RIGHT = 12
#: The top of the bars: this much above the 95th percentile, so that one stall does not flatten the
#: rest.
_PERCENTILE, _HEADROOM = 95, 1.15
#: The least columns from one epoch's number to the next.
_EPOCH_COLUMNS = 12
#: From this data wait on, as a share of the step, a column is drawn in its colour.
_STARVING = 0.2
#: A shorter run is seen whole in the chart above.
LONG_S = 120.0


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a run: (seconds since the clock origin, text). stalls_s: the starts of its
    stalls."""

    switches: tuple[tuple[float, str], ...]
    stalls_s: tuple[float, ...]
    epochs: tuple[tuple[float, str], ...]


class WholeRunLine(PaintedRows):
    """The run from its start until now; a click or a drag posts `Moved` with the moment."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {PREFIX + role for role in ROLES}
    DEFAULT_CSS = f"""
    WholeRunLine {{
        height: 1;
        padding: 0 1;
        {ROLE_CSS}
    }}
    """

    @dataclass
    class Moved(Message):
        """The user points at a moment of the run, seconds since its clock origin."""

        at_s: float

    #: The chart's view, seconds since the clock origin; None for no brackets.
    window_s: reactive[tuple[float, float] | None] = reactive(None, repaint=False)
    #: The characters to draw with.
    glyphs: reactive[Glyphs] = reactive(choose_glyphs(colour=True, unicode=True), repaint=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[object, ...] = ()
        self._bars: Bars | None = None
        self._rows: list[list[Piece]] = []
        self._right = ""
        self._placed: tuple[object, ...] = ()
        self._lines: list[Line] = []
        self._paint = Paint(self)

    def show(self, view: RunView) -> None:
        """Show a run, once a second, and where its stalls or switches change."""
        snapshot = view.snapshot
        switches = len(snapshot.events.of(PipelineSwitched))
        key = (
            second_of(snapshot.now_s, Slot.HEADER),
            view.is_over,
            len(view.stalls),
            switches,
            self.size,
            self.glyphs,
        )
        if key == self._shown or not self.size:
            return
        self._shown = key
        columns = self._columns
        self._bars = views.bars_in_view(snapshot, views.View(views.Zoom.ALL), columns)
        stalls_s = tuple(one.start_ns / 1e9 for one in view.stalls)
        epochs = _epochs(snapshot, columns, has_row=self.size.height >= 3)
        marks = Marks(tuple(_switches(snapshot)), stalls_s, tuple(epochs))
        self._rows = draw(self._bars, marks, self.size.height, self.glyphs)
        self._right = f" {units.seconds(snapshot.now_s)}"
        self._place_window()

    def watch_window_s(self) -> None:
        """Move the brackets."""
        self._place_window()

    def watch_glyphs(self, glyphs: Glyphs) -> None:
        """Draw with other characters."""
        self.set_class(not glyphs.unicode, "-plain").set_class(not glyphs.colour, "-mono")
        self._paint.fine = glyphs.fine
        self._shown = ()

    def notify_style_update(self) -> None:
        """Drop the colours of the old theme."""
        super().notify_style_update()
        self._paint.forget()

    def _place_window(self) -> None:
        if self._bars is None or not self._rows:
            return
        window = (
            tuple(views.column_of(self._bars, at_s) for at_s in self.window_s)
            if self.window_s
            else ()
        )
        if (self._rows, self._right, window) == self._placed:
            return
        self._placed = self._rows, self._right, window
        rows = [list(row) for row in self._rows]
        if window:
            _write_brackets(rows[0], *window)
        labels, rights = ("whole", "run"), (self._right, "")
        lines: list[Line] = []
        for at, row in enumerate(rows):
            label = "run" if len(rows) == 1 else labels[at] if at < 2 else ""
            right = rights[at] if at < 2 else ""
            lines.append(((f"{label:<{GUTTER - 1}}", "quiet"), *joined(row), (right, "quiet")))
        if lines != self._lines:
            self._lines = lines
            self.repaint_rows()

    @property
    def _columns(self) -> int:
        return max(self.size.width - GUTTER + 1 - _RIGHT, 1)

    def row_key(self, y: int) -> Line | None:
        """Return row `y`; None below the last row."""
        return self._lines[y] if y < len(self._lines) else None

    def render_line(self, y: int) -> Strip:
        """Draw row `y`."""
        return self._paint.strip(self.row_key(y) or (), self.size.width)

    # -- the mouse ------------------------------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go to the moment below the pointer, and follow the pointer until its button is
        released."""
        self.capture_mouse()
        self._point_at(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Go to the moment below the pointer while a button is held down."""
        if self.app.mouse_captured is self:
            self._point_at(event)

    def on_mouse_up(self) -> None:
        """Release the pointer."""
        self.release_mouse()

    def _point_at(self, event: events.MouseEvent) -> None:
        if self._bars is None:
            return
        column = min(
            max(event.x - self.styles.gutter.left - GUTTER + 1, 0), len(self._bars.starts_s) - 1
        )
        following = (
            self._bars.starts_s[column + 1]
            if column + 1 < len(self._bars.starts_s)
            else self._bars.end_s
        )
        self.post_message(self.Moved(float(self._bars.starts_s[column] + following) / 2))


def draw(bars: Bars, marks: Marks, height: int, glyphs: Glyphs) -> list[list[Piece]]:
    """Draw a run in `height` rows of cells, without the window."""
    chart = _draw_bars(bars, glyphs)
    stalls = sorted({views.column_of(bars, at_s) for at_s in marks.stalls_s})
    if height == 1:
        _write_between(chart, bars, marks)
        for column in stalls:
            chart[column] = (chart[column][0] if glyphs.fine else "S", "stall")
        _write(chart, bars, marks.switches, "switch")
        return [chart]
    below: list[Piece] = [(" ", "")] * len(chart)
    if height == 2:
        _write_between(below, bars, marks)
    for column in stalls:
        below[column] = ("S", "alarm")
    _write(below, bars, marks.switches, "switch")
    axis: list[Piece] = [(" ", "")] * len(chart)
    _write(axis, bars, marks.epochs, "quiet")
    return [chart, below, axis][:height]


def _draw_bars(bars: Bars, glyphs: Glyphs) -> list[Piece]:
    """Draw the mean step times as a gauge, in the colour of starving where it is high."""
    total = bars.total_ms
    ran = np.isfinite(total)
    if not ran.any():
        return [(" ", "")] * len(total)
    top = float(np.percentile(total[ran], _PERCENTILE)) * _HEADROOM
    levels = step_bars.gauge(total / max(top, 1e-9), len(glyphs.levels) - 1).tolist()
    starves = (bars.share >= _STARVING).tolist()
    return [
        (glyphs.levels[level], "wait" if starving else "compute")
        for level, starving in zip(levels, starves, strict=True)
    ]


def _write(row: list[Piece], bars: Bars, marks: Iterable[tuple[float, str]], role: str) -> None:
    for at_s, text in marks:
        column = views.column_of(bars, at_s)
        if column + len(text) <= len(row):
            row[column : column + len(text)] = [(char, role) for char in text]


def _write_between(row: list[Piece], bars: Bars, marks: Marks) -> None:
    """Write the epochs that have room between the other marks, some columns from one to the
    next."""
    taken = {
        views.column_of(bars, at_s)
        for at_s in (*marks.stalls_s, *(at_s for at_s, _ in marks.switches))
    }
    free = 0
    for at_s, text in marks.epochs:
        first = views.column_of(bars, at_s)
        if first >= free and taken.isdisjoint(range(first, first + len(text))):
            _write(row, bars, [(at_s, text)], "quiet")
            free = first + _EPOCH_COLUMNS // 2


def _write_brackets(row: list[Piece], first: int, last: int) -> None:
    if first == last:
        first, last = (first, first + 1) if first + 1 < len(row) else (first - 1, first)
    if first >= 0:
        row[first], row[last] = ("[", "cursor"), ("]", "cursor")


def _switches(snapshot: Snapshot) -> Iterable[tuple[float, str]]:
    for event in without_experiments(snapshot.events.of(PipelineSwitched)):
        yield event.at_ns / 1e9, KNOBS[event.knob].key


def _epochs(snapshot: Snapshot, columns: int, *, has_row: bool) -> Iterable[tuple[float, str]]:
    """Return round numbers of epochs at their starts, far enough apart to be read.

    has_row: they have a row of their own, which begins with the word; else more numbers, of which
    those show that have room between the other marks.
    """
    started = snapshot.events.of(EpochStarted)
    every = next(
        n * 10**power
        for power in range(9)
        for n in (1, 2, 5)
        if n * 10**power * columns
        >= len(started) * (_EPOCH_COLUMNS if has_row else _EPOCH_COLUMNS // 4)
    )
    for event in started:
        if event.epoch and (event.epoch + 1) % every == 0:
            yield event.at_ns / 1e9, str(event.epoch + 1)
        elif has_row and not event.epoch:
            yield event.at_ns / 1e9, "epoch 1"
