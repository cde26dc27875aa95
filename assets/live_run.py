"""A real training under the live screen, for the pictures of this folder."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.app import TfwatchApp
from tfwatch.core.knobs import Knobs, describe
from tfwatch.runs.control.requests import Control
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.reader import RunReader
from tfwatch.sensors.runner import Sensors
from tfwatch.training.request import Plan
from tfwatch.training.trainer import Trainer
from tfwatch.workloads.registry import WORKLOADS
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

LATENCY_MS = 20.0
#: Size of a cell, and the place of the first one, in the SVG images that Rich makes.
CELL_X, CELL_Y, LEFT, TOP = 12.2, 24.4, 9, 41


class LiveRun:
    """The screen of a training that runs: its keys and its pictures."""

    def __init__(self, pilot: Pilot[Any], reader: RunReader) -> None:
        self.pilot = pilot
        self._reader = reader

    async def wait_for_step(self, steps: int) -> None:
        """Wait until this many steps are completed."""
        while self._reader.tail().steps_total < steps:
            await asyncio.sleep(0.1)

    async def press(self, key: str) -> None:
        """Press a key."""
        await self.pilot.press(key)

    def screenshot(self, title: str) -> str:
        """The screen as an SVG image."""
        return self.pilot.app.export_screenshot(title=title, simplify=True)


@asynccontextmanager
async def live_run(size: tuple[int, int]) -> AsyncIterator[LiveRun]:
    """Train `cnn` with simulated storage latency, prefetch and workers off, under a screen of this size."""
    knobs = Knobs(latency_ms=LATENCY_MS)
    with tempfile.TemporaryDirectory() as folder:
        writer, _ = begin_run(
            Path(folder),
            "cnn",
            knobs={
                name: value for name, value in describe(knobs).items() if WORKLOADS["cnn"].has(name)
            },
            switchable=["prefetch", "workers", "latency_ms", "cache", "shuffle"],
            settings={"storage_latency_ms": LATENCY_MS},
            batch_size=32,
        )
        control = Control(knobs)
        trainer = Trainer(Plan("cnn", Settings(seed=1), knobs), writer, control)
        sensors = Sensors(writer)
        sensors.start()
        app = TfwatchApp(RunReader(writer), control, painted=trainer.start)
        async with app.run_test(size=size) as pilot:
            yield LiveRun(pilot, RunReader(writer))
        control.stop.set()
        trainer.done.wait(60)
        sensors.stop()
        writer.close()
