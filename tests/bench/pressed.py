"""The memory of a training on its screen while a key is pressed every second.

    python -m tests.bench.pressed [--minutes 5] [--workload dense] [--keys pwcrgtvz...] [--seed 1]

Without `--keys` it presses those of the knobs, panes and A/B tests, at random; `--keys ''` presses none. Prints the
memory (MB), threads and descriptors of the process each half minute with the switches so far, and the growth in MB a
minute: the slope from the second minute on.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from tests.bench.terminal import run_on_terminal
from tfwatch.core.events import PipelineSwitched
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import open_run

#: Prefetch, workers, cache, fast pipeline, shuffle; a test; panes, zoom and the way back.
KEYS = "pppwwwctbau+-z S\x1b\t"
ROW_S, FIRST_S = 30.0, 60.0


@dataclass
class Presser:
    """Presses a key a second, and reads the memory of the process that has the run."""

    runs_dir: Path
    keys: str
    minutes: float
    chance: random.Random
    begun_s: float = field(default_factory=time.monotonic)
    pressed: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)
    rows: int = 0
    is_leaving: bool = False

    def __call__(self) -> bytes:
        """Return what is typed now; called twice a second."""
        now_s = time.monotonic() - self.begun_s
        if not (runs := list_runs(self.runs_dir)):
            self.begun_s = time.monotonic()
            return b""
        if now_s > self.minutes * 60:
            was, self.is_leaving = self.is_leaving, not self.is_leaving
            return b"y" if was else b"\x03"
        self._measure(runs[0], now_s)
        if not self.keys or now_s < self.pressed:
            return b""
        self.pressed += 1
        return self.chance.choice(self.keys).encode()

    def _measure(self, run: Path, now_s: float) -> None:
        opened = open_run(run) if now_s >= self.rows * ROW_S else None
        if opened is None or opened.manifest.pid is None:
            return
        process = psutil.Process(opened.manifest.pid)
        rss = process.memory_info().rss / 1e6
        self.memory.append((now_s / 60, rss))
        self.rows += 1
        switches = sum(isinstance(event, PipelineSwitched) for event in opened.events)
        print(
            f"{now_s:6.0f} s  {rss:7.1f} MB  {process.num_threads():3} threads  {process.num_fds():3} descriptors  "
            f"{switches:4} switches  {len(opened.steps):6} steps",
            flush=True,
        )

    @property
    def growth(self) -> float:
        """MB a minute from the second minute on; NaN with less than three rows of it."""
        late = np.array([row for row in self.memory if row[0] * 60 >= FIRST_S])
        return float(np.polyfit(late[:, 0], late[:, 1], 1)[0]) if len(late) > 2 else float("nan")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--workload", default="dense")
    parser.add_argument("--keys", default=KEYS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        presser = Presser(Path(folder), options.keys, options.minutes, random.Random(options.seed))
        words = [
            "train",
            options.workload,
            "--seed",
            "1",
            "--epochs",
            "65535",
            "--runs-dir",
            folder,
        ]
        run_on_terminal([sys.executable, "-m", "tfwatch", *words], (120, 40), presser)
    print(f"{presser.pressed} keys, {presser.growth:+.1f} MB a minute")


if __name__ == "__main__":
    main()
