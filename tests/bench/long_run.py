"""Opening a run, and a frame of the live screen, by the length of the run.

    python -m tests.bench.long_run [--sizes 80x24,120x40,200x60] [--steps 1000,10000000]
    [--frames 60] [--rounds 3]

A synthetic run is opened on a pseudo terminal until its first paint; then it is shown while it
grows. A frame is all CPU time of the process from one frame to the next: reading, judging, and
every cell drawn and sent. Where other programs keep the cores busy, the CPU time of an opening says
more than its wall time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pty
import statistics
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import tfwatch.app
from tests.judge.step_rows import make_steps
from tests.screens.canned import COMPUTE_BOUND, PREFETCHED, STAGES, STARVING, Canned, usual
from tfwatch.core import events as facts
from tfwatch.core.clock import Clock
from tfwatch.core.rows import SAMPLE, Phase
from tfwatch.runs import format as layout
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

#: Frames come faster than live ones, so that the benchmark ends sooner; every cell is painted in
#: between.
tfwatch.app.FRAME_S = 0.1
#: The first frames build the screen.
WARM_UP = 20
#: Steps of 13.9 ms in a quarter second, and of an epoch.
STEPS_A_FRAME, EPOCH = 18, 5000
_BLOCK = 10**6


class MeasuredApp(tfwatch.app.TfwatchApp):
    """The app over a run, which measures its frames and exits after a number of them, counted from
    the end of the search for the stalls of the past."""

    def __init__(
        self, reader: Run, clock: Clock, frames: int, advance: Callable[[], object] = bool
    ) -> None:
        super().__init__(reader, None, clock=clock)
        self.costs_ms: list[float] = []
        self._left, self._advance = frames, advance
        self._since_ns = 0
        self._draw, self.live.frame = self.live.frame, self._measure  # type: ignore[method-assign]

    def _measure(self) -> None:
        if self._since_ns:
            self.costs_ms.append((time.process_time_ns() - self._since_ns) / 1e6)
        view = self.live.view
        self._left -= view is not None and view.searched is None
        if not self._left:
            self.exit()
        self._advance()
        self._since_ns = time.process_time_ns()
        self._draw()


def long_run(folder: Path, steps: int) -> Canned:
    """Write a run of so many more steps than a usual one."""
    run, chance = usual(folder), np.random.default_rng(1)
    wait = chance.gamma(4.0, 0.5, steps)
    wait[:: max(steps // 40, 1)] += 9000.0
    rows = make_steps(wait, compute=13.0, host=0.8, first=run.step + 1)
    rows["start_ns"] += np.uint64(run.at_s * 1e9)
    rows["epoch"] = rows["step"] // EPOCH
    samples = np.zeros(int(rows["start_ns"][-1] / 5e8), dtype=SAMPLE)
    samples["at_ns"] = (np.arange(len(samples)) + 1) * 5 * 10**8
    for table, added in ((layout.STEPS, rows), (layout.SAMPLES, samples)):
        for first in range(0, len(added), _BLOCK):
            run.writer._rows[table].append(added[first : first + _BLOCK].tobytes())
            run.writer.flush()
    for last in rows[EPOCH::EPOCH]:
        run.at_s, run.epoch, run.step = (
            last["start_ns"] / 1e9,
            int(last["epoch"]),
            int(last["step"]),
        )
        run.event(facts.EpochEnded, epoch=run.epoch, step=run.step, metrics={"loss": 1.31})
        run.begin_epoch()
    run.at_s, run.step = rows["start_ns"][-1] / 1e9 + 0.1, int(rows["step"][-1])
    return run


def grow(run: Canned) -> None:
    """Add the steps of a quarter second, with the events of a training."""
    for _ in range(STEPS_A_FRAME):
        run.steps(1, COMPUTE_BOUND if run.step % 1000 < 800 else STARVING)
        if run.step % 36 == 0:
            run.sample()
        if run.step % 72 == 0:
            run.staged(*STAGES, PREFETCHED)
        if run.step % 500 == 0:
            run.event(facts.Paused, cause="checkpoint", took_ms=220.0, detail="ModelCheckpoint")
    run.doing(Phase.COMPUTE, 0.004).writer.flush()


def open_run(folder: Path) -> list[float]:
    """Open an ended run; return the wall time and the CPU time until its first paint, seconds."""
    began = time.perf_counter(), time.process_time()
    app = MeasuredApp(Run(RunFolder(folder)), Clock(), sys.maxsize)
    took_s: list[float] = []

    def painted() -> None:
        took_s[:] = time.perf_counter() - began[0], time.process_time() - began[1]
        app.exit()

    app.notify_painted = painted  # type: ignore[method-assign]
    app.run()
    return took_s


def child(options: argparse.Namespace) -> None:
    """Write the figures of an opening, or of the frames of a run that grows."""
    if options.open:
        figures = open_run(options.open)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run = long_run(Path(folder) / "run", int(options.steps))
            frames = options.frames + WARM_UP
            reader = Run(RunFolder(Path(folder) / "run", run.clock), run.clock)
            app = MeasuredApp(reader, run.clock, frames, lambda: grow(run))
            gc.freeze()  # as a training does
            app.run()
        figures = app.costs_ms[-options.frames :]
    options.child.write_text(json.dumps(figures), encoding="utf-8")


def measured(size: str, *case: str) -> list[float]:
    """Return the figures of a child on a terminal of a size."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "tests.bench.long_run", "--child", str(out), *case]
        _run_on_terminal(command, size)
        if not out.exists():
            sys.exit(f"the screen failed: {' '.join(command[1:])}")
        return [float(figure) for figure in json.loads(out.read_text(encoding="utf-8"))]


def _run_on_terminal(command: list[str], size: str) -> None:
    """Run a program to its end on a pseudo terminal whose output is discarded."""
    columns, _, rows = size.partition("x")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(command[0], command)
    termios.tcsetwinsize(terminal, (int(rows), int(columns)))
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # Linux' way to say that the other end is closed
        pass
    os.waitpid(pid, 0)
    os.close(terminal)


def main() -> None:
    """Print a line for each size and length."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="80x24,120x40,200x60")
    parser.add_argument("--steps", default="1000,10000000")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    for steps in options.steps.split(","):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "2026-11-20T10-17-03_cnn"
            long_run(run, int(steps)).ended("finished").writer.close()
            for size in options.sizes.split(","):
                print(f"{size}, {int(steps):,} steps: {_figures(options, size, steps, run)}")


def _figures(options: argparse.Namespace, size: str, steps: str, run: Path) -> str:
    opened = [measured(size, "--open", str(run)) for _ in range(options.rounds)]
    wall_s, cpu_s = (statistics.median(figures) for figures in zip(*opened, strict=True))
    case = ("--steps", steps, "--frames", str(options.frames))
    costs = [cost for _ in range(options.rounds) for cost in measured(size, *case)]
    p95_ms = statistics.quantiles(costs, n=20)[-1]
    return (
        f"opens in {wall_s:.2f} s, {cpu_s:.2f} s of CPU; a frame takes"
        f" {statistics.median(costs):.1f} ms of CPU, p95 {p95_ms:.1f} ms"
    )


if __name__ == "__main__":
    main()
