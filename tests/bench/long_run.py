"""Opening a run, and a frame of the live screen, by the length of the run.

    python -m tests.bench.long_run [--sizes 80x24 120x40 200x60] [--steps 1000 10000000]
        [--frames 60] [--rounds 3]

A synthetic run is opened on a pseudo terminal until its first paint; then it is shown while it
grows. A frame is all CPU time of the process from one frame to the next: reading, judging, and
every cell drawn and sent. Where other programs keep the cores busy, the CPU time of an opening says
more than its wall time.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import tfwatch.app
from tests.bench.runner import make_parser, print_head, print_row
from tests.judge.step_rows import make_steps
from tests.pseudo import Pseudo
from tests.screens.canned import COMPUTE_BOUND, PREFETCHED, STAGES, STARVING, Canned, usual
from tfwatch.core import events as facts
from tfwatch.core.clock import Clock
from tfwatch.core.rows import SAMPLE, Phase
from tfwatch.runs import format as layout
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run

#: Frames come faster than live ones, so that the benchmark ends sooner; every cell is painted in
#: between.
tfwatch.app.FRAME_S = 0.1
#: The first frames build the screen.
WARM_UP = 20
#: Steps of 13.9 ms in a quarter second, and of an epoch.
STEPS_A_FRAME, EPOCH = 18, 5000
_BLOCK = 10**6
#: Seconds of a child.
_LONGEST_S = 900


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
            run = long_run(Path(folder) / "run", options.steps[0])
            frames = options.frames + WARM_UP
            reader = Run(RunFolder(Path(folder) / "run", run.clock), run.clock)
            app = MeasuredApp(reader, run.clock, frames, lambda: grow(run))
            gc.freeze()  # as a training does
            app.run()
        figures = app.costs_ms[-options.frames :]
    options.child.write_text(json.dumps(figures), encoding="utf-8")


def measured(size: str, *case: str) -> list[float]:
    """Return the figures of a child on a terminal of a size."""
    columns, _, rows = size.partition("x")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        words = ["-m", "tests.bench.long_run", "--child", str(out), *case]
        with Pseudo(*words, columns=int(columns), rows=int(rows), COLORTERM="truecolor") as screen:
            screen.wait(_LONGEST_S)
        if not out.exists():
            sys.exit(f"the screen failed: {screen.words[-1000:]}")
        return [float(figure) for figure in json.loads(out.read_text(encoding="utf-8"))]


def main() -> None:
    """Print a row for each size and length."""
    parser = make_parser(__doc__)
    parser.add_argument("--sizes", nargs="*", default=["80x24", "120x40", "200x60"])
    parser.add_argument("--steps", nargs="*", type=int, default=[1000, 10_000_000])
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    columns = ("opens in, s", "CPU of opening, s", "a frame, CPU, ms", "95 % of frames")
    print_head("size", "steps", *columns)
    for steps in options.steps:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "2026-11-20T10-17-03_cnn"
            long_run(run, steps).ended("finished").writer.close()
            for size in options.sizes:
                print_row(size, f"{steps:,}", *_figures(options, size, str(steps), run))


def _figures(options: argparse.Namespace, size: str, steps: str, run: Path) -> Iterator[str]:
    opened = [measured(size, "--open", str(run)) for _ in range(options.rounds)]
    for times_s in zip(*opened, strict=True):
        yield f"{statistics.median(times_s):.2f}"
    case = ("--steps", steps, "--frames", str(options.frames))
    costs = [cost for _ in range(options.rounds) for cost in measured(size, *case)]
    yield f"{statistics.median(costs):.1f}"
    yield f"{statistics.quantiles(costs, n=20)[-1]:.1f}"


if __name__ == "__main__":
    main()
