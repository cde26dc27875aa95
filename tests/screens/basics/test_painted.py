"""The rows that a change repaints, and the rows it does not."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from textual.app import App, ComposeResult

from tests.judge.test_view import look
from tests.screens.states import starving
from tfwatch.screens.basics.pane import FramedPane, Pane
from tfwatch.screens.live.knobs import KnobRow, KnobsPane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rich.segment import Segment
    from textual.geometry import Region
    from textual.pilot import Pilot
    from textual.strip import Strip


class PaneApp(App[None]):
    CSS = "Pane { height: 6; }"

    def __init__(self, pane: Pane) -> None:
        super().__init__()
        self.pane = pane
        #: The rows that Textual painted, edges and all.
        self.by_textual: list[Region] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        paint = self.pane._styles_cache.render_widget

        def counted(widget: Pane, crop: Region) -> list[Strip]:
            self.by_textual.append(crop)
            return paint(widget, crop)

        self.pane._styles_cache.render_widget = counted  # type: ignore[method-assign,assignment]

    @property
    def text(self) -> str:
        return "\n".join(
            strip.text for strip in self.pane.render_lines(self.pane.region.size.region)
        )


def set_knob(pane: Pane, text: str) -> None:
    assert isinstance(pane, KnobsPane)
    pane.view, pane.knobs = look(starving(None)), (KnobRow("p", "prefetch", "off", "4", text),)
    pane.repaint_rows()


async def test_new_text_is_painted_without_the_frame_around_it() -> None:
    app = PaneApp(KnobsPane())
    async with app.run_test(size=(60, 8)) as pilot:
        set_knob(app.pane, "before")
        await pilot.pause()
        assert "before" in app.text
        app.by_textual.clear()

        set_knob(app.pane, "after")
        await pilot.pause()

        assert "after" in app.text
        assert not app.by_textual


@asynccontextmanager
async def knobs() -> AsyncIterator[tuple[PaneApp, KnobsPane, Pilot[None]]]:
    """A painted pane of one knob."""
    pane = KnobsPane()
    app = PaneApp(pane)
    async with app.run_test(size=(60, 8)) as pilot:
        set_knob(pane, "words")
        await pilot.pause()
        yield app, pane, pilot


def painted(pane: Pane) -> list[list[Segment]]:
    return [strip._segments for strip in pane.render_lines(pane.region.size.region)]


async def test_a_new_title_and_another_theme_are_painted() -> None:
    async with knobs() as (app, pane, pilot):
        before = painted(pane)
        pane.set_titles("another title", "a note")
        await pilot.pause()
        assert isinstance(pane, FramedPane)
        assert "another title" in app.text
        assert "a note" in app.text

        app.theme = "textual-light" if app.theme != "textual-light" else "textual-dark"
        await pilot.pause()
        after = painted(pane)
        pane._edges = None
        pane.refresh()
        repainted = painted(pane)
    assert all(old != new for old, new in zip(before, after, strict=True))
    assert after == repainted
