"""The gain of a workload's fast pipeline against the forecast from its time breakdown, by `tfwatch train --json`.

    python -m tests.bench.fast_pipelines [--rounds 4] [--steps 400]

`generator`: without prefetch, with it, and in tf.data. The forecast with prefetch is made from the data wait D and the
rest C without it: the larger of both where they have separate cores, D + C where they share one. `cnn-loop`: eager and
as a graph, on batches of 1 and of 100: the Python time of an eager step, against the time that a graph saves. Every
round runs every form once, in random order; the figures are medians of the rounds.
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
    "tf.data": ("generator", "--fast-pipeline"),
    "tf.data, prefetch": ("generator", "--fast-pipeline", "--prefetch", "4"),
    "eager, batch 1": ("cnn-loop", "--fast-pipeline", "--eager", "--batch-size", "1"),
    "graph, batch 1": ("cnn-loop", "--fast-pipeline", "--batch-size", "1"),
    "eager, batch 100": ("cnn-loop", "--fast-pipeline", "--eager"),
    "graph, batch 100": ("cnn-loop", "--fast-pipeline"),
}
PARTS = ("step_ms", "data_wait_ms", "compute_ms", "dispatch_ms", "host_ms")
#: The tolerance of a forecast.
MOST = 0.10


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--steps", type=int, default=400)
    args = options.parse_args()
    rng = random.Random(1)
    runs_of: dict[str, list[dict[str, Any]]] = {form: [] for form in FORMS}
    for number in range(1, args.rounds + 1):
        for form in rng.sample(tuple(FORMS), len(FORMS)):
            runs_of[form].append(train(FORMS[form], args.steps))
            print(
                f"round {number}: {form}: {runs_of[form][-1]['whole_run']['step_ms']['median']:.2f} ms",
                file=sys.stderr,
                flush=True,
            )
    print(
        f"{'':20}    step  = data wait + compute (of it dispatch) + host   bound by        cores of all, own"
    )
    for form, runs in runs_of.items():
        step, wait, compute, dispatch, host = (median(runs, part) for part in PARTS)
        cores, own = (
            statistics.median(run["machine"][name] for run in runs)
            for name in ("cpu_cores", "process_cores")
        )
        figures = f"{step:8.2f}  {wait:8.2f} {compute:10.2f} {dispatch:11.2f} {host:11.2f}"
        print(f"{form:20}{figures}      {runs[-1]['bound']!s:14}  {cores:.1f} {own:.1f}")
    for slow in ("generator", "tf.data"):
        check_forecast(slow, runs_of[slow], runs_of[f"{slow}, prefetch"])
    for batch in (1, 100):
        explain(batch, runs_of[f"eager, batch {batch}"], runs_of[f"graph, batch {batch}"])


def train(arguments: tuple[str, ...], steps: int) -> dict[str, Any]:
    """Return the JSON of a run."""
    with tempfile.TemporaryDirectory() as runs:
        options = ["--steps", str(steps), "--seed", "1", "--json", "--runs-dir", runs]
        command = [sys.executable, "-m", "tfwatch", "train", *arguments, *options]
        return dict(
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        )


def median(runs: list[dict[str, Any]], part: str) -> float:
    """Return the median of the rounds' medians, in milliseconds."""
    return float(statistics.median(run["whole_run"][part]["median"] for run in runs))


def check_forecast(name: str, off: list[dict[str, Any]], on: list[dict[str, Any]]) -> None:
    """Print the forecast with prefetch and the measured step."""
    wait, rest = median(off, "data_wait_ms"), median(off, "compute_ms") + median(off, "host_ms")
    low, high, found = max(wait, rest), wait + rest, median(on, "step_ms")
    verdict = "as forecast" if low * (1 - MOST) <= found <= high * (1 + MOST) else "NOT as forecast"
    alone = found / low - 1
    print(
        f"{name} with prefetch: forecast {low:.2f} to {high:.2f} ms, measured {found:.2f} ms, {verdict}",
        end="",
    )
    print(f" ({alone:+.0%} compared with separate cores)")


def explain(batch: int, eager: list[dict[str, Any]], graph: list[dict[str, Any]]) -> None:
    """Print the share of Python in the time that a graph saves."""
    slow, fast, python = (
        median(eager, "step_ms"),
        median(graph, "step_ms"),
        median(eager, "dispatch_ms"),
    )
    saved = slow - fast
    print(
        f"batch {batch}: eager / graph {slow / fast:.1f}: {saved:.1f} ms saved, {python:.1f} of them Python's",
        end="",
    )
    print(
        f" ({python / saved:.0%}); the rest is operations that a graph omits, fuses or runs in parallel"
    )


if __name__ == "__main__":
    main()
