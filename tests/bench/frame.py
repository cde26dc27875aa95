"""The CPU time of a frame of the live screen, at several sizes, and after a thousand and a million
steps.

    python -m tests.bench.frame [--sizes 80x24,120x40,200x60] [--steps 1000,100000,1000000]
    [--frames 100]

Shows a synthetic, growing run with steps, samples, pauses and epochs on a pseudo terminal. The cost
of a frame is all CPU time of the process from one frame to the next: reading, analysis, and every
cell drawn and sent.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench.long_run import MeasuredApp
from tests.bench.terminal import run_on_terminal
from tests.screens.canned import COMPUTE_BOUND, PREFETCHED, STAGES, STARVING, Canned, usual
from tfwatch.core import events as facts
from tfwatch.core.rows import Phase
from tfwatch.runs.requests import RequestSender

#: Steps of 13.9 ms in a quarter second.
STEPS_A_FRAME = 18
EPOCH, PAUSE_EVERY, SAMPLE_EVERY, STAGES_EVERY = 250, 500, 36, 72
#: The first frames build the screen.
WARM_UP = 15


def advance(run: Canned, count: int) -> None:
    """Add steps, with the events of a training."""
    for _ in range(count):
        run.steps(1, COMPUTE_BOUND if run.step % 1000 < 800 else STARVING)
        if run.step % SAMPLE_EVERY == 0:
            run.sample()
        if run.step % STAGES_EVERY == 0:
            run.staged(*STAGES, PREFETCHED)
        if run.step % PAUSE_EVERY == 0:
            run.event(facts.Paused, cause="checkpoint", took_ms=220.0, detail="ModelCheckpoint")
        if run.step % EPOCH == 0:
            run.event(facts.ValidationEnded, epoch=run.epoch, took_ms=300.0)
            run.event(
                facts.EpochEnded,
                epoch=run.epoch,
                step=run.step,
                metrics={"loss": 1.31, "accuracy": 0.42},
            )
            run.begin_epoch()


def child(steps: int, frames: int, out: Path) -> None:
    """Show a run of `steps` steps, and write the cost of each frame."""
    run = usual(None)
    advance(run, max(0, steps - run.step))

    def show_quarter_second() -> None:
        advance(run, STEPS_A_FRAME)
        run.doing(Phase.COMPUTE, 0.004).writer.flush()

    app = MeasuredApp(
        run.reader(), run.clock, frames + WARM_UP, show_quarter_second, RequestSender(lambda: None)
    )
    gc.freeze()  # as a training does
    app.run()
    out.write_text(json.dumps(app.costs_ms[WARM_UP - 1 :]), encoding="utf-8")


def frames_ms(size: tuple[int, int], steps: int, frames: int) -> list[float]:
    """Return the cost of each frame, ms."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "costs.json"
        case = ("--child", str(out), "--steps", str(steps), "--frames", str(frames))
        run_on_terminal([sys.executable, "-m", "tests.bench.frame", *case], size)
        costs = [float(cost) for cost in json.loads(out.read_text(encoding="utf-8"))]
    if len(costs) < frames:
        sys.exit(
            f"the screen failed: see python -m tests.bench.frame {' '.join(case)} in a terminal"
        )
    return costs


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description="the cost of a frame of the live screen")
    parser.add_argument("--sizes", default="80x24,120x40,200x60")
    parser.add_argument("--steps", default="1000,100000,1000000")
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(int(options.steps), options.frames, options.child)
        return
    for text in options.sizes.split(","):
        for steps in map(int, options.steps.split(",")):
            columns, _, rows = text.partition("x")
            costs = frames_ms((int(columns), int(rows)), steps, options.frames)
            p95, most = statistics.quantiles(costs, n=20)[-1], max(costs)
            figures = (
                f"median {statistics.median(costs):.1f} ms, p95 {p95:.1f} ms, most {most:.1f} ms"
            )
            print(f"{text} after {steps} steps: {figures}", flush=True)


if __name__ == "__main__":
    main()
