"""A/B tests with an injected truth: they find no difference between equal settings, and a difference of 5 %.

    python -m tests.bench.experiment [--same 40] [--differing 20] [--steps 600] [--delay-ms 10] [--seconds 200]
                                        [--seed 0] [--json]

Trains a tiny model many times, each time with an A/B test by tfwatch's tuner. A knob sets the delay of the batches. In
some runs both settings have the same delay, in the others one makes a step 5 % longer. Prints a line for each run and
the counts; with `--json` one object: the counts and `runs`. Exits with 1 where a difference is found in more than an
eighth of the equal runs, or in less than nine of ten of the differing ones, or where more than a tenth of the intervals
miss the truth.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from tfwatch.core.events import ExperimentEnded
from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Control, Experiment
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.opened import read_run
from tfwatch.tfdata.work_ahead import options, without_autotune
from tfwatch.tuner.thread import TunerThread
from tfwatch.watch.fit.callback import Watch
from tfwatch.watch.session import Session

if TYPE_CHECKING:
    from tfwatch.runs.writer import RunWriter

BATCH, WIDTH = 16, 32
EFFECT = 0.05
#: Settings of `workers`, which this pipeline uses as delays.
SHORT, LONG = 2, 3
_WARM_UP = 80
#: Steps before an experiment begins, and those still buffered at its end.
_AROUND = 200
MOST_FALSE = 1 / 8
LEAST_FOUND = 0.9


@dataclass(frozen=True)
class ExperimentRun:
    """One run. true_ratio: that of the step times, by the actual delays. kept: the setting at the end."""

    differs: bool
    true_ratio: float
    answer: str
    cause: str
    ratio: float | None
    low: float | None
    high: float | None
    spent: int
    counted: int
    rounds: int
    kept: str
    seconds: float

    @property
    def holds(self) -> bool:
        """True where the interval holds the truth, or is unknown."""
        return self.low is None or self.high is None or self.low <= self.true_ratio <= self.high

    @property
    def line(self) -> str:
        """The run in one line."""
        truth = f"truth {self.true_ratio:.3f}"
        measured = (
            "n/a" if self.ratio is None else f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"
        )
        cost = f"{self.rounds:3} rounds, {self.spent:4} steps, {self.seconds:4.1f} s"
        return f"{truth}  {self.answer:8} {measured:26} {cost}"


class Trainings:
    """A tiny model, trained once for each experiment on batches that are late by `delay_ms`.

    own_ms: the rest of a step.
    """

    def __init__(self, runs_dir: Path, delay_ms: float, steps: int) -> None:
        keras.utils.set_random_seed(1)
        self.model = keras.Sequential(
            [keras.Input((WIDTH,)), keras.layers.Dense(8), keras.layers.Dense(1)]
        )
        self.model.compile("sgd", "mse")
        self.delay_ms = delay_ms
        self.own_ms = 0.0
        self._runs_dir = runs_dir
        self._steps = steps
        self._extra_ms = 0.0
        self._slept: dict[int, list[float]] = {SHORT: [], LONG: []}

    def warm_up(self) -> None:
        """Measure a step without its delay."""
        rows = read_run(self._fit(None)).steps[20:]
        self.own_ms = float(np.median(rows["compute_ms"] + rows["host_ms"]))

    def run(self, differs: bool, seed: int) -> ExperimentRun:
        """Run one experiment."""
        self._extra_ms = EFFECT * (self.delay_ms + self.own_ms) if differs else 0.0
        self._slept = {SHORT: [], LONG: []}
        start = time.perf_counter()
        run = read_run(
            self._fit(Experiment("workers", (LONG, SHORT), self._steps, seed, ends=True))
        )
        ended = next(event for event in run.events if isinstance(event, ExperimentEnded))
        short_ms, long_ms = (
            statistics.median(self._slept[value]) + self.own_ms for value in (SHORT, LONG)
        )
        return ExperimentRun(
            differs=differs,
            true_ratio=long_ms / short_ms if differs else 1.0,
            answer=ended.answer,
            cause=ended.cause,
            ratio=ended.ratio,
            low=ended.low,
            high=ended.high,
            spent=ended.spent,
            counted=ended.steps,
            rounds=ended.rounds,
            kept=ended.kept,
            seconds=time.perf_counter() - start,
        )

    def _fit(self, order: Experiment | None) -> RunWriter:
        control = Control(Knobs(workers=LONG))
        knobs = {"prefetch": "off", "workers": str(LONG)}
        writer, _ = begin_run(self._runs_dir, "bench", knobs=knobs, switchable=["workers"])
        tuner = TunerThread(writer, control)
        control.ask_tuner(order)
        tuner.start()
        batch = np.ones((BATCH, WIDTH), "float32"), np.ones((BATCH, 1), "float32")
        source = tf.data.Dataset.from_tensors(batch).repeat()
        stop_after = _WARM_UP if order is None else self._steps + _AROUND
        session = Session(
            writer, control, build=self._pipeline, source=source, stop_after=stop_after
        )
        stand_in = tf.data.Dataset.from_tensors(batch).repeat().with_options(without_autotune())
        watch = Watch(session=session)
        self.model.fit(
            stand_in, steps_per_epoch=stop_after, verbose=0, shuffle=False, callbacks=[watch]
        )
        tuner.stop()
        writer.end("finished")
        writer.close()
        return writer

    def _pipeline(self, batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
        slept = self._slept[int(str(knobs.workers))]
        delay_ms = self.delay_ms + (self._extra_ms if knobs.workers == LONG else 0.0)

        def sleep(x: Any) -> Any:
            begin_ns = time.perf_counter_ns()
            time.sleep(delay_ms / 1e3)
            slept.append((time.perf_counter_ns() - begin_ns) / 1e6)
            return x

        def delayed(x: Any, y: Any) -> Any:
            late = tf.numpy_function(sleep, [x], tf.float32)
            late.set_shape(x.shape)
            return late, y

        return batches.map(delayed).with_options(options(Knobs()))


def counts(runs: list[ExperimentRun]) -> dict[str, Any]:
    """Return the counts of all runs; a ratio is that of the long step over the short one."""
    same, differing = ([run for run in runs if run.differs is differs] for differs in (False, True))
    return {
        "same": len(same),
        "false_alarms": sum(run.answer in ("faster", "slower") for run in same),
        "reported_as_same": sum(run.answer == "same" for run in same),
        "steps_same": _median([run.spent for run in same]),
        "differing": len(differing),
        "found": sum(run.answer == "faster" and run.kept == str(SHORT) for run in differing),
        "true_ratio": _median([run.true_ratio for run in differing]),
        "measured_ratio": _median([run.ratio for run in differing if run.ratio is not None]),
        "steps_differing": _median([run.spent for run in differing]),
        "intervals_that_hold": sum(run.holds for run in runs),
        "all": len(runs),
    }


def _median(values: list[Any]) -> float | None:
    return statistics.median(values) if values else None


def is_good(found: dict[str, Any]) -> bool:
    """Return True where these counts are within the limits that tfwatch documents."""
    few_alarms = found["false_alarms"] <= MOST_FALSE * found["same"]
    all_found = found["found"] >= LEAST_FOUND * found["differing"]
    return bool(
        few_alarms and all_found and found["intervals_that_hold"] >= LEAST_FOUND * found["all"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--same", type=int, default=40, help="runs with equal settings")
    parser.add_argument(
        "--differing", type=int, default=20, help="runs in which a step differs by 5 %%"
    )
    parser.add_argument("--steps", type=int, default=600, help="an experiment's budget")
    parser.add_argument("--delay-ms", type=float, default=10.0)
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the first run's order of blocks; each further run adds 1",
    )
    parser.add_argument("--seconds", type=float, default=200.0, help="start no run after this time")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    end_s = time.perf_counter() + args.seconds
    # Both kinds are spread evenly over time, so that changes of the machine affect both.
    places = [
        (at / count, differs)
        for count, differs in ((args.same, False), (args.differing, True))
        for at in range(count)
    ]
    runs: list[ExperimentRun] = []
    with tempfile.TemporaryDirectory() as folder:
        trainings = Trainings(Path(folder), args.delay_ms, args.steps)
        trainings.warm_up()
        for seed, (_, differs) in enumerate(sorted(places), args.seed):
            if time.perf_counter() > end_s:
                break
            runs.append(trainings.run(differs, seed))
            if not args.json:
                print(runs[-1].line, flush=True)
    found = counts(runs)
    if args.json:
        print(
            json.dumps(
                {**found, "own_ms": trainings.own_ms, "runs": [asdict(run) for run in runs]},
                indent=1,
            )
        )
    else:
        print(*(f"{name:20} {value}" for name, value in found.items()), sep="\n")
    return 0 if is_good(found) else 1


if __name__ == "__main__":
    sys.exit(main())
