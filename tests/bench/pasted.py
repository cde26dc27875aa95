"""Is a live setting the line that a user pastes? On a GPU, for batches of several sizes.

    python -m tests.bench.pasted [--rounds 3] [--batches 4 64] [--dtypes float32 uint8]

For each line of the pipeline, in turn: the script as it is, switched live at step 200 and back at
step 380, and the script with the line pasted. A row has medians of step time and copy, ms, after 30
steps each: as written, live, back, pasted; and live over pasted, back over as written. It exits
with 1 where a ratio is above 1.03.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from tests.pseudo import ROOT
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run

_SCRIPT = Path(__file__).with_name("pasted_script.py")
_LINES = {"prefetch=4": "default", "workers=8": "default", "workers=auto": "default"}
_ON, _BACK, _SETTLE = 200, 380, 30
#: A live setting costs at most this ratio of the pasted line.
_MOST = 1.03


def parts_of(words: list[str], switches: list[str], ranges: list[tuple[int, int]]) -> list[float]:
    """Run the script and return the medians of step time and copy, ms, in each range of steps."""
    asked = [word for one in switches for word in ("--switch", one)]
    with tempfile.TemporaryDirectory() as folder:
        own = [sys.executable, "-m", "tfwatch", "run", "--headless", "--runs-dir", folder]
        done = subprocess.run(
            [*own, *asked, str(_SCRIPT), *words], capture_output=True, text=True, cwd=ROOT
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        steps = open_run(list_runs(Path(folder))[0]).steps
    whole = steps["wait_ms"] + steps["compute_ms"] + steps["host_ms"]
    medians = []
    for first, last in ranges:
        medians += [float(np.median(whole[first:last]))]
        medians += [float(np.nanmedian(steps["copy_ms"][first:last]))]
    return medians


def measure(batch: str, dtype: str, line: str) -> list[float]:
    """Return a round: as written, live, back and pasted, each step time and copy."""
    knob = line.partition("=")[0]
    switches = [f"{_ON}:{line}", f"{_BACK}:{knob}={_LINES[line]}"]
    ranges = [(_SETTLE, _ON), (_ON + _SETTLE, _BACK), (_BACK + _SETTLE, 560)]
    live = parts_of([batch, dtype, "none"], switches, ranges)
    return live + parts_of([batch, dtype, line], [], [(_SETTLE, 560)])


def main() -> int:
    """Print a row for each line, batch size and type."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", nargs="*", default=["4", "64"])
    parser.add_argument("--dtypes", nargs="*", default=["float32", "uint8"])
    asked = parser.parse_args()
    print(
        f"{'batch':>5} {'dtype':8} {'line':13}  written  copy    live  copy    back  copy  pasted"
        "  copy  live/pasted back/written"
    )
    bad = False
    for batch in asked.batches:
        for dtype in asked.dtypes:
            for line in _LINES:
                rounds = [measure(batch, dtype, line) for _ in range(asked.rounds)]
                middle = [median(values) for values in zip(*rounds, strict=True)]
                ratio = median(one[2] / one[6] for one in rounds)
                back = median(one[4] / one[0] for one in rounds)
                bad = bad or ratio > _MOST or back > _MOST
                figures = " ".join(f"{value:6.2f}" for value in middle)
                print(
                    f"{batch:>5} {dtype:8} {line:13} {figures}  {ratio:.3f} {back:.3f}", flush=True
                )
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
