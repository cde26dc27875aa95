"""Writes the screenshots of this folder from a real run: `python assets/make.py` (about a minute).

Trains the cnn workload with simulated storage latency, turns prefetch and then workers on by their keys, and
photographs the live screen at three sizes once the comparison has settled.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

from tfwatch.app import TfwatchApp
from tfwatch.core.knobs import Knobs, describe
from tfwatch.runs.control import Control
from tfwatch.runs.create import begin_run
from tfwatch.runs.reader import RunReader
from tfwatch.sensors.runner import Sensors
from tfwatch.training.request import Plan
from tfwatch.training.trainer import Trainer
from tfwatch.workloads.workload import Settings

HERE = Path(__file__).parent
SIZES = ((120, 40), (80, 24), (200, 60))
#: Each key, and the steps that are done when it is pressed; the pictures are taken at the last number.
KEYS, DONE = (("p", 180), ("w", 300)), 420


async def main() -> None:
    """Train, press the key, take the pictures."""
    knobs = Knobs(latency_ms=20.0)
    with tempfile.TemporaryDirectory() as folder:
        writer, _ = begin_run(
            Path(folder),
            "cnn",
            knobs={name: value for name, value in describe(knobs).items() if name != "fast_form"},
            switchable=["prefetch", "workers", "latency_ms", "cache", "shuffle"],
            settings={"storage_latency_ms": 20.0},
            batch_size=32,
        )
        control = Control(knobs)
        trainer = Trainer(Plan("cnn", Settings(seed=1), knobs), writer, control)
        sensors = Sensors(writer)
        sensors.start()
        app, counted = TfwatchApp(RunReader(writer), control, painted=trainer.start), RunReader(writer)
        async with app.run_test(size=SIZES[0]) as pilot:
            for key, steps in KEYS:
                await _until(counted, steps)
                await pilot.press(key)
            await _until(counted, DONE)
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                await asyncio.sleep(1)
                _save(app.export_screenshot(title=f"tfwatch train cnn, {width} x {height}"), width, height)
        control.stop.set()
        trainer.done.wait(60)
        sensors.stop()
        writer.close()


async def _until(reader: RunReader, steps: int) -> None:
    """Wait until so many steps are done."""
    while reader.tail().steps_total < steps:
        await asyncio.sleep(0.1)


def _save(svg: str, width: int, height: int) -> None:
    """Write a picture without its links to fonts on the web."""
    text = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    (HERE / f"live-{width}x{height}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
