"""Do the forms of a workload differ by what the split says? `tfwatch train --json`, in turns.

    python -m tests.bench.forms [--rounds 4] [--steps 400]

`generator`: without prefetch, with it, and in tf.data. Each step is foretold from the split of the form without
prefetch: with it the larger of data wait D and the rest C, where both have a core of their own, and D + C where they
share one. `cnn-loop`: eager and as a graph, on batches of 1 and of 100: what Python takes of an eager step between its
operations, beside what a graph saves. Every round runs every form once, in an order of its own; medians of rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from typing import Any

FORMS: dict[str, tuple[str, ...]] = {
    "generator": ("generator",),
    "generator, prefetch": ("generator", "--prefetch", "4"),
    "tf.data": ("generator", "--fast-form"),
    "tf.data, prefetch": ("generator", "--fast-form", "--prefetch", "4"),
    "eager, batch 1": ("cnn-loop", "--fast-form", "--eager", "--batch-size", "1"),
    "graph, batch 1": ("cnn-loop", "--fast-form", "--batch-size", "1"),
    "eager, batch 100": ("cnn-loop", "--fast-form", "--eager"),
    "graph, batch 100": ("cnn-loop", "--fast-form"),
}
PARTS = ("step_ms", "data_wait_ms", "compute_ms", "dispatch_ms", "host_ms")
#: How far a step may be from what was foretold.
MOST = 0.10


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--steps", type=int, default=400)
    args = options.parse_args()
    rng = random.Random(1)
    told: dict[str, list[dict[str, Any]]] = {form: [] for form in FORMS}
    for number in range(1, args.rounds + 1):
        for form in rng.sample(tuple(FORMS), len(FORMS)):
            told[form].append(train(FORMS[form], args.steps))
            print(
                f"round {number}: {form}: {told[form][-1]['whole_run']['step_ms']['median']:.2f} ms",
                file=sys.stderr,
                flush=True,
            )
    print(f"{'':20}    step  = data wait + compute (of it dispatch) + host   bound by        cores of all, own")
    for form, runs in told.items():
        step, wait, compute, dispatch, host = (median(runs, part) for part in PARTS)
        cores, own = (
            statistics.median(run["machine"][name] for run in runs) for name in ("cpu_cores", "process_cores")
        )
        figures = f"{step:8.2f}  {wait:8.2f} {compute:10.2f} {dispatch:11.2f} {host:11.2f}"
        print(f"{form:20}{figures}      {runs[-1]['bound']!s:14}  {cores:.1f} {own:.1f}")
    for slow in ("generator", "tf.data"):
        check_forecast(slow, told[slow], told[f"{slow}, prefetch"])
    for batch in (1, 100):
        explain(batch, told[f"eager, batch {batch}"], told[f"graph, batch {batch}"])


def train(words: tuple[str, ...], steps: int) -> dict[str, Any]:
    """A run's document."""
    with tempfile.TemporaryDirectory() as runs:
        options = ["--steps", str(steps), "--seed", "1", "--json", "--runs-dir", runs]
        command = [sys.executable, "-m", "tfwatch", "train", *words, *options]
        return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def median(runs: list[dict[str, Any]], part: str) -> float:
    """Of the rounds' medians, milliseconds."""
    return float(statistics.median(run["whole_run"][part]["median"] for run in runs))


def check_forecast(name: str, off: list[dict[str, Any]], on: list[dict[str, Any]]) -> None:
    """Print what prefetch was to give, and what it gave."""
    wait, rest = median(off, "data_wait_ms"), median(off, "compute_ms") + median(off, "host_ms")
    low, high, found = max(wait, rest), wait + rest, median(on, "step_ms")
    verdict = "as foretold" if low * (1 - MOST) <= found <= high * (1 + MOST) else "NOT as foretold"
    alone = found / low - 1
    print(f"{name} with prefetch: foretold {low:.2f} to {high:.2f} ms, came {found:.2f} ms, {verdict}", end="")
    print(f" ({alone:+.0%} of what cores of its own would give)")


def explain(batch: int, eager: list[dict[str, Any]], graph: list[dict[str, Any]]) -> None:
    """Print how much of what a graph saves is Python's."""
    slow, fast, python = median(eager, "step_ms"), median(graph, "step_ms"), median(eager, "dispatch_ms")
    saved = slow - fast
    print(
        f"batch {batch}: eager / graph {slow / fast:.1f}: {saved:.1f} ms saved, {python:.1f} of them Python's", end=""
    )
    print(f" ({python / saved:.0%}); the rest is operations that a graph leaves out, joins or runs side by side")


if __name__ == "__main__":
    main()
