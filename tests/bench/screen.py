"""The cost of the live screen: `tfwatch train cnn` with its screen at 120x40 against the same run headless.

    python -m tests.bench.screen [--rounds 5] [--steps 400]

Each round runs three arms one after another, in turning order: screen, headless, headless again. Prints a row a
round and the median ratios; the second ratio is the noise.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.bench.terminal import run_on_terminal
from tfwatch.core.events import RunEnded
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import open_run

WARM_UP = 60


def command(runs_dir: Path, steps: int, *more: str) -> list[str]:
    """Return the command of every arm."""
    return [
        *(sys.executable, "-m", "tfwatch", "train", "cnn", "--seed", "1", "--steps", str(steps)),
        *("--runs-dir", str(runs_dir), *more),
    ]


def run_headless(runs_dir: Path, steps: int) -> None:
    """Train without a screen."""
    subprocess.run(command(runs_dir, steps, "--headless"), check=True, capture_output=True)


def run_screen(runs_dir: Path, steps: int) -> None:
    """Train with the screen on a pseudo terminal of 120x40, and quit at the end of the run."""
    asked = False

    def leave() -> bytes:
        nonlocal asked
        was, asked = asked, asked or _has_ended(runs_dir)
        return b"q" if asked and not was else b""

    run_on_terminal(command(runs_dir, steps), (120, 40), leave)


def _has_ended(runs_dir: Path) -> bool:
    runs = list_runs(runs_dir)
    return bool(runs) and any(isinstance(event, RunEnded) for event in open_run(runs[0]).events)


def median_ms(runs_dir: Path) -> float:
    """Return the median step time of the only run in a folder, without warm-up and flagged steps."""
    steps = open_run(list_runs(runs_dir)[0]).steps[WARM_UP:]
    steps = steps[steps["flags"] == 0]
    return float(np.median(steps["wait_ms"] + steps["compute_ms"] + steps["host_ms"]))


def main() -> None:
    """Run the benchmark and print each round."""
    parser = argparse.ArgumentParser(description="the cost of the live screen")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--steps", type=int, default=400, help=f"more than {WARM_UP}, which are not counted"
    )
    options = parser.parse_args()
    if options.steps <= WARM_UP:
        parser.error(f"--steps {options.steps}: no step is left after {WARM_UP} of warm-up")
    arms = {"screen": run_screen, "headless": run_headless, "headless again": run_headless}
    rows = []
    for n in range(options.rounds):
        row = {}
        for name in list(arms) if n % 2 else list(reversed(arms)):
            with tempfile.TemporaryDirectory() as folder:
                arms[name](Path(folder), options.steps)
                row[name] = median_ms(Path(folder))
        rows.append(row)
        print(
            f"{n + 1:3d}  " + "  ".join(f"{name} {row[name]:.2f} ms" for name in arms), flush=True
        )
    for name in ("screen", "headless again"):
        ratios = [row[name] / row["headless"] for row in rows]
        print(
            f"{name} / headless: median {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
