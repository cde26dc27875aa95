"""The app with a canned run, and the text of its screen."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot
from textual.screen import Screen

from tests.runs.requested import AskedTuner, SentRequests
from tests.screens.canned import Canned
from tfwatch.app import TfwatchApp
from tfwatch.judge.event_rows import EventCollector
from tfwatch.judge.view import RunView
from tfwatch.runs.run import Run
from tfwatch.screens.live.header import RunHeader
from tfwatch.screens.live.pipeline import PipelinePane
from tfwatch.screens.live.screen import LiveScreen
from tfwatch.screens.overlays import Leave


class Shown:
    """A running app; `frame` draws the run's current state."""

    def __init__(
        self,
        app: TfwatchApp,
        pilot: Pilot[Leave],
        run: Canned,
        control: SentRequests | None,
        tuner: AskedTuner,
    ) -> None:
        self.app = app
        self.pilot = pilot
        self.run = run
        self.control = control
        self.tuner = tuner

    @property
    def live(self) -> LiveScreen:
        """The live screen, also below another screen."""
        return next(screen for screen in self.app.screen_stack if isinstance(screen, LiveScreen))

    async def frame(self) -> None:
        """Draw the run's current state."""
        self.run.writer.flush()
        self.app.frame()
        await self.pilot.pause()

    async def look_at(self, view: RunView) -> None:
        """Draw another run in place of this one: a new app would take several times as long."""
        live = self.live
        for pane in (
            live.header,
            live.machine,
            live.knobs,
            live.pipeline,
            live.curves,
        ):
            pane._shown = ()  # else it waits for the next second
        live.events_pane._collector = EventCollector()
        live.show(view)
        await self.pilot.pause()

    async def resize(self, size: tuple[int, int]) -> None:
        """Resize the window and draw: a new app would take several times as long."""
        await self.pilot.resize_terminal(*size)
        await self.frame()

    async def press(self, *keys: str) -> None:
        """Press keys, two seconds between them, and draw."""
        for key in keys:
            self.run.at_s += 2.0
            self.run.writer.flush()
            await self.pilot.press(key)
        await self.frame()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds, at most a hundred rounds."""
        for _ in range(100):
            if condition():
                return
            await self.pilot.pause()
        raise AssertionError("it never came to hold")

    def asked(self) -> list[tuple[str, object]]:
        """Return the requests to the training since the last call."""
        assert self.control is not None
        return [(request.knob, request.value) for request in self.control.take()]

    @property
    def rows(self) -> list[str]:
        """The rows of the screen."""
        return rows_of(self.app.screen)

    @property
    def text(self) -> str:
        """The text of the screen."""
        return "\n".join(self.rows)

    @property
    def words(self) -> str:
        """The text of the screen with single spaces."""
        return " ".join(self.text.split())


def header_of(view: RunView, width: int = 200) -> str:
    """Return the header of a run with single spaces."""
    header = RunHeader()
    header.view = view
    return " ".join(header.rows(width, 1)[0].plain.split())


def pipeline_of(view: RunView, width: int = 60, height: int = 12) -> list[str]:
    """Return the rows of the pane of the input pipeline."""
    pane = PipelinePane()
    pane.view = view
    return [row.plain for row in pane.rows(width, height)]


def rows_of(screen: Screen[Any]) -> list[str]:
    """Return the rows of a screen as text."""
    return [
        "".join(segment.text for segment in strip) for strip in screen._compositor.render_strips()
    ]


@asynccontextmanager
async def shown(
    run: Canned,
    size: tuple[int, int] = (120, 40),
    *,
    live: bool = True,
    notifies: bool = False,
    reader: Run | None = None,
    **options: Any,
) -> AsyncIterator[Shown]:
    """Show a run. live: keys reach its training. notifies: messages are drawn. reader: None reads
    in its process."""
    control, tuner = SentRequests() if live else None, AskedTuner()
    shown_by: dict[str, Any] = {"tuner": tuner if live else None, "clock": run.clock, **options}
    app = TfwatchApp(reader or run.reader(), control, **shown_by)
    # The test draws the frames: the app's own timer would draw one in the middle of a key press.
    with patch("tfwatch.app.FRAME_S", 3600.0):
        async with app.run_test(size=size, notifications=notifies) as pilot:
            await pilot.pause()
            show = Shown(app, pilot, run, control, tuner)
            await show.frame()
            yield show
