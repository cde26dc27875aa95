"""The errors of forecasts of switches, and the share of measured steps within their range.

    python -m tests.bench.forecast [--switches 12] [--only NAME]

Trains with knobs that are switched: loaders that sleep, or compute, before convolutions (without a
GPU, half of them before a step that sleeps too, because there data and compute share the cores).
Each forecast is made from the run folder as it was just before the switch was requested, and
compared with the median of the settled steps after it. Takes two minutes on free cores. Exits with
1 where too few switches have a forecast.
"""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from tests.bench.injected import Sleeping, Sleeps
from tests.bench.runner import make_parser, print_head, print_row
from tests.bench.starvation import CLASSES, SIZE, delayed, find_batch, make_model
from tfwatch import Watch, open_run
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import step_ms
from tfwatch.judge.effects.comparison import Comparison
from tfwatch.judge.forecasts.evidence import build_evidence, stage_table_at
from tfwatch.judge.forecasts.forecast import Forecast, forecast
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.requests import SwitchRequest, append
from tfwatch.tfdata import work_ahead
from tfwatch.watch.tensorflow_info import find_device

_STEP_MS = 15.0
#: More steps of the first setting: compile, and the start of the pipeline.
_FIRST_STEPS = 15
#: Files of a batch.
_FILES = 8
#: Loops over 4 096 numbers that take a millisecond of a core of 2 GHz.
_LOOPS_PER_MS = 60
#: A loader's times, repeated: every eighth batch takes long.
_BURSTS = (60.0, *[0.0] * 7)


class Case(NamedTuple):
    """A training and its switches, as (knob, value) in order.

    load_ms: the times of a batch's loading, in turn. steps: of each setting; a comparison takes 60,
    and stages are read once a second. computes: the loader computes instead of sleeping: a map that
    sleeps is stateful, and workers leave it serial. sleeps: where there is no GPU, the step sleeps
    instead of computing.
    """

    name: str
    turns: tuple[tuple[str, str], ...]
    load_ms: tuple[float, ...]
    steps: int = 150
    computes: bool = False
    sleeps: bool = False


CASES = (
    Case(
        "loader 8 ms",
        (("prefetch", "4"), ("prefetch", "8"), ("prefetch", "off"), ("prefetch", "2")),
        load_ms=(8.0,),
        sleeps=True,
    ),
    Case(
        "loader 6 ms",
        (("prefetch", "4"), ("prefetch", "off"), ("prefetch", "4")),
        load_ms=(6.0,),
    ),
    Case(
        "loader 30 ms",
        (("prefetch", "4"), ("workers", "4"), ("prefetch", "off"), ("workers", "off")),
        load_ms=(30.0,),
        steps=80,
        computes=True,
        sleeps=True,
    ),
    Case(
        "bursts",
        (("prefetch", "1"), ("prefetch", "8"), ("prefetch", "off")),
        load_ms=_BURSTS,
    ),
)


# -- the trainings --------------------------------------------------------------------------------


def make_sleeper() -> Any:
    """Return a model whose step sleeps and so needs no core, like a step on another device."""
    image, sleeping = keras.Input((SIZE, SIZE, 3)), Sleeping()
    sleeping.sleeps = Sleeps(np.full(1, _STEP_MS))
    pooled = keras.layers.GlobalAveragePooling2D()(sleeping(image))
    model = keras.Model(image, keras.layers.Dense(CLASSES, activation="softmax")(pooled))
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def train(case: Case, model: Any, batch: int, runs_dir: Path) -> JudgedRun:
    """Train a case with its switches, each of which waits for its step, and return its run."""
    watch = Watch(runs_dir)

    def request(step: int, logs: Any) -> None:
        for number, (knob, value) in enumerate(case.turns if step == 0 else (), 1):
            at_step = _FIRST_STEPS + number * case.steps
            append(Path(watch.run_path or ""), SwitchRequest(knob, value, "command", at_step))

    callbacks = [watch, keras.callbacks.LambdaCallback(on_train_batch_end=request)]
    steps = _FIRST_STEPS + (len(case.turns) + 1) * case.steps
    model.fit(_loader(case, batch), steps_per_epoch=steps, verbose=0, callbacks=callbacks)
    return JudgedRun(open_run(watch.run_path or ""))


