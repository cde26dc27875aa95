"""The time that Watch adds to a short `fit`, and what many of them leave behind in the process.

    python -m tests.bench.short_fits [--rounds 60] [--steps 10] [--epochs 1] [--many 300]

Every round runs every arm once, in random order: one `fit` of a few steps each, over the same data
set. `bare again` is the noise. Each arm has its own model, and its first fits, which trace, are
left out; all fits under Watch share a run. Prints for each arm ms a fit, the median of its ratios
to the bare `fit` of the same round, and the milliseconds that it adds. Then runs many fits in a row
under Watch, and prints memory, threads and descriptors on the way. Exits with 1 where Watch adds
more than it may.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import psutil
import tensorflow as tf

from tests.bench.overhead import AGAIN, BARE, WATCH, make_data, make_model, ratios_of
from tfwatch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    Fit = Callable[[], float]

#: The most that Watch may add to a fit from the second one on, ms.
MOST_MS = {"CPU": 5.0, "GPU": 10.0}
ONE, EACH, FUSED = WATCH, "Watch, a new one for each fit", "Watch, steps_per_execution=5"
FUSED_BARE = "bare, steps_per_execution=5"
#: Fits before the timed ones.
SKIP = 3
MEBI = 2**20


def make_arms(folder: Path, options: argparse.Namespace) -> dict[str, Fit]:
    """Return every arm by its name: a function that runs one `fit` and returns ms."""
    data, watch = make_data(options.width, options.batch), Watch(folder)

    def arm(callbacks: Callable[[], list[Any]], steps_per_execution: int = 1) -> Fit:
        model = make_model(options.width)
        kinds = {"metrics": ["accuracy"], "steps_per_execution": steps_per_execution}
        model.compile("adam", "sparse_categorical_crossentropy", **kinds)
        return lambda: fit_ms(model, data, options, callbacks())

    return {
        BARE: arm(list),
        AGAIN: arm(list),
        ONE: arm(lambda: [watch]),
        EACH: arm(lambda: [Watch(folder)]),
        FUSED_BARE: arm(list, 5),
        FUSED: arm(lambda: [Watch(folder)], 5),
    }


def fit_ms(
    model: Any, data: tf.data.Dataset, options: argparse.Namespace, callbacks: list[Any]
) -> float:
    """Run one `fit`; return ms."""
    begun_s = time.perf_counter()
    model.fit(
        data, epochs=options.epochs, steps_per_epoch=options.steps, verbose=0, callbacks=callbacks
    )
    return (time.perf_counter() - begun_s) * 1e3


def measure(arms: dict[str, Fit], rounds: int) -> list[dict[str, float]]:
    """Return ms a fit of each arm, a row for each round."""
    turns = random.Random(1)
    for fit in arms.values():
        for _ in range(SKIP):
            fit()
    return [
        {name: arms[name]() for name in turns.sample(list(arms), len(arms))} for _ in range(rounds)
    ]


def added_ms(name: str, rows: list[dict[str, float]]) -> float:
    """Return the time that an arm adds to a fit: the median over the rounds, ms."""
    base = FUSED_BARE if name == FUSED else BARE
    return statistics.median(row[name] - row[base] for row in rows)


def print_table(arms: dict[str, Fit], rows: list[dict[str, float]]) -> None:
    """Print a line for each arm, as Markdown."""
    print(f"| {len(rows)} rounds | ms a fit | ratio to bare, median | added, ms |")
    print("| --- | ---: | ---: | ---: |")
    for name in arms:
        median_ms = statistics.median(row[name] for row in rows)
        ratio = statistics.median(ratios_of(name, rows))
        print(
            f"| {name} | {median_ms:.1f} | {ratio:.2f} | {added_ms(name, rows):+.1f} |", flush=True
        )


def print_many(fit: Fit, count: int) -> None:
    """Run so many fits and print what the process holds, five times."""
    process = psutil.Process()
    print(
        "\n| fits | memory, MB | threads | descriptors | ms a fit |\n| ---: | ---: | ---: | ---: |"
        " ---: |"
    )
    took_ms: list[float] = []
    for number in range(1, count + 1):
        took_ms.append(fit())
        if number in (10, count // 4, count // 2, 3 * count // 4, count):
            memory = process.memory_info().rss / MEBI
            held = f"{memory:.0f} | {threading.active_count()} | {process.num_fds()}"
            print(f"| {number} | {held} | {statistics.median(took_ms):.1f} |", flush=True)
            took_ms.clear()


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="the time that Watch adds to a short fit")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--many", type=int, default=300)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    most_ms = MOST_MS["GPU" if tf.config.list_physical_devices("GPU") else "CPU"]
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as folder:  # the shared run ends with the process
        arms = make_arms(Path(folder), options)
        rows = measure(arms, options.rounds)
        print_table(arms, rows)
        print_many(arms[EACH], options.many)
        over = {name: ms for name in (ONE, EACH, FUSED) if (ms := added_ms(name, rows)) > most_ms}
    for name, ms in over.items():
        print(f"{name}: {ms:+.1f} ms a fit, more than {most_ms:g}: FAILS")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
