"""Are differences found, and none claimed, in the noise of recorded steps?

    python -m tests.bench.recorded_noise STEPS.jsonl

STEPS.jsonl is of `pasted_script.py OUT KINDS BATCHES MINUTES noise`. Each try cuts a stretch out of
the recorded steps of one training at random, and makes its second half faster. Prints the share of
tries that are claimed faster or slower, after so many steps on each side and at any look of every
20.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from tfwatch.judge.effects.interval import estimate_ratio

_TRIES, _LOOK, _SETTLE = 300, 20, 50
#: Steps on each side, and how much faster the second half is.
_CASES = ((100, 1.0), (400, 1.0), (100, 1.2), (400, 1.05))


def main() -> int:
    """Print a row for each case of each training."""
    rng = np.random.default_rng(0)
    for line in Path(sys.argv[1]).read_text().splitlines():
        row = json.loads(line)
        steps = np.array(row["ms"][_SETTLE:])
        print(f"{row['kind']} {row['arm']}: {len(steps)} steps, median {np.median(steps):.2f} ms")
        for side, faster in _CASES:
            if 2 * side > len(steps):
                continue
            end, any_look = 0, 0
            for _ in range(_TRIES):
                first = int(rng.integers(len(steps) - 2 * side + 1))
                part = steps[first : first + 2 * side].copy()
                part[side:] /= faster
                looks = [
                    estimate_ratio([part[:side], part[side : side + look]]).answer
                    for look in range(60, side + 1, _LOOK)
                ]
                is_claimed = [look in ("faster", "slower") for look in looks]
                end, any_look = end + is_claimed[-1], any_look + any(is_claimed)
            shares = f"{end / _TRIES:.1%} at the end, {any_look / _TRIES:.1%} at any look"
            print(f"  {side} steps a side, {faster} x: claimed {shares}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