def _loader(case: Case, batch: int) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    with tf.device("/CPU:0"):
        x = tf.constant(rng.normal(size=(batch, SIZE, SIZE, 3)).astype("float32"))
        y = tf.constant(rng.integers(0, CLASSES, size=batch))
        load_ms = tf.constant(case.load_ms, tf.float64)
    load = _computed if case.computes else delayed

    def load_one(number: tf.Tensor) -> tf.Tensor:
        return load(number, tf.gather(load_ms, (number // _FILES) % len(case.load_ms)) / _FILES)

    numbers = tf.data.Dataset.range(10**9).map(load_one).batch(_FILES)
    return numbers.map(lambda _: (x, y)).with_options(work_ahead.options(Knobs()))


def _computed(number: tf.Tensor, work_ms: tf.Tensor) -> tf.Tensor:
    """Return the number after work on one core, about as long."""
    _, numbers = tf.while_loop(
        lambda n, _: n < tf.cast(work_ms * _LOOPS_PER_MS, tf.int32),
        lambda n, numbers: (n + 1, tf.tanh(numbers)),
        (0, tf.ones(4096)),
        parallel_iterations=1,
    )
    return number + tf.cast(numbers[0] > 1, number.dtype)


# -- the forecasts --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """A switch with its forecast, made from the evidence before its request, and the median of the
    settled steps after it."""

    switch: Comparison
    forecast: Forecast
    measured_ms: float

    @property
    def error(self) -> float:
        """The error of the forecast, as a share of the measured step; below 0 it was too low."""
        return self.forecast.step_ms / self.measured_ms - 1

    @property
    def is_inside(self) -> bool:
        """True where the measured step lies in the prediction interval."""
        return self.forecast.low_ms <= self.measured_ms <= self.forecast.high_ms


def check_forecasts(judged: JudgedRun) -> Iterator[Checked]:
    """Yield the settled switches that have a forecast."""
    run, switches = judged.run, judged.switches
    for n, switch in enumerate(switches):
        if not switch.settled or switch.beside or switch.after is None:
            continue
        rows = run.steps_between(switch.asked_step, switch.asked_step)
        at_ns = int(rows["start_ns"][-1] + 1e6 * step_ms(rows)[-1]) if len(rows) else 0
        table = stage_table_at(run, at_ns)
        known = build_evidence(run, switches[:n], table, switch.asked_step, at_ns)
        made = forecast(known, {switch.knob: switch.new})
        if made.is_known:
            yield Checked(switch, made, switch.after.step.median)


def print_checked(case: Case, one: Checked) -> None:
    """Print the row of a switch."""
    switch, made = one.switch, one.forecast
    before = switch.before.step.median if switch.before else float("nan")
    print_row(
        case.name,
        f"{switch.knob} {switch.old} > {switch.new}",
        f"{before:.1f}",
        f"{made.step_ms:.1f} ({made.low_ms:.1f} to {made.high_ms:.1f})",
        f"{one.measured_ms:.1f}",
        f"{one.error:+.1%}",
        "yes" if one.is_inside else "NO",
        "measured before" if made.measured else made.why,
    )


def summary(checked: Sequence[Checked]) -> str:
    """Return the median error, and how many measured steps lie in their range."""
    if not checked:
        return "none"
    error, inside = median(abs(one.error) for one in checked), sum(one.is_inside for one in checked)
    return f"{len(checked)} switches, median error {error:.1%}, {inside} in range"


def main() -> int:
    """Train and compare."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--switches", type=int, default=12, help="the least number of switches with a forecast"
    )
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    device = find_device()
    models = {False: make_model(), True: make_sleeper()}
    batch = find_batch(models[False], _STEP_MS)
    print_head("training", "switch", "before, ms", "forecast", "measured", "error", "in range", "")
    checked: list[Checked] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.only in case.name:
                model = models[case.sleeps and not device.accelerated]
                found = list(check_forecasts(train(case, model, batch, Path(folder))))
                checked += found
                for one in found:
                    print_checked(case, one)
    fresh = [one for one in checked if not one.forecast.measured]
    print(f"\n{device.name}: {summary(checked)}; never measured before: {summary(fresh)}")
    return 0 if len(checked) >= options.switches else 1


if __name__ == "__main__":
    sys.exit(main())
