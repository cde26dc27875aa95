"""Does a profile of a few steps name the part that takes most of them?

    python -m tests.bench.step_parts OUT                                    on a CPU
    python -m tests.bench.step_parts OUT --gpu                              beside an NVIDIA GPU

Ten parts in three sizes, each trained under `tfwatch run --headless --explain`. A row for each: the
longest part, its share and what the profile took. With a GPU there are two more, which only it can
show: launch gaps, and products in float32 without tensor cores. Below each row stand the busy time
of the parts and the launch gaps beside the profiled step, the share that has no part, and the
losses found: they say what a remedy gives back.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

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
#: Those that a GPU alone can show.
_OF_GPU = {"launching": "launch gaps", "float32": "answer"}


def main() -> int:
    """Run all, and return 1 where more than two are wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpu", action="store_true", help="a GPU trains")
    parser.add_argument("--parts", nargs="*", help="of these only")
    asked = parser.parse_args()
    answers = _PARTS | (_OF_GPU if asked.gpu else {})
    asked.out.mkdir(parents=True, exist_ok=True)
    right = count = 0
    for part in asked.parts or answers:
        for size in _SIZES:
            name = f"{part}-{size}"
            report = report_of(_SCRIPT, [part, str(size)], asked.out / name, "", explain=True)
            is_right = _print_row(name, report, answers[part])
            right, count = right + is_right, count + 1
            if asked.gpu:
                print(f"      {_of_gpu(report)}", flush=True)
    print(f"{right} of {count} are right")
    return int(count - right > 2)


def _print_row(name: str, report: dict[str, Any], answer: str) -> bool:
    """Print the longest part, and return whether it is the answer. A GPU idles beside many of
    them, which is the answer of one."""
    profile = report["profile"] or {"parts": [], "cost_ms": 0.0}
    left_out = ("small",) if answer == "launch gaps" else ("small", "gaps")
    parts = [one for one in profile["parts"] if one["role"] not in left_out]
    first = parts[0] if parts else {"name": "none", "share": 0.0}
    is_right = bool(first["name"] == answer)
    print(
        f"{'ok   ' if is_right else 'WRONG'} {name:18} {first['name']:24}"
        f" {first['share']:5.0%}  cost {profile['cost_ms']:5.1f} ms",
        flush=True,
    )
    return is_right


def _of_gpu(report: dict[str, Any]) -> str:
    profile = report["profile"]
    if not profile or not profile["on_gpu"]:
        return "no kernels of a GPU"
    of_role: Counter[str] = Counter()
    for one in profile["parts"]:
        of_role[one["role"]] += one["took_ms"]
    busy_ms = sum(took_ms for role, took_ms in of_role.items() if role != "gaps")
    gaps = "n/a" if profile["gaps_ms"] is None else f"{profile['gaps_ms']:.2f}"
    plain = "n/a" if profile["float32_ms"] is None else f"{profile['float32_ms']:.2f}"
    losses = [f"{one['kind']} {one['lost_s'] or 0:.2f} s" for one in report["findings"]]
    return (
        f"busy {busy_ms:.2f} + gaps {gaps} of {profile['step_ms']:.2f} ms, without a part"
        f" {of_role['other'] / busy_ms:.0%}, float32 {plain} ms; {', '.join(losses)}"
    )


if __name__ == "__main__":
    sys.exit(main())
