"""A real training under the live screen, for the pictures of this folder."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.app import TfwatchApp
from tfwatch.cli.script.hosts import ScriptProcess
from tfwatch.cli.script.request import RunOptions
from tfwatch.cli.script.run import script_command
from tfwatch.core.clock import SYSTEM
from tfwatch.runs.run import Run
from tfwatch.runs.script_process import AwaitedRun
from tfwatch.terminal.pseudo_terminal import OutputRelay
from tfwatch.workloads import script_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

STORAGE_MS = 20.0
#: Size of a cell, and the place of the first one, in the SVG images that Rich makes.
CELL_X, CELL_Y, LEFT, TOP = 12.2, 24.4, 9, 41


class LiveRun:
    """The screen of a training that runs: its keys and its pictures."""

    def __init__(self, pilot: Pilot[Any], app: TfwatchApp) -> None:
        self.pilot = pilot
        self._app = app

    async def wait_for_step(self, steps: int) -> None:
        """Wait until this many steps are completed."""
        while self._app.live.view is None or self._app.live.view.snapshot.steps_total < steps:
            await asyncio.sleep(0.1)

    async def press(self, key: str) -> None:
        """Press a key."""
        await self.pilot.press(key)

    def screenshot(self, title: str) -> str:
        """The screen as an SVG image."""
        return self.pilot.app.export_screenshot(title=title, simplify=True)


@asynccontextmanager
async def live_run(size: tuple[int, int]) -> AsyncIterator[LiveRun]:
    """Train `cnn` with simulated storage latency under a screen of this size."""
    with tempfile.TemporaryDirectory() as name, closing(OutputRelay()) as relay:
        words = [str(script_of("cnn")), "--seed", "1", "--storage-latency", str(STORAGE_MS)]
        options = RunOptions(words, Path(name) / "runs", headless=False, is_workload=True)
        command = script_command(options, relay.runs, relay.for_script)
        script = ScriptProcess(command, relay, set())
        script.start()
        reader = Run(AwaitedRun("cnn", script.pid, relay.early_log, SYSTEM), SYSTEM)
        app = TfwatchApp(reader, None, script=script)
        async with app.run_test(size=size) as pilot:
            yield LiveRun(pilot, app)
        script.interrupt()
        script.wait(60)
