"""The timeline: each step's data wait, host and compute over time, with marks and GPU lanes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.style import Style as ContentStyle

from tfwatch.core.clock import Slot, second_of
from tfwatch.judge.steps.causes import RunningLimits
from tfwatch.screens.basics.glyphs import Glyphs, choose_glyphs
from tfwatch.screens.basics.pane import PaintedRows
from tfwatch.screens.live.timeline import picture
from tfwatch.screens.live.timeline import window as views
from tfwatch.screens.live.timeline.gpu_lane import sampled
from tfwatch.screens.live.timeline.legend import Figures, figures_in_view, figures_of
from tfwatch.screens.live.timeline.marks import runs
from tfwatch.screens.live.timeline.painting import Painter
from tfwatch.screens.live.timeline.picture import GUTTER, Scene, lay_out
from tfwatch.screens.live.timeline.step_bars import next_top

if TYPE_CHECKING:
    from textual import events
    from textual.binding import BindingType
    from textual.strip import Strip

    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.live.timeline.painting import Line
    from tfwatch.screens.live.timeline.picture import TimelineLayout
    from tfwatch.screens.live.timeline.step_bars import Bars

LOOK = Binding.Group("view")


def _key(keys: str, action: str, does: str) -> Binding:
    shown = keys.partition(",")[0]
    return Binding(keys, action, does, key_display=shown, tooltip=does, group=LOOK, show=False)


#: The live screen binds the same keys, wherever the focus is.
KEYS = (
    _key("space", "freeze", "freeze the charts, or follow again"),
    _key("left", "look(-1)", "move back by a column"),
    _key("right", "look(1)", "move forward by a column"),
    _key("pageup", "page(-1)", "move back by the width of the chart"),
    _key("pagedown", "page(1)", "move forward by the width of the chart"),
    _key("home", "home", "go to the start of the run"),
    _key("end", "live", "follow the run again"),
    _key("z", "zoom(1)", "zoom out, up to the whole run"),
    _key("Z,upper_z", "zoom(-1)", "zoom in"),
)
_NO_FIGURES = Figures()
#: Messages of keys without effect.
_MOST, _LEAST = "the whole run is shown: Z zooms in", "a column is a quarter second: z zooms out"
_OLDEST, _NEWEST = "this is the start of the run", "this is the newest step: end follows the run"


class Timeline(PaintedRows, can_focus=True):
    """The last seconds of a run, or any part of it, in columns of time."""

    DEFAULT_CSS = """
    Timeline {
        height: 15;
        border: round $foreground 30%;
        border-title-color: $foreground 80%;
        border-title-style: bold;
        &:focus { border: round $accent; }
        &.-plain { border: ascii $foreground 30%; }
        &.-plain:focus { border: ascii $accent; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS]

    @dataclass
    class Frozen(Message):
        """The charts were frozen, or follow the run again; `at_s` is None where they follow."""

        timeline: Timeline
        at_s: float | None

        @property
        def control(self) -> Timeline:
            """The sender."""
            return self.timeline

    @dataclass
    class Unmoved(Message):
        """A key had no effect, and why."""

        why: str

    #: The run; assign a new one for each frame.
    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)
    #: The characters to draw with.
    glyphs: reactive[Glyphs] = reactive(choose_glyphs(colour=True, unicode=True), repaint=False)
    #: Draw fewer rows, for small screens.
    compact: reactive[bool] = reactive(False, repaint=False)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        #: The breakdown of its newest steady steps; assign it before the snapshot.
        self.split: Breakdown | None = None
        self._held: Snapshot | None = None
        self._view = views.View()
        self._hover: int | None = None
        self._top_ms: float | None = None
        self._bars: Bars | None = None
        self._seen: tuple[views.Zoom, float | None, int] | None = None
        self._figures = _NO_FIGURES
        self._figures_of: tuple[int, bool] | None = None
        self._lines: list[Line] = []
        self._painter = Painter(self)
        self._limits = RunningLimits()
        self._titles_key: tuple[str, str, bool, int] | None = None

    @property
    def frozen(self) -> bool:
        """True while the charts are frozen."""
        return self._held is not None

    # -- keys -----------------------------------------------------------------------------------

    def action_freeze(self) -> None:
        """Freeze the charts, or follow the run again."""
        if self._held:
            self.action_live()
        elif self.snapshot:
            self._freeze(views.frozen(self.snapshot, self._view))

    def action_look(self, columns: int) -> None:
        """Freeze, and move the cursor by `columns`, to the past where negative."""
        shown, bars = self._shown, self._bars
        if shown and bars:
            self._seek(
                views.moved(shown, self._view, bars, columns), _OLDEST if columns < 0 else _NEWEST
            )

    def action_page(self, pages: int) -> None:
        """Freeze, and move by the width of the chart, to the past where negative."""
        if self._shown:
            view = views.paged(self._shown, self._view, self._layout.columns, pages)
            self._seek(view, _OLDEST if pages < 0 else _NEWEST)

    def action_home(self) -> None:
        """Freeze at the start of the run."""
        if self._shown:
            self._seek(views.at_home(self._shown, self._view, self._layout.columns), _OLDEST)

    def action_live(self) -> None:
        """Follow the run."""
        was_frozen, self._held = self.frozen, None
        self._view = views.View(self._view.zoom)
        self._redraw(fresh=True)
        self.post_message(
            self.Frozen(self, None) if was_frozen else self.Unmoved("the charts follow the run")
        )

    def action_zoom(self, direction: int) -> None:
        """Zoom out, or in where `direction` is negative."""
        if self._shown:
            before = self._view.zoom
            self._view = views.zoomed(self._shown, self._view, self._layout.columns, direction)
            if self._view.zoom is before:
                self.post_message(self.Unmoved(_MOST if direction > 0 else _LEAST))
            self._redraw(fresh=True)

    def jump_to(self, at_s: float, most: views.Zoom = views.Zoom.ALL) -> None:
        """Freeze with the moment `at_s`, seconds since the clock origin, in the middle, zoomed out
        no further than `most`."""
        if self._shown:
            view = replace(self._view, zoom=min(self._view.zoom, most))
            self._freeze(views.around(self._shown, view, self._layout.columns, at_s))

    def _seek(self, view: views.View, end: str) -> None:
        """Freeze at a view; post `end` as the reason where it is the current view."""
        if self.frozen and view == self._view:
            self.post_message(self.Unmoved(end))
        self._freeze(view)

    def _freeze(self, view: views.View) -> None:
        was_frozen, self._view = self.frozen, view
        self._held = self._held or self.snapshot
        self._redraw(fresh=True)
        if not was_frozen:
            self.post_message(self.Frozen(self, self._held.now_s if self._held else None))

    # -- the mouse ------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Freeze and show the figures of a column."""
        column = self._column_at(event)
        if column is not None and self._shown and self._bars:
            at_s = float(self._bars.starts_s[column])
            self._freeze(replace(views.frozen(self._shown, self._view), cursor_s=at_s))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show the figures of the column below the pointer."""
        column = self._column_at(event)
        if column != self._hover:
            self._hover = column
            self._redraw()

    def on_leave(self) -> None:
        """Hide the figures of the column."""
        self._hover = None
        self._redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in."""
        event.stop()
        self.action_zoom(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out."""
        event.stop()
        self.action_zoom(1)

    def _column_at(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        column = offset.x - GUTTER if offset else -1
        return column if 0 <= column < self._layout.columns else None

    # -- drawing --------------------------------------------------------------------------------

    def watch_snapshot(self, old: Snapshot | None, new: Snapshot | None) -> None:
        """Draw the new frame; a run that is over already opens whole."""
        if old is None and new is not None and new.life.is_over:
            self._view = views.View(views.Zoom.ALL)
        self._redraw()

    def watch_glyphs(self, glyphs: Glyphs) -> None:
        """Draw with other characters."""
        self.set_class(not glyphs.unicode, "-plain")
        self._painter.fine = glyphs.fine
        self._redraw(fresh=True)

    def watch_compact(self) -> None:
        """Draw the rows of a small or a large screen."""
        self._redraw(fresh=True)

    def on_resize(self) -> None:
        """Draw in the new size."""
        self._redraw(fresh=True)

    def notify_style_update(self) -> None:
        """Drop the colours of the old theme."""
        super().notify_style_update()
        self._painter.forget()
        self._titles_key = None

    @property
    def _shown(self) -> Snapshot | None:
        return self._held or self.snapshot

    @property
    def _layout(self) -> TimelineLayout:
        return lay_out(*self.size, self.compact)

    def _redraw(self, fresh: bool = False) -> None:
        """Draw the rows and repaint those that changed. `fresh`: choose the axis' top without the
        last one."""
        shown, size = self._shown, self.size
        if shown is None or not size:
            return
        layout = lay_out(*size, self.compact)
        # The sums still grow while the picture is frozen: its newest column would fill up.
        seen = (self._view.zoom, self._view.end_s, layout.columns) if self._held else None
        if seen is None or seen != self._seen or self._bars is None:
            self._seen, self._bars = seen, views.bars_in_view(shown, self._view, layout.columns)
        self._top_ms = next_top(self._bars, None if fresh else self._top_ms) or self._top_ms
        self._update_figures(shown)
        scene = self._scene(shown, self._bars)
        self._set_titles(scene, layout)
        gpus = 0 if scene.sampled.busy is None else max(len(scene.figures.gpus), 1)
        layout = lay_out(*size, self.compact, gpus)
        self._show(picture.draw(scene, layout)[: size.height], size.width)

    def _scene(self, shown: Snapshot, bars: Bars) -> Scene:
        cursor = self._hover
        if cursor is None and self._view.cursor_s is not None:
            cursor = views.column_of(bars, self._view.cursor_s)
        inside = cursor if cursor is not None and cursor < len(bars.starts_s) else None
        limits, figures = self._limits.take(shown.events), self._figures
        seen = sampled(shown, bars, has_gpu=figures.has_gpu)
        now = shown, self._view, bars, seen, limits, self._top_ms, self.glyphs
        scene = Scene(*now, figures, inside)
        if scene.has_own_figures:
            scene = replace(scene, figures=figures_in_view(figures, shown, bars))
        return scene

    def _update_figures(self, shown: Snapshot) -> None:
        """Update the figures once a second, and with the first steps, but not while the picture is
        frozen."""
        due = second_of(shown.now_s, Slot.MACHINE), self.split is None
        if self._figures_of is None or (due != self._figures_of and not self._held):
            self._figures_of = due
            self._figures = figures_of(shown, self.split)

    def _show(self, lines: list[Line], width: int) -> None:
        before, self._lines = self._lines, lines
        if len(lines) != len(before):
            self.refresh()
            return
        changed = runs(np.array([line != old for line, old in zip(lines, before, strict=True)]))
        if changed:
            self.refresh(*(Region(0, first, width, end - first) for first, end in changed))

    def row_key(self, y: int) -> Line | None:
        """Return row `y`; None below the last row."""
        return self._lines[y] if y < len(self._lines) else None

    def render_line(self, y: int) -> Strip:
        """Draw row `y`, cut to the widget's width."""
        return self._painter.strip(self.row_key(y) or (), self.size.width)

    # -- the frame's titles -----------------------------------------------------------------------

    def _set_titles(self, scene: Scene, layout: TimelineLayout) -> None:
        width = self.outer_size.width - 6
        live = self.snapshot if self._held else None
        left, right = picture.title_words(scene, live, layout.columns, width)
        key = (left, right, self.frozen, width)
        if key == self._titles_key:
            return
        self._titles_key = key
        edge = ContentStyle(foreground=self.styles.border_top[1])
        fill = self.glyphs.rule * max(width - len(left) - len(right) - 2, 0)
        words = Content.styled(left, "reverse" if self.frozen else "")
        between = Content.styled(f" {fill} " if right else "", edge)
        self.border_title = Content.assemble(words, between, Content.styled(right, "not bold"))
