"""The agreement of two runs of `tfwatch bench`.

    python -m tests.bench.twice [WORKLOAD ...]      matmul and conv unless given

Prints both medians with their spreads, their ratio, and the cores that other programs used. Exits with 1 where two
medians differ by more than 5 % and by more than their spreads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

MOST = 0.05


def main() -> None:
    """Run the benchmark."""
    names = sys.argv[1:] or ["matmul", "conv"]
    first, second = bench(names), bench(names)
    print("workload    first           second          second / first   others, cores")
    fine = True
    for one, other in zip(first, second, strict=True):
        ratio = other["step_ms"] / one["step_ms"]
        spread = max(one["spread"], other["spread"])
        fine = fine and (abs(ratio - 1) <= MOST or spread > MOST)
        steps = "".join(
            f"{run['step_ms']:8.2f} ms ±{run['spread'] / 2:3.0%}" for run in (one, other)
        )
        print(
            f"{one['workload']:8}{steps}   {ratio:8.3f}         {one['others_cores']:.1f} {other['others_cores']:.1f}"
        )
    sys.exit(not fine)


def bench(names: list[str]) -> list[dict[str, Any]]:
    """Return the results of one `tfwatch bench`."""
    words = [sys.executable, "-m", "tfwatch", "bench", *names, "--devices", "cpu", "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return list(json.loads(done.stdout)["results"])


if __name__ == "__main__":
    main()
