"""`tfwatch bench matmul` against Python's own `timeit` of the same product.

    python -m tests.bench.timeit_check [--pairs 100] [--rounds 5] [--size 2048]

First in one process with alternating calls, so that other programs disturb both alike; then in `rounds` rounds of a
`tfwatch bench` process and a plain `timeit` process in random order. Prints the median of the ratios with their span
(of six or more, the 95 % interval of the median), and the cores that other programs used. Exits with 1 where a span is
completely outside of 5 %.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import timeit

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from tfwatch.checks.bench import find_interval_cut, run_in_process
from tfwatch.checks.bench_program import OtherPrograms, Spec, step_of, timed_ms

MOST = 0.05
#: The same measurement without tfwatch.
PLAIN = """
import statistics, sys, timeit
import tensorflow as tf
size = int(sys.argv[1])
a, b = tf.random.normal((size, size)), tf.random.normal((size, size))
tf.matmul(a, b)
times = max(1, round(0.5 / min(timeit.repeat(lambda: tf.matmul(a, b), number=1, repeat=5))))
print(1e3 * statistics.median(timeit.repeat(lambda: tf.matmul(a, b), number=times, repeat=4)) / times)
"""


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--pairs", type=int, default=100)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--size", type=int, default=2048)
    args = options.parse_args()
    spec = Spec("matmul", "cpu", "graph", size=args.size)
    others = OtherPrograms()
    fine = is_fine("one process, alternating", in_turns(spec, args.pairs, random.Random(1)))
    if args.rounds:
        fine = (
            is_fine("separate processes", side_by_side(spec, args.rounds, random.Random(2)))
            and fine
        )
    print(f"all processes but this one used {others.cores() or 0:.1f} of {os.cpu_count()} cores")
    sys.exit(not fine)


def in_turns(spec: Spec, pairs: int, rng: random.Random) -> list[float]:
    """Return bench / timeit of each pair of calls."""
    assert spec.size
    a, b = tf.random.normal((spec.size, spec.size)), tf.random.normal((spec.size, spec.size))
    step, _ = step_of(spec.workload, spec.settings())
    for _ in range(3):
        step()
        tf.matmul(a, b)
    ratios = []
    for _ in range(pairs):
        found: dict[str, float] = {}
        for name in rng.sample(("bench", "timeit"), 2):
            if name == "bench":
                found[name] = timed_ms(tf, step)
            else:
                found[name] = 1e3 * timeit.timeit(lambda: tf.matmul(a, b), number=1)
        ratios.append(found["bench"] / found["timeit"])
    return ratios


def side_by_side(spec: Spec, rounds: int, rng: random.Random) -> list[float]:
    """Return bench / timeit of each round's two processes."""
    ratios = []
    print("round   tfwatch bench    timeit   ratio")
    for number in range(1, rounds + 1):
        found: dict[str, float] = {}
        for name in rng.sample(("bench", "timeit"), 2):
            found[name] = bench_ms(spec) if name == "bench" else plain_ms(spec)
        ratios.append(found["bench"] / found["timeit"])
        print(
            f"{number:5}   {found['bench']:10.2f} ms   {found['timeit']:7.2f}   {ratios[-1]:5.3f}",
            flush=True,
        )
    return ratios


def bench_ms(spec: Spec) -> float:
    """Return the milliseconds of a product by one round of `tfwatch bench`."""
    return float(statistics.median(run_in_process(spec).results["measured"]["steps_ms"]))


def plain_ms(spec: Spec) -> float:
    """Return the milliseconds of a product by timeit."""
    words = [sys.executable, "-c", PLAIN, str(spec.size)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def is_fine(title: str, ratios: list[float]) -> bool:
    """Print the ratios; return True where the interval overlaps 5 %."""
    ordered, cut = sorted(ratios), find_interval_cut(len(ratios))
    low, high = ordered[cut], ordered[-1 - cut]
    summary = (
        f"median {statistics.median(ratios):.3f}, {low:.3f} to {high:.3f} ({len(ratios)} pairs)"
    )
    print(f"bench / timeit, {title}: {summary}", flush=True)
    return low <= 1 + MOST and high >= 1 - MOST


if __name__ == "__main__":
    main()
