"""Is a live setting the line that a user pastes, and what does Watch cost? On a GPU, by kinds of
data.

    python -m tests.bench.pasted OUT [--kinds naive arrays] [--batch 64] [--steps 300] [--rounds 2]

For each kind of data: bare, with Watch, and for each line of its pipeline switched live and back,
and pasted. A row has medians of step time and copy, ms: as written, live, back, pasted; the ratios
of live to pasted, back to as written, and Watch to bare; and the longest step beside the first
switch. Every step is in OUT. It exits with 1 where a ratio is above 1.03.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.pseudo import ROOT

#: The lines that are tried, by the kind of data.
LINES = {
    "naive": ("prefetch=4", "workers=8", "workers=auto", "device_prefetch=2"),
    "uint8": ("prefetch=4", "workers=8"),
    "tuned": ("prefetch=4", "device_prefetch=2"),
    "random": ("workers=auto",),
    "slices": ("prefetch=4", "pinned=on", "device_prefetch=2"),
    "arrays": ("pinned=on", "device_prefetch=2"),
    "generator": ("pinned=on", "device_prefetch=2"),
    "pydataset": ("pinned=on", "device_prefetch=2"),
}
#: Steps that are left out after a switch and at the start; those beside a switch.
_SETTLE, _BESIDE = 30, 12
#: A live setting costs at most this ratio of the pasted line.
_MOST = 1.03


def run(kind: str, batch: int, steps: int, rounds: int, out: Path) -> list[dict[str, Any]]:
    """Run the trainings of a kind of data; return the rows that the script prints."""
    script = Path(__file__).with_name("pasted_script.py")
    words = [kind, str(batch), str(steps), str(rounds), *LINES[kind]]
    done = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, cwd=ROOT
    )
    (out / f"{kind}-{batch}.jsonl").write_text(done.stdout)
    if done.returncode:
        print(done.stderr[-1500:], flush=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _medians(row: dict[str, Any], first: int, last: int) -> tuple[float, float]:
    """Return the medians of step and copy, ms, of a range of steps."""
    copies = np.array(row.get("copy_ms", [np.nan]), float)[first:last]
    has_copy = bool(np.isfinite(copies).any())
    return median(row["ms"][first:last]), float(np.nanmedian(copies)) if has_copy else np.nan


def _pause(row: dict[str, Any], steps: int) -> float:
    """Return the longest step beside the first switch over the median, ms."""
    on = steps // 3
    steps_ms: list[float] = row["ms"]
    return max(steps_ms[on - 1 : on + _BESIDE]) - median(steps_ms[_SETTLE:on])


def _print_line(rows: list[dict[str, Any]], line: str, steps: int) -> bool:
    """Print the row of a line; return whether a ratio is too large."""
    live = [one for one in rows if (one["arm"], one["line"]) == ("live", line)]
    pasted = [one for one in rows if (one["arm"], one["line"]) == ("pasted", line)]
    third, ends = steps // 3, 2 * steps // 3
    ranges = ((_SETTLE, third), (third + _SETTLE, ends), (ends + _SETTLE, steps))
    parts = [np.median([_medians(row, *part) for row in live], axis=0) for part in ranges]
    if pasted:
        parts.append(np.median([_medians(row, _SETTLE, steps) for row in pasted], axis=0))
    figures = " ".join(f"{step:7.2f} {copy:5.2f}" for step, copy in parts)
    ratio = parts[1][0] / parts[3][0] if pasted else float("nan")
    back = parts[2][0] / parts[0][0]
    pause = max(_pause(row, steps) for row in live)
    print(f"  {line:18} {figures}   {ratio:.3f} {back:.3f}  {pause:6.0f} ms", flush=True)
    for row in live:
        if len(row.get("switched", ())) != 2:
            print(f"    switched: {row.get('switched')} {row.get('events')}", flush=True)
    return ratio > _MOST or back > _MOST


def main() -> int:
    """Print a row for each kind and line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--kinds", nargs="*", default=[*LINES])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    bad = False
    print(
        "  line                 written          live          back        pasted   live/p back/w"
    )
    for kind in asked.kinds:
        rows = run(kind, asked.batch, asked.steps, asked.rounds, asked.out)
        plain = {
            arm: [_medians(row, _SETTLE, asked.steps)[0] for row in rows if row["arm"] == arm]
            for arm in ("bare", "watch")
        }
        ratios = [with_it / bare for bare, with_it in zip(*plain.values(), strict=True)]
        print(f"{kind}: bare {plain['bare']}, Watch/bare {[round(one, 3) for one in ratios]}")
        for line in LINES[kind]:
            bad = _print_line(rows, line, asked.steps) or bad
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
