"""The cost of tfwatch on this machine: of Watch for a step, and of the live screen for a frame, without a tolerance."""

from __future__ import annotations

import asyncio
import os
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import EpochStarted
from tfwatch.core.knobs import PREFETCH
from tfwatch.core.rows import Phase
from tfwatch.runs.format import Manifest
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.writer import RunWriter

if TYPE_CHECKING:
    from pathlib import Path

_ROUNDS, _STEPS = 8, 200
_SIZE = (120, 40)
_FRAMES, _WARM_UP = 60, 10
#: The run on the screen: its steps at the start, their time, and the steps between two frames.
_FIRST_STEPS, _STEP_MS, _STEPS_A_FRAME = 9_000, 13.9, 18


@dataclass(frozen=True, slots=True)
class WatchCost:
    """The cost of Watch, as medians over the rounds.

    ratio: step time with Watch over that without. added_us: the difference. step_ms: the step time without Watch.
    noise: the difference of two runs without Watch, as a share.
    """

    ratio: float
    added_us: float
    step_ms: float
    noise: float


@dataclass(frozen=True, slots=True)
class FrameCost:
    """The CPU time of the drawing thread for a frame at 120x40, without the terminal's own."""

    median_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of Watch and of a frame."""

    watch: WatchCost
    frame: FrameCost

    @property
    def sentences(self) -> tuple[str, str]:
        """One sentence for each."""
        watch, frame = self.watch, self.frame
        added = f"{watch.added_us:+.0f} us of {watch.step_ms:.2f} ms"
        noise = f"two runs without it differ by {watch.noise:.3f}"
        drawn = f"{frame.median_ms:.1f} ms of CPU time per frame at 120x40, 95 % of frames below {frame.p95_ms:.1f} ms"
        return (
            f"Watch: a step takes {watch.ratio:.3f} of its time without Watch ({added}; {noise})",
            f"live screen: {drawn}, 4 frames/s",
        )


def find_costs(runs_dir: Path) -> Costs:
    """Measure the cost of Watch and of a frame."""
    return Costs(watch_cost(runs_dir), asyncio.run(_frame_cost(runs_dir)))


def watch_cost(runs_dir: Path) -> WatchCost:
    """Train with and without Watch, interleaved."""
    from tfwatch.checks.watch_cost import rounds_ms

    rows = rounds_ms(runs_dir, _ROUNDS, _STEPS)
    return WatchCost(
        ratio=statistics.median(row["watched"] / row["bare"] for row in rows),
        added_us=statistics.median((row["watched"] - row["bare"]) * 1e3 for row in rows),
        step_ms=statistics.median(row["bare"] for row in rows),
        noise=statistics.median(abs(row["bare again"] / row["bare"] - 1) for row in rows),
    )


async def _frame_cost(runs_dir: Path) -> FrameCost:
    """Draw frames of a growing run, without a terminal."""
    from tfwatch.app import TfwatchApp
    from tfwatch.runs.requests import RequestSender

    run = _GrowingRun(runs_dir / "frames")
    run.advance(_FIRST_STEPS)
    app = TfwatchApp(
        RunReader(RunFolder(run.folder), run.clock), RequestSender(lambda: None), clock=run.clock
    )
    costs_ms = []
    async with app.run_test(size=_SIZE) as pilot:
        for _ in range(_WARM_UP + _FRAMES):
            run.advance(_STEPS_A_FRAME)
            began_ns = SYSTEM.thread_ns()
            app.live.frame()
            await pilot.pause()
            costs_ms.append((SYSTEM.thread_ns() - began_ns) / 1e6)
    costs_ms = costs_ms[_WARM_UP:]
    return FrameCost(statistics.median(costs_ms), statistics.quantiles(costs_ms, n=20)[-1])


class _GrowingRun:
    """A run whose steps drive its clock."""

    def __init__(self, folder: Path) -> None:
        self._at_ns = 0
        self._step = 0
        self.folder = folder
        self.clock = Clock(
            now_ns=lambda: self._at_ns, wall_ns=lambda: self._at_ns, thread_ns=lambda: 0
        )
        manifest = Manifest(
            "selftest", "selftest", 0, 0, os.getpid(), 0.0, "", knobs={PREFETCH: "off"}
        )
        folder.mkdir(parents=True)
        self.writer = RunWriter(folder, manifest, self.clock)
        self.writer.event(EpochStarted(0, 0, 1, None))

    def advance(self, steps: int) -> None:
        """Add steps, half of which wait for data."""
        for _ in range(steps):
            self._step += 1
            wait_ms = 4.0 if self._step // 500 % 2 else 0.2
            self.writer.step(
                self._at_ns, self._step, 0, 0, wait_ms, 2.0, _STEP_MS - 1.0 - wait_ms, 1.0
            )
            self._at_ns += round(_STEP_MS * 1e6)
        self.writer.status = (Phase.COMPUTE, self._at_ns, self._step + 1, 0, "")
        self.writer.progress.append((32 * self._step, self._step, 0, self._step, 0.5, 0.9))
        self.writer.sample(self._at_ns, {"cpu_cores": 1.6, "own_cores": 0.01})
        self.writer.flush()
