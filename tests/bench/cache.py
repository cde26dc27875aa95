"""The cost of the live cache while it fills, and its gain once it is full.

    python -m tests.bench.cache [--workload cnn] [--latency-ms 20] [--prefetch off] [--workers off] [--rounds 3]

Every round trains two epochs with the cache and two without, in processes of their own and in an order of its own.
Prints medians of a step and of its data wait in the first epoch, in which the cache fills, and in the second, which it
serves; and the median of the rounds' ratios, off over on. That both arms end with the same weights is checked.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.steps.verdict import steady
from tfwatch.core.events import EpochStarted
from tfwatch.runs.reading.opened import Run, open_run

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

EPOCHS = 2


@dataclass(frozen=True)
class Figures:
    """Medians of each epoch's steady steps, ms; the weights as they ended."""

    step_ms: list[float]
    wait_ms: list[float]
    weights: str


def train(options: argparse.Namespace, cache: str, folder: str) -> Figures:
    """One run."""
    asked = [
        "--epochs",
        str(EPOCHS),
        "--seed",
        "1",
        "--cache",
        cache,
        "--runs-dir",
        folder,
        "--headless",
    ]
    asked += ["--prefetch", options.prefetch, "--workers", options.workers]
    asked += ["--storage-latency", str(options.latency_ms)] if options.latency_ms else []
    command = [sys.executable, "-m", "tfwatch", "train", options.workload, *asked]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = Path(folder).glob(f"*_{options.workload}")
    run = open_run(made)
    epochs = [steady(rows) for rows in rows_of_epochs(run)]
    totals = [
        float(np.median(rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"])) for rows in epochs
    ]
    waits = [float(np.median(rows["wait_ms"])) for rows in epochs]
    assert run.ended
    return Figures(totals, waits, run.ended.weights_sha256)


def rows_of_epochs(run: Run) -> list[Rows]:
    """The rows of the steps of each epoch."""
    begun = [event.at_ns for event in run.events if isinstance(event, EpochStarted)]
    places = np.searchsorted(run.steps["start_ns"], [*begun, np.iinfo(np.int64).max])
    return [run.steps[first:end] for first, end in pairwise(places)]


def main() -> None:
    parser = argparse.ArgumentParser(description="the cost and the gain of the live cache")
    parser.add_argument("--workload", default="cnn")
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--prefetch", default="off")
    parser.add_argument("--workers", default="off")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    turns, rounds = random.Random(1), []
    for _ in range(options.rounds):
        figures = {}
        for cache in turns.sample(["off", "on"], 2):
            with tempfile.TemporaryDirectory() as folder:
                figures[cache] = train(options, cache, folder)
        assert figures["off"].weights == figures["on"].weights, "the cache changed the result"
        rounds.append(figures)
    print_table(rounds)


def print_table(rounds: list[dict[str, Figures]]) -> None:
    """A line an epoch, as Markdown."""
    print(
        "| epoch | step off, ms | step on, ms | wait off, ms | wait on, ms | off / on (least to most) |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for epoch, name in enumerate(("1, fills", "2, serves")):
        ratios = [
            figures["off"].step_ms[epoch] / figures["on"].step_ms[epoch] for figures in rounds
        ]
        steps = [
            statistics.median(figures[arm].step_ms[epoch] for figures in rounds)
            for arm in ("off", "on")
        ]
        waits = [
            statistics.median(figures[arm].wait_ms[epoch] for figures in rounds)
            for arm in ("off", "on")
        ]
        medians = " | ".join(f"{value:.2f}" for value in (*steps, *waits))
        print(
            f"| {name} | {medians} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
        )


if __name__ == "__main__":
    main()
