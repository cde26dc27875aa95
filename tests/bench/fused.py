"""The cost and the figures of Watch with several steps per execution.

    python -m tests.bench.fused [--steps-per-execution 10] [--rounds 8] [--steps 400] [--delay-ms 0] [--convolutions]

Every round runs every arm once, in random order: bare `fit`, `fit` with the default Watch (which reads the clock inside
the graph), with `Watch(split="exact")` (single steps), and bare again, which is the noise. Prints for each arm the
median of its ratios to the bare `fit` of the same round, and its medians of wait and compute.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.bench import starvation
from tests.bench.overhead import AGAIN, BARE, SKIP, Stopwatch, make_data, make_model, ratios_of
from tfwatch import Watch, open_run

SPLITS = {BARE: "", "Watch": "fused", 'Watch(split="exact")': "exact", AGAIN: ""}


@dataclass
class Arm:
    """One way to call `fit`. medians: those of wait and compute, ms, in the last round."""

    split: str
    model: Any
    medians: tuple[float, float] | None = None

    def step_ms(self, data: Any, steps: int, folder: str) -> float:
        """Run one `fit` of one epoch; return ms/step."""
        stopwatch = Stopwatch()
        watch = Watch(tempfile.mkdtemp(dir=folder), self.split) if self.split else None  # type: ignore[arg-type]
        callbacks = [*([watch] if watch else []), stopwatch]
        self.model.fit(
            data,
            epochs=1,
            steps_per_epoch=SKIP + steps,
            verbose=0,
            shuffle=False,
            callbacks=callbacks,
        )
        if watch:
            rows = open_run(watch.run_path or "").steps[SKIP:]
            self.medians = float(np.median(rows["wait_ms"])), float(np.median(rows["compute_ms"]))
        return float(stopwatch.step_ms)


def make_arms(options: argparse.Namespace) -> dict[str, Arm]:
    """Return the arms, each with its own model, which has its own compiled function."""
    arms = {}
    for name, split in SPLITS.items():
        model = starvation.make_model() if options.convolutions else make_model(options.width)
        steps = options.steps_per_execution
        model.compile(
            "adam",
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=steps,
        )
        arms[name] = Arm(split, model)
    return arms


def make_batches(options: argparse.Namespace) -> Any:
    """Return endless batches, each late by the delay; with a delay nothing is prepared ahead."""
    import tensorflow as tf

    from tfwatch.core.knobs import Knobs
    from tfwatch.tfdata.work_ahead import options as pipeline_options
    from tfwatch.workloads.data.jpeg import delayed

    if options.convolutions:
        x, y = (
            tf.zeros((options.batch, starvation.SIZE, starvation.SIZE, 3)),
            tf.zeros((options.batch,), tf.int64),
        )
        batches = tf.data.Dataset.from_tensors((x, y)).repeat()
    else:
        batches = make_data(options.width, options.batch)
    if not options.delay_ms:
        return batches
    late = batches.map(lambda x, y: (x, delayed(y, options.delay_ms)))
    return late.with_options(pipeline_options(Knobs()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="the cost of Watch with several steps per execution"
    )
    parser.add_argument("--steps-per-execution", type=int, default=10, help="a divisor of 40")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--convolutions", action="store_true")
    options = parser.parse_args()
    data, arms, turns, rows = make_batches(options), make_arms(options), random.Random(1), []
    with tempfile.TemporaryDirectory() as folder:
        for arm in arms.values():
            arm.step_ms(data, SKIP, folder)
        for _ in range(options.rounds):
            order = turns.sample(list(arms), len(arms))
            rows.append({name: arms[name].step_ms(data, options.steps, folder) for name in order})
    print_table(arms, rows)


def print_table(arms: dict[str, Arm], rows: list[dict[str, float]]) -> None:
    """Print a line for each arm, as Markdown."""
    print(
        f"| {len(rows)} rounds | ms/step | ratio to bare, median (least to most) | wait | compute |"
    )
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, arm in arms.items():
        ratios = ratios_of(name, rows)
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        medians = " | ".join(f"{value:.2f}" for value in arm.medians) if arm.medians else "|"
        print(
            f"| {name} | {statistics.median(row[name] for row in rows):.3f} | {spread} | {medians} |"
        )


if __name__ == "__main__":
    main()
