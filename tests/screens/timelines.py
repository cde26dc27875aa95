"""An app with a timeline, and the text of its rows."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.screens.runs import WALL_NS, CannedRun
from tfwatch.core.clock import local_time
from tfwatch.judge.event_rows import EventCollector
from tfwatch.judge.view import Follower
from tfwatch.screens.basics.glyphs import choose_glyphs
from tfwatch.screens.live.timeline.widget import KEYS, Timeline
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.app import ComposeResult
    from textual.pilot import Pilot

    from tfwatch.runs.snapshot import Snapshot
    from tfwatch.screens.overlays import Leave

ASCII = choose_glyphs(colour=False, unicode=False)
STARVED, COMPUTE_BOUND = (10.0, 1.0, 13.0), (0.2, 1.0, 13.0)


class TimelineApp(ThemedApp):
    CSS = "Timeline { height: 1fr; }"
    BINDINGS = [replace(key, action=f"timeline({key.action!r})") for key in KEYS]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        yield Timeline()

    @property
    def timeline(self) -> Timeline:
        return self.query_one(Timeline)

    async def action_timeline(self, action: str) -> None:
        await self.timeline.run_action(action)


@asynccontextmanager
async def shown(
    run: CannedRun, width: int = 80, height: int = 12
) -> AsyncIterator[tuple[TimelineApp, Pilot[Leave]]]:
    app = TimelineApp(unicode=False)
    async with app.run_test(size=(width, height)) as pilot:
        app.timeline.glyphs = ASCII
        show(app.timeline, run.snapshot())
        await pilot.pause()
        yield app, pilot


def show(timeline: Timeline, snapshot: Snapshot) -> None:
    """Show a frame as the live screen does."""
    view = Follower(live=True).follow(snapshot, (), None)
    timeline.show(view, EventCollector().take(view))


def rows(timeline: Timeline) -> list[str]:
    return [timeline.render_line(y).text.rstrip() for y in range(timeline.size.height)]


def title(timeline: Timeline) -> str:
    return " ... ".join(timeline._titles)


def time_of_day(at_s: float) -> str:
    return local_time(WALL_NS + round(at_s * 1e9)).strftime("%H:%M:%S")
