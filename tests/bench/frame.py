"""What a frame of the live screen costs in CPU, over a run of 10 000 steps. Run: python -m tests.bench.frame"""

from __future__ import annotations

import asyncio
import statistics
import sys

from tests.screens.canned import FED, Canned, usual
from tests.screens.showing import Shown, shown
from tfwatch.core.clock import SYSTEM
from tfwatch.core.rows import Phase

SIZES = ((80, 24), (120, 40), (200, 60))
FRAMES = 100
_WARM_UP = 10


async def frames_ms(size: tuple[int, int]) -> list[float]:
    """CPU of the drawing thread for each frame, ms: reading, judging, and every cell drawn."""
    run = usual(None).steps(9_550, FED)
    async with shown(run, size) as show:
        return [await _frame_ms(show, run) for _ in range(FRAMES)][_WARM_UP:]


async def _frame_ms(show: Shown, run: Canned) -> float:
    run.steps(18, FED).sample().doing(Phase.COMPUTE, 0.004).writer.flush()
    began = SYSTEM.thread_ns()
    await show.frame()
    return (SYSTEM.thread_ns() - began) / 1e6


def main() -> None:
    """Print a table."""
    for size in SIZES:
        costs = asyncio.run(frames_ms(size))
        p95 = statistics.quantiles(costs, n=20)[-1]
        sys.stdout.write(f"{size[0]}x{size[1]}: median {statistics.median(costs):.1f} ms, p95 {p95:.1f} ms\n")


if __name__ == "__main__":
    main()
