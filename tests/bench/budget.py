"""The cost of reading a pipeline's stages, and of an A/B test, in a training: paired, in one interleaved run.

    python -m tests.bench.budget [--rounds 10] [--steps 1200] [--batch 384]

Every round runs every arm once, in random order, for one epoch over the same pipeline: bare `fit`; bare `fit` again,
which is the noise; Watch without reading stages; Watch; a switchable pipeline without a switch; and the same with an
A/B test between two equal settings. Prints for each arm the median of its ratios to the arm that it extends.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tensorflow as tf

from tests.bench.overhead import AGAIN, BARE, SKIP, WATCH, Stopwatch, make_model
from tfwatch import Watch
from tfwatch.core.events import ExperimentEnded
from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Control, Experiment
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.opened import read_run
from tfwatch.tfdata.work_ahead import buffer_size, num_parallel_calls, options, without_autotune
from tfwatch.tuner.thread import TunerThread
from tfwatch.watch.fit import fetch
from tfwatch.watch.session import Session

WIDTH = 256
UNREAD, LEFT_ALONE, EXPERIMENT = "Watch, stages unread", "own pipeline", "own pipeline, experiment"
#: The arm that each one is compared with.
AGAINST = {AGAIN: BARE, UNREAD: BARE, WATCH: UNREAD, LEFT_ALONE: BARE, EXPERIMENT: LEFT_ALONE}
WORKERS = 2
_KNOBS = Knobs(prefetch=4, workers=WORKERS)


class Unread:
    """A `StageReader` that reads nothing."""

    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


def make_source(batch: int) -> tf.data.Dataset:
    """Return endless examples before any work."""
    x, y = tf.random.normal((16 * batch, WIDTH), seed=1), tf.zeros((16 * batch,), tf.int64)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch).cache().repeat()


def pipeline(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """Return two maps with fixed workers and a prefetch: four stages to read."""
    mapped = batches.map(_scaled, num_parallel_calls(WORKERS)).map(_positive)
    return mapped.prefetch(buffer_size(knobs.prefetch)).with_options(options(_KNOBS))


def _scaled(x: Any, y: Any) -> Any:
    return x * 2.0 - 1.0, y


def _positive(x: Any, y: Any) -> Any:
    return tf.abs(x), y


def plain_ms(name: str, model: Any, source: tf.data.Dataset, steps: int, folder: Path) -> float:
    """Return ms/step of `fit` over the pipeline of a script."""
    stopwatch = Stopwatch()
    with ExitStack() as stack:
        if name == UNREAD:
            stack.enter_context(patch.object(fetch, "StageReader", Unread))
        callbacks = [*([] if name in (BARE, AGAIN) else [Watch(folder)]), stopwatch]
        data = pipeline(source, _KNOBS)
        model.fit(data, steps_per_epoch=SKIP + steps, verbose=0, shuffle=False, callbacks=callbacks)
    return float(stopwatch.step_ms)


def own_ms(
    name: str, model: Any, source: tf.data.Dataset, steps: int, folder: Path
) -> tuple[float, int]:
    """Return ms/step of `fit` over a switchable pipeline, and the steps of its A/B test."""
    control = Control(_KNOBS)
    knobs = {"prefetch": "4", "workers": str(WORKERS)}
    writer, _ = begin_run(folder, "budget", knobs=knobs, switchable=["workers"])
    tuner = TunerThread(writer, control)
    # `pipeline` treats both settings alike; one of them is the current one.
    control.ask_tuner(
        Experiment("workers", (WORKERS, WORKERS + 1), steps) if name == EXPERIMENT else None
    )
    tuner.start()
    session = Session(writer, control, build=pipeline, source=source, stop_after=SKIP + steps)
    stand_in = source.with_options(without_autotune())
    stopwatch = Stopwatch()
    callbacks = [Watch(session=session), stopwatch]
    model.fit(stand_in, steps_per_epoch=SKIP + steps, verbose=0, shuffle=False, callbacks=callbacks)
    tuner.stop()
    writer.end("finished")
    writer.close()
    ended = [event for event in read_run(writer).events if isinstance(event, ExperimentEnded)]
    return float(stopwatch.step_ms), sum(event.spent for event in ended)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="the cost of reading the stages, and of an A/B test, in a training"
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=384)
    asked = parser.parse_args()
    names = (BARE, *AGAINST)
    source, models = make_source(asked.batch), {name: make_model(WIDTH) for name in names}
    turns, rows, spent = random.Random(1), [], []
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for n in range(-1, asked.rounds):
            row = {}
            for name in turns.sample(names, len(names)):
                if name in (LEFT_ALONE, EXPERIMENT):
                    row[name], took = own_ms(name, models[name], source, asked.steps, folder)
                    spent += [took] if name == EXPERIMENT else []
                else:
                    row[name] = plain_ms(name, models[name], source, asked.steps, folder)
            if n >= 0:  # the first traces
                rows.append(row)
            print(f"{n + 1:3d}  " + "  ".join(f"{row[name]:.3f}" for name in names), flush=True)
    print_table(rows)
    print(
        f"\nthe experiment took {statistics.median(spent[1:]):.0f} of {asked.steps} steps (median)"
    )


def print_table(rows: list[dict[str, float]]) -> None:
    """Print a line for each arm, as Markdown."""
    print(f"\n| {len(rows)} rounds | ms/step | compared with | ratio, median (least to most) |")
    print("| --- | ---: | --- | ---: |")
    print(f"| {BARE} | {statistics.median(row[BARE] for row in rows):.3f} | | |")
    for name, other in AGAINST.items():
        ratios = [row[name] / row[other] for row in rows]
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        print(
            f"| {name} | {statistics.median(row[name] for row in rows):.3f} | {other} | {spread} |"
        )


if __name__ == "__main__":
    main()
