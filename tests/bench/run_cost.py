"""The time that `tfwatch run` adds to each `fit` of a script, and to a step, against the bare script.

    python -m tests.bench.run_cost [--rounds 40] [--short 10] [--long 400] [--data tf.data|arrays] [--most-ms 5]

Three processes of one script wait for requests: bare, bare again, and under `tfwatch run --headless`. Each round asks
each of them, one at a time and in random order, for a `fit` of a few steps and for a long one; their difference over
the difference of their steps is the time of a step. `bare again` is the noise. Prints for both the median, the median
of the ratios to bare in the same round with its 95 % interval, and what is added to a short `fit`.
Exits with 1 where a `fit` takes more than it may, or a step more than 1.00 of bare beyond the interval.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.pseudo import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).parents[1] / "scripts" / "fits_on_request.py"
BARE, AGAIN, RUN = "bare", "bare again", "tfwatch run"
#: Fits of each length before the timed ones: they trace, and begin the runs.
SKIP = 3


@dataclass(frozen=True)
class Timed:
    """One round of one process: the short `fit`, and a step of the long one, ms."""

    fit_ms: float
    step_ms: float


class Process:
    """A script that fits on request, under tfwatch where there is a folder for its runs."""

    def __init__(self, runs_dir: Path | None) -> None:
        own = (
            ["-m", "tfwatch", "run", "--headless", "--runs-dir", str(runs_dir)] if runs_dir else []
        )
        self._child = subprocess.Popen(
            [sys.executable, *own, str(SCRIPT)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read()

    def fit_ms(self, data: str, steps: int) -> float:
        """Have it run one `fit`; return ms."""
        assert self._child.stdin
        self._child.stdin.write(f"{data} {steps}\n")
        self._child.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._child.stdout
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"the script ended with exit code {self._child.wait()}")
        return line

    def end(self) -> None:
        """Let the script end."""
        assert self._child.stdin
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.wait(60)


@contextlib.contextmanager
def processes(folder: Path) -> Iterator[dict[str, Process]]:
    """Start the three processes, and end them."""
    begun: dict[str, Process] = {}
    try:
        for name, runs_dir in ((BARE, None), (AGAIN, None), (RUN, folder)):
            begun[name] = Process(runs_dir)
        yield begun
    finally:
        for process in begun.values():
            process.end()


def time_one(process: Process, options: argparse.Namespace) -> Timed:
    """Time a short and a long `fit`."""
    short_ms, long_ms = (
        process.fit_ms(options.data, steps) for steps in (options.short, options.long)
    )
    return Timed(short_ms, (long_ms - short_ms) / (options.long - options.short))


def measure(begun: dict[str, Process], options: argparse.Namespace) -> list[dict[str, Timed]]:
    """Return a row for each round."""
    turns = random.Random(1)
    for process in begun.values():
        for _ in range(SKIP):
            time_one(process, options)
    return [
        {name: time_one(begun[name], options) for name in turns.sample(list(begun), len(begun))}
        for _ in range(options.rounds)
    ]


def interval(values: list[float]) -> tuple[float, float]:
    """Return a 95 % interval of a median, by its order statistics."""
    ranked = sorted(values)
    at = max(0, int(len(ranked) / 2 - 0.98 * len(ranked) ** 0.5))
    return ranked[at], ranked[-1 - at]


def ratios(name: str, rows: list[dict[str, Timed]], part: str) -> list[float]:
    """Return the ratios to bare of each round."""
    return [getattr(row[name], part) / getattr(row[BARE], part) for row in rows]


def print_table(rows: list[dict[str, Timed]]) -> None:
    """Print a line for each process, as Markdown."""
    print(
        f"| {len(rows)} rounds | ms a fit | added, ms | ms a step | ratio to bare, median (95 %) |"
    )
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in (BARE, AGAIN, RUN):
        fit_ms, step_ms = (
            statistics.median(getattr(row[name], part) for row in rows)
            for part in ("fit_ms", "step_ms")
        )
        low, high = interval(ratios(name, rows, "step_ms"))
        ratio = f"{statistics.median(ratios(name, rows, 'step_ms')):.3f} ({low:.3f} to {high:.3f})"
        print(f"| {name} | {fit_ms:.1f} | {added_ms(name, rows):+.1f} | {step_ms:.3f} | {ratio} |")


def added_ms(name: str, rows: list[dict[str, Timed]]) -> float:
    """Return the time that a process adds to a short `fit`: the median over the rounds."""
    return statistics.median(row[name].fit_ms - row[BARE].fit_ms for row in rows)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description="the time that tfwatch run adds to a fit and to a step"
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--short", type=int, default=10)
    parser.add_argument("--long", type=int, default=400)
    parser.add_argument("--data", choices=("tf.data", "arrays"), default="tf.data")
    parser.add_argument("--most-ms", type=float, default=5.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as begun:
        rows = measure(begun, options)
    print_table(rows)
    is_slow = added_ms(RUN, rows) > options.most_ms
    is_slower = interval(ratios(RUN, rows, "step_ms"))[0] > 1.0
    for text in ("a fit takes more than it may",) * is_slow + (
        "a step takes more than bare",
    ) * is_slower:
        print(f"{text}: FAILS")
    return int(is_slow or is_slower)


if __name__ == "__main__":
    sys.exit(main())
