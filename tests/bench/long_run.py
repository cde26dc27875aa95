"""Opening, and the cost of a frame, of a simulated run of ten hours, beside a run of a minute.

    python -m tests.bench.long_run [--sizes 80x24,120x40,200x60] [--frames 60] [--rounds 3]
    [--report]

With --report the report, and the opening, of a run of ten million steps instead, which takes a
minute to make.

The long run is that of `tests.bench.ten_hours`. Where other programs keep the CPU busy, its CPU
time says more about an opening than its wall time.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import tfwatch.app
from tests.bench.ten_hours import SHORT, TEN_MILLION, LongRun, Plan, keep
from tests.bench.terminal import run_on_terminal
from tests.runs.folders import reader_of
from tfwatch.core.clock import Clock
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run

if TYPE_CHECKING:
    from tfwatch.runs.requests import RequestSender

#: Frames come faster than live ones, so that the benchmark ends sooner; every cell is painted in
#: between.
tfwatch.app.FRAME_S = 0.1
#: The first frames build the screen, and search the steps of a long run.
WARM_UP = 30


class MeasuredApp(tfwatch.app.TfwatchApp):
    """The app over a run, which measures its frames and exits after a number of them."""

    def __init__(
        self,
        reader: Run,
        clock: Clock,
        frames: int,
        advance: object = None,
        requests: RequestSender | None = None,
    ) -> None:
        super().__init__(reader, requests, clock=clock)
        self.costs_ms: list[float] = []
        self._left, self._advance = frames, advance
        self._since_ns = 0
        self._draw, self.live.frame = self.live.frame, self._measure  # type: ignore[method-assign]

    def _measure(self) -> None:
        if self._since_ns:
            self.costs_ms.append((time.process_time_ns() - self._since_ns) / 1e6)
        self._left -= 1
        if not self._left:
            self.exit()
        if callable(self._advance):
            self._advance()
        self._since_ns = time.process_time_ns()
        self._draw()


def open_run(folder: Path) -> list[float]:
    """Open an ended run; return the wall time and the CPU time until its first paint, seconds."""
    began = time.perf_counter(), time.process_time()
    app = MeasuredApp(Run(RunFolder(folder)), Clock(), 3)
    took_s: list[float] = []
    app.notify_painted = lambda: took_s.extend(  # type: ignore[method-assign]
        (time.perf_counter() - began[0], time.process_time() - began[1])
    )
    app.run()
    return took_s[:2]


def child(options: argparse.Namespace) -> None:
    """Show a run that grows, and write the cost of each frame; or open an ended run, and write how
    long it took."""
    if options.open:
        opened_s = open_run(options.open)
        options.child.write_text(json.dumps(opened_s), encoding="utf-8")
        return
    run = LongRun(None, SHORT if options.case == "short" else Plan()).make()
    app = MeasuredApp(
        reader_of(run.writer, run.clock),
        run.clock,
        options.frames + WARM_UP,
        lambda: run.write_steps(6, run.plan.epochs),
    )
    gc.freeze()  # as a training does
    app.run()
    options.child.write_text(json.dumps(app.costs_ms[WARM_UP - 1 :]), encoding="utf-8")


def measured(size: tuple[int, int], *case: str) -> list[float]:
    """Return the figures of a child on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        run_on_terminal(
            [sys.executable, "-m", "tests.bench.long_run", "--child", str(out), *case], size
        )
        if not out.exists():
            sys.exit(
                f"the screen failed: python -m tests.bench.long_run --child FILE {' '.join(case)}"
            )
        return [float(figure) for figure in json.loads(out.read_text(encoding="utf-8"))]


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(
        description="opening a long run, and its frames beside those of a short one"
    )
    parser.add_argument("--sizes", default="80x24,120x40,200x60")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.report:
            _measure_report(options, Path(folder))
        else:
            _measure_all(options, Path(folder))


def _measure_all(options: argparse.Namespace, folder: Path) -> None:
    run = keep(folder)
    for size in _sizes(options):
        _measure_opening(options, run, size)
        pairs = [
            [_median_ms(size, options.frames, case) for case in ("short", "long")]
            for _ in range(options.rounds)
        ]
        short, long = (statistics.median(figures) for figures in zip(*pairs, strict=True))
        ratio = statistics.median([after / before for before, after in pairs])
        print(
            f"{_name(size)} a frame: short {short:.1f} ms, long {long:.1f} ms, ratio {ratio:.2f}",
            flush=True,
        )


def _sizes(options: argparse.Namespace) -> list[tuple[int, int]]:
    pairs = (text.partition("x") for text in options.sizes.split(","))
    return [(int(columns), int(rows)) for columns, _, rows in pairs]


def _name(size: tuple[int, int]) -> str:
    return "{}x{}".format(*size)


def _measure_opening(options: argparse.Namespace, run: Path, size: tuple[int, int]) -> None:
    opened = [measured(size, "--open", str(run)) for _ in range(options.rounds)]
    wall_s, cpu_s = (statistics.median(figures) for figures in zip(*opened, strict=True))
    print(f"{_name(size)} opens in {wall_s:.2f} s, {cpu_s:.2f} s of CPU", flush=True)


def _measure_report(options: argparse.Namespace, folder: Path) -> None:
    run = folder / "2026-11-20T10-17-03_cnn"
    LongRun(run, TEN_MILLION).make().end()
    for size in _sizes(options):
        _measure_opening(options, run, size)
    page = folder / "page.html"
    for _ in range(options.rounds):
        before_s, began_s = _cpu_of_children_s(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "tfwatch", "report", run, "-o", page],
            check=True,
            capture_output=True,
        )
        took_s, cpu_s = time.perf_counter() - began_s, _cpu_of_children_s() - before_s
        print(
            f"report: {page.stat().st_size / 1e6:.2f} MB in {took_s:.2f} s, {cpu_s:.2f} s of CPU",
            flush=True,
        )


def _cpu_of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median_ms(size: tuple[int, int], frames: int, case: str) -> float:
    return statistics.median(measured(size, "--case", case, "--frames", str(frames)))


if __name__ == "__main__":
    main()
