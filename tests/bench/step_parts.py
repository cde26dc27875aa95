"""Does a profile of a few steps name the part that takes most of them?

    python -m tests.bench.step_parts OUT

Ten parts in three sizes, each trained under `tfwatch run --headless --explain`. A row for each: the
longest part, its share and what the profile took.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.losses import report_of

_SCRIPT = Path(__file__).with_name("step_parts_script.py")
_SIZES = (1, 2, 3)
#: The name that the longest part has; small operations are those of its loop.
_PARTS = {
    "conv": "answer",
    "dense": "answer",
    "augmentation": "answer",
    "attention": "answer/heads",
    "embedding": "adam",
    "metric": "answer",
    "loss": "pairs_loss",
    "python": "answer",
    "normalization": "answer",
    "map_fn": "answer",
}


def main() -> int:
    """Run all, and return 1 where more than two of the thirty are wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", nargs="*", default=[*_PARTS])
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    right = count = 0
    for part in asked.parts:
        for size in _SIZES:
            name = f"{part}-{size}"
            report = report_of(_SCRIPT, [part, str(size)], asked.out / name, "", explain=True)
            profile = report["profile"] or {"parts": [], "cost_ms": 0.0}
            parts = [one for one in profile["parts"] if one["role"] != "small"]
            first = parts[0] if parts else {"name": "none", "share": 0.0}
            is_right = first["name"] == _PARTS[part]
            right, count = right + is_right, count + 1
            print(
                f"{'ok   ' if is_right else 'WRONG'} {name:18} {first['name']:24}"
                f" {first['share']:5.0%}  cost {profile['cost_ms']:5.1f} ms",
                flush=True,
            )
    print(f"{right} of {count} are right")
    return int(count - right > 2)


if __name__ == "__main__":
    sys.exit(main())
