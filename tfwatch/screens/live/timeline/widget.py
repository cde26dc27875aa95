"""The timeline: each step's data wait, host and compute over time, with marks and GPU lanes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tfwatch.screens.live.timeline import picture, window
from tfwatch.screens.live.timeline.lanes import labels_in_view
from tfwatch.screens.live.timeline.picture import lay_out
from tfwatch.screens.live.timeline.step_bars import next_top
from tfwatch.screens.pane import FRAME_CSS, PaintedRows, Titled
from tfwatch.screens.text import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.event_rows import EventRows
    from tfwatch.judge.view import RunView
    from tfwatch.runs.sums import TimeColumns
    from tfwatch.screens.live.timeline.lanes import Label, Line

_FULL = re.compile("(█+)")


class Timeline(PaintedRows, Titled):
    """The last seconds of a run, or any part of it, in columns of time."""

    DEFAULT_CSS = f"""
    Timeline {{ height: 15; {FRAME_CSS} &.-frozen {{ border-title-style: reverse; }} }}
    """

    def __init__(self, is_fine: bool) -> None:
        super().__init__()
        self._is_fine = is_fine
        self._newest: tuple[RunView, EventRows] | None = None
        self._held: tuple[RunView, EventRows] | None = None
        self._view = window.View()
        self._top_ms: float | None = None
        self._bars: TimeColumns | None = None
        self._seen: tuple[window.Zoom, float | None, int] | None = None
        self._labels: list[Label] = []
        self._labels_of: tuple[object, ...] = ()
        self._lines: list[Line] = []
        self._styles: dict[str, Style] = {}

    def show(self, view: RunView, rows: EventRows) -> None:
        """Draw a frame; a run that is over already opens whole. rows: its events."""
        if self._newest is None and view.is_over:
            self._view = window.View(window.Zoom.ALL)
        self._newest = view, rows
        self._redraw()

    @property
    def frozen(self) -> bool:
        """True while the charts are frozen."""
        return self._held is not None

    @property
    def _shown(self) -> RunView | None:
        shown = self._held or self._newest
        return shown[0] if shown else None

    @property
    def _columns(self) -> int:
        return lay_out(*self.size).columns

    # -- keys -----------------------------------------------------------------------------------

    def action_freeze(self) -> None:
        """Freeze the charts, or follow the run again."""
        if self._held:
            self.action_live()
        elif self._shown:
            self._freeze(window.frozen(self._shown.snapshot, self._view))

    def action_look(self, halves: int) -> None:
        """Freeze, and move by halves of the window, to the past where negative."""
        if self._shown:
            self._freeze(window.moved(self._shown.snapshot, self._view, self._columns, halves))

    def action_live(self) -> None:
        """Follow the run."""
        self._held, self._view = None, window.View(self._view.zoom)
        self._redraw(fresh=True)

    def action_zoom(self) -> None:
        """Zoom out; from the whole run to its seconds."""
        if self._shown:
            self._view = window.zoomed(self._shown.snapshot, self._view, self._columns)
            self._redraw(fresh=True)

    def jump_to(self, at_s: float) -> None:
        """Freeze with the moment `at_s`, seconds since the clock origin, in the middle; from the
        whole run its seconds are shown."""
        if self._shown:
            view = window.View() if self._view.zoom is window.Zoom.ALL else self._view
            self._freeze(window.around(self._shown.snapshot, view, self._columns, at_s))

    def _freeze(self, view: window.View) -> None:
        self._held, self._view = self._held or self._newest, view
        self._redraw(fresh=True)

    # -- drawing --------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Draw in the new size."""
        self._redraw(fresh=True)

    def notify_style_update(self) -> None:
        """Drop the colours of the old theme."""
        super().notify_style_update()
        self._styles.clear()

    def _redraw(self, fresh: bool = False) -> None:
        """Draw the rows and repaint those that changed. `fresh`: choose the axis' top without the
        last one."""
        shown, size = self._held or self._newest, self.size
        if shown is None or not size:
            return
        run, rows = shown
        bars = self._take_bars(run)
        self._top_ms = next_top(bars, None if fresh else self._top_ms) or self._top_ms
        labels_of = rows, float(bars.start_s[0]), bars.end_s
        if labels_of != self._labels_of:
            self._labels_of, self._labels = labels_of, labels_in_view(rows, bars)
        self.set_titles(self._title(run, bars), "z zoom  ← → look back")
        self.set_class(self.frozen, "-frozen")
        self._lines = picture.draw(
            run, bars, self._labels, self._top_ms, size, is_fine=self._is_fine
        )
        self.repaint_changed(self._lines)

    def _take_bars(self, run: RunView) -> TimeColumns:
        columns = self._columns
        # The sums still grow while the picture is frozen: its newest column would fill up.
        seen = (self._view.zoom, self._view.end_s, columns) if self._held else None
        if seen is None or seen != self._seen or self._bars is None:
            self._seen, self._bars = seen, window.bars_in_view(run.snapshot, self._view, columns)
        return self._bars

    def _title(self, run: RunView, bars: TimeColumns) -> str:
        if not self._held or not self._newest:
            return window.span_words(run.snapshot, self._view, len(bars.start_s))
        at = clock(run.snapshot, min(run.snapshot.now_s, bars.end_s))
        return f"FROZEN at {at}, space: {'end' if self._newest[0].is_over else 'live'}"

    def render_line(self, y: int) -> Strip:
        """Draw row `y`, cut to the widget's width."""
        line, width = self._lines[y] if y < len(self._lines) else (), self.size.width
        segments = [segment for piece in line for segment in self._segments(*piece)]
        room = width - sum([cell_len(segment.text) for segment in segments])
        if room < 0:
            return Strip(segments, width - room).crop(0, width)
        return Strip([*segments, Segment(" " * room, self._style(""))] if room else segments, width)

    def _segments(self, text: str, style: str) -> Iterator[Segment]:
        """Yield a piece in its colours; with fine cells full blocks are background colour, which
        has no seams in any font."""
        if not self._is_fine or "█" not in text:
            yield Segment(text, self._style(style))
            return
        behind = Style(bgcolor=self._style(style).color)
        for piece in filter(None, _FULL.split(text)):
            full = piece[0] == "█"
            yield Segment(" " * len(piece), behind) if full else Segment(piece, self._style(style))

    def _style(self, text: str) -> Style:
        if text not in self._styles:
            parsed = self.app.stylesheet.parse_style(text)
            self._styles[text] = (self.visual_style + parsed).rich_style
        return self._styles[text]
