"""Pairs of real runs in processes of their own, compared as `tfwatch compare` does: with no difference, and with 3 %.

    python -m tests.bench.between_runs FOLDER [--rounds 50] [--more 30] [--slower 0.03]

Trains `dense` for 300 steps again and again: in each round once plainly, and once with a delay in every step, in random
order; then `--more` plain runs. FOLDER keeps the runs, so that a benchmark that is stopped goes on where it was.

Then compares: plain runs in pairs, with one and with three runs a side; and five plain with five delayed ones. Prints
how many pairs are claimed to differ, in step time and in a part of it, and the spread between the plain runs. Exits
with 1 where more than 2 of 40 equal pairs are claimed, or the delay is found in fewer than 9 of 10 pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core.rows import step_ms
from tfwatch.live.comparing.compared_runs import compare_runs
from tfwatch.live.comparing.measured_runs import RunToCompare
from tfwatch.live.judged_run import JudgedRun
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    Side = Sequence[RunToCompare]

PLAIN, DELAYED = "plain", "delayed"
A_SIDE = 5
STEPS = 300
WORDS = [
    "train",
    "dense",
    "--headless",
    "--steps",
    str(STEPS),
    "--seed",
    "1",
    "--batch-size",
    "512",
]
WORDS += ["--fast-pipeline", "--prefetch", "4"]
#: A sleep is longer than asked for: this much before its end the delay waits in a loop.
_OVERSLEPT_S = 2e-4


def delay(delay_s: float) -> None:
    """Wait for exactly this long."""
    end_s = time.perf_counter() + delay_s
    time.sleep(max(delay_s - _OVERSLEPT_S, 0))
    while time.perf_counter() < end_s:
        pass


def train_delayed(runs_dir: Path, delay_ms: float) -> int:
    """Train in this process, each step longer by `delay_ms`, and return the exit code."""
    import keras

    from tfwatch.cli import main as tfwatch

    class Delay(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if delay_ms:
                delay(delay_ms / 1e3)

    fit = keras.Model.fit

    def fit_delayed(model: Any, *args: Any, callbacks: list[Any], **options: Any) -> Any:
        return fit(model, *args, callbacks=[*callbacks, Delay()], **options)

    keras.Model.fit = fit_delayed
    return tfwatch([*WORDS, "--runs-dir", str(runs_dir)])


def train(folder: Path, kind: str, delay_ms: float) -> None:
    """Train in a process of its own."""
    words = [
        sys.executable,
        "-m",
        "tests.bench.between_runs",
        str(folder / kind),
        "--delay-ms",
        str(delay_ms),
    ]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    subprocess.run(words, check=True, timeout=300, capture_output=True, env=environment)


def make_runs(folder: Path, rounds: int, more: int, slower: float) -> None:
    """Train the runs that the folder lacks."""
    delay_ms = _delay_ms(folder, slower)
    order = random.Random(0)
    kinds = [kind for _ in range(rounds) for kind in order.sample([PLAIN, DELAYED], 2)] + [
        PLAIN
    ] * more
    done = {kind: len(list((folder / kind).glob("*_dense*"))) for kind in (PLAIN, DELAYED)}
    for kind in kinds:
        if done[kind]:
            done[kind] -= 1
        else:
            train(folder, kind, delay_ms if kind == DELAYED else 0.0)


def _delay_ms(folder: Path, slower: float) -> float:
    """Return the delay that makes a step longer by a share, from the first run."""
    known = folder / "delay.json"
    if not known.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for _ in range(3):
            train(folder, "trials", 0.0)
        trials = [_median_ms(run) for run in (folder / "trials").glob("*_dense*")]
        known.write_text(json.dumps({"delay_ms": slower * sorted(trials)[1]}), encoding="utf-8")
    return float(json.loads(known.read_text(encoding="utf-8"))["delay_ms"])


def _median_ms(folder: Path) -> float:
    return float(np.median(step_ms(open_run(folder).steps)))


def judge(folder: Path) -> int:
    """Compare the runs, print the counts and return the exit code."""
    plain, delayed = (_opened(folder / kind) for kind in (PLAIN, DELAYED))
    medians = np.log([np.median(step_ms(run.rows)) for run in plain])
    others = np.median([run.others_share or 0.0 for run in plain])
    spread = float(medians.std(ddof=1))
    print(
        f"{len(plain)} plain runs: step time differs by {spread:.1%}, others used {others:.0%} of the cores"
    )
    equal = [([one], [other]) for one, other in zip(plain[::2], plain[1::2], strict=False)]
    threes = [(plain[n : n + 6 : 2], plain[n + 1 : n + 6 : 2]) for n in range(0, len(plain) - 5, 6)]
    count = min(len(plain), len(delayed)) // A_SIDE
    pairs = [(plain[n * A_SIDE :][:A_SIDE], delayed[n * A_SIDE :][:A_SIDE]) for n in range(count)]
    wrong = _report("equal, 1 run a side", equal)
    _report("equal, 3 runs a side", threes)
    found = _report(f"delayed, {A_SIDE} runs a side", pairs)
    return 0 if wrong * 40 <= 2 * len(equal) and found * 10 >= 9 * len(pairs) else 1


def _report(name: str, pairs: Sequence[tuple[Side, Side]]) -> int:
    """Print the claims on pairs of sides, and return the number of pairs with a claim."""
    found = [compare_runs(pair)[0] for pair in pairs]
    step = [one.answer in ("faster", "slower") for one in found]
    part = [bool(one.clear_parts) for one in found]
    either = sum(one or other for one, other in zip(step, part, strict=True))
    print(
        f"{name:26} {len(pairs):3} pairs: {either} claimed; step time {sum(step)}, a part {sum(part)}"
    )
    return either


def _opened(folder: Path) -> list[RunToCompare]:
    runs = (open_run(run) for run in sorted(folder.glob("*_dense*")))
    return [RunToCompare(JudgedRun(run), run.manifest.run) for run in runs if run.ended]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--more", type=int, default=30)
    parser.add_argument("--slower", type=float, default=0.03)
    parser.add_argument("--delay-ms", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.delay_ms is not None:
        return train_delayed(options.folder, options.delay_ms)
    make_runs(options.folder, options.rounds, options.more, options.slower)
    return judge(options.folder)


if __name__ == "__main__":
    sys.exit(main())
