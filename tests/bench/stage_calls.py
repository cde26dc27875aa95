"""The errors of forecasts of one stage's parallel calls, in a script's own pipeline.

    python -m tests.bench.stage_calls [--only WORD] [--rounds 1]

Trains on pipelines of maps of different costs, which decode an image each, and switches the parallel calls of single
maps. Each forecast is made from the run as it was just before the switch was requested, and compared with the median of
the settled steps after it. The steps sleep, as on another device, or compute on the same cores. Prints a row for each
switch, and the median error. Exits with 1 where fewer than nine of ten measured steps lie in their interval.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import psutil
import tensorflow as tf

from tests.bench.stage_work import STAGES, computing
from tests.bench.turned import SECONDS, STEPS
from tfwatch import Watch, open_run
from tfwatch.analysis.tuning.forecasting.forecast import Record
from tfwatch.checks.injected_trainings import Sleeping, Sleeps
from tfwatch.live.judged_run import JudgedRun
from tfwatch.tfdata.rebuilding import pipeline_tree
from tfwatch.workloads.data.jpeg import delayed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.analysis.tuning.forecasting.forecast import CheckedForecast
    from tfwatch.core.knobs import Setting, StageSettings

#: A sleep stands for a slow read, which takes no core: here it may run in parallel as `ReadFile` may.
pipeline_tree._READING |= {"DatasetToSingleElement", "SleepDataset", "TakeDataset", "TensorDataset"}
_Build: TypeAlias = Callable[[], tf.data.Dataset]
_NAMES = ("read", "decode", "augment")
#: Steps of a setting beside those that are compared: compile, the replay of the epoch, the start of the pipeline.
_BEFORE = 30
_EXAMPLES, _STEP_MS = 8, 6.0
#: The copies of a batch in a step that computes, and the units of its layers.
_COPIES, _UNITS = 16, 512


@dataclass(frozen=True)
class Case:
    """A pipeline of a script, and the parallel calls of its maps, in turn.

    computes: the step computes on the cores that prepare its batches. own: with TensorFlow's own map parallelism.
    """

    name: str
    build: _Build
    turns: Sequence[Setting | StageSettings]
    computes: bool = False
    own: bool = False


def _numbers() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(tf.zeros(STAGES)).repeat()


def _named(name: str, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @tf.autograph.experimental.do_not_convert
    def stage(x: Any) -> Any:
        return work(x)

    stage.__name__ = stage.__wrapped__.__name__ = name
    return cast("Callable[[Any], Any]", stage)


#: Makes the function of a map that takes so many milliseconds.
_Kind = Callable[[float], Callable[[Any], Any]]


def reading(ms: float) -> Callable[[Any], Any]:
    """Return a function that waits as for storage, and needs no core."""
    return partial(delayed, latency_ms=ms)


def _mapped(
    data: tf.data.Dataset, kind: _Kind, maps: Sequence[float], calls: int | None = None
) -> tf.data.Dataset:
    for name, ms in zip(_NAMES, maps, strict=False):
        data = data.map(_named(name, kind(ms)), num_parallel_calls=calls)
    return data


def _examples(kind: _Kind, *maps: float, calls: int | None = None, ahead: int = 0) -> _Build:
    """Return a pipeline of maps of single examples: the milliseconds of a batch in each."""

    def build() -> tf.data.Dataset:
        data = _mapped(_numbers(), kind, [ms / _EXAMPLES for ms in maps], calls).batch(_EXAMPLES)
        return data.prefetch(ahead) if ahead else data

    return build


def _batches(kind: _Kind, *maps: float) -> _Build:
    return lambda: _mapped(_numbers().batch(_EXAMPLES), kind, maps)


def _around_the_batch(kind: _Kind) -> _Build:
    def build() -> tf.data.Dataset:
        data = _mapped(_numbers(), kind, [16 / _EXAMPLES]).shuffle(32).batch(_EXAMPLES)
        return data.map(_named(_NAMES[1], kind(8)))

    return build


_EACH: tuple[StageSettings, ...] = (
    ("auto", "default"),
    ("auto", "off"),
    ("off", "auto"),
    ("auto", 2),
)
_SECOND: tuple[StageSettings, ...] = (
    ("default", "auto"),
    ("default", "off"),
    ("auto", "off"),
    (2, "auto"),
)
_THREE: tuple[StageSettings, ...] = (
    ("default", "auto", "default"),
    ("auto", "auto", "default"),
    ("auto", "off", "off"),
)


def _cases(kind: _Kind) -> Iterator[Case]:
    name = kind.__name__
    yield Case(f"{name}, 16 then 4 ms", _examples(kind, 16, 4), _EACH)
    yield Case(f"{name}, 16 then 4 ms, all alike", _examples(kind, 16, 4), ("auto", "off", 2))
    yield Case(f"{name}, 4 then 16 ms", _examples(kind, 4, 16), _SECOND)
    yield Case(f"{name}, 10 then 10 ms", _examples(kind, 10, 10), _EACH)
    yield Case(f"{name}, 16 then 4 ms, prefetched", _examples(kind, 16, 4, ahead=2), _EACH)
    yield Case(
        f"{name}, 16 then 4 ms, 2 calls each",
        _examples(kind, 16, 4, calls=2),
        (("off", 2), (2, "off")),
    )
    yield Case(f"{name}, batches of 16 then 4 ms", _batches(kind, 16, 4), _EACH)
    yield Case(f"{name}, batches of 4 then 16 ms", _batches(kind, 4, 16), _SECOND)
    yield Case(f"{name}, 16 before, 8 ms after the batch", _around_the_batch(kind), _EACH)
    yield Case(f"{name}, 8, 16, 8 ms", _examples(kind, 8, 16, 8), _THREE)


CASES = (
    *_cases(reading),
    *_cases(computing),
    Case(
        "computing, 16 then 4 ms, as TensorFlow",
        _examples(computing, 16, 4),
        (("off", "default"),),
        own=True,
    ),
    Case("computing, 16 then 4 ms, step too", _examples(computing, 16, 4), _EACH, computes=True),
    Case("computing, 4 then 16 ms, step too", _examples(computing, 4, 16), _SECOND, computes=True),
)


class _Turning(keras.callbacks.Callback):
    """Switches to each setting once the one before it has lasted, and then ends the training."""

    def __init__(self, watch: Watch, turns: Sequence[Setting | StageSettings]) -> None:
        super().__init__()
        self._watch, self._turns = watch, [*turns]
        self._steps, self._since_s = 0, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._steps += 1
        if self._steps < STEPS + _BEFORE or time.perf_counter() - self._since_s < SECONDS:
            return
        self._steps, self._since_s = 0, time.perf_counter()
        if self._turns:
            self._watch.set(workers=self._turns.pop(0))
        else:
            self.model.stop_training = True


class _Mean(keras.layers.Layer):
    """Makes the loss."""

    def call(self, x: Any) -> Any:
        self.add_loss(tf.reduce_mean(x * x))
        return x


def make_model(*, computes: bool) -> Any:
    """Return a model whose step sleeps, or computes."""
    x = keras.Input((STAGES,))
    if computes:
        made = keras.layers.Lambda(lambda x: tf.tile(x, [_COPIES, 1]))(x)
        for _ in range(2):
            made = keras.layers.Dense(_UNITS)(made)
    else:
        sleeping = Sleeping()
        sleeping.sleeps = Sleeps(np.full(1, _STEP_MS))
        made = sleeping(x)
    model = keras.Model(x, _Mean()(keras.layers.Dense(1)(made)))
    model.compile("sgd", jit_compile=False)
    return model


def train(case: Case, folder: Path) -> Record:
    """Train a case; return its forecasts."""
    data, options = case.build(), tf.data.Options()
    options.experimental_optimization.map_parallelization = case.own
    watch = Watch(folder)
    model = make_model(computes=case.computes)
    turning = _Turning(watch, case.turns)
    model.fit(
        data.with_options(options), steps_per_epoch=10**6, verbose=0, callbacks=[watch, turning]
    )
    assert watch.run_path
    return JudgedRun(open_run(watch.run_path)).record


def print_row(case: Case, one: CheckedForecast) -> None:
    """Print a switch."""
    switch, forecast = one.switch, one.forecast
    before = switch.before.step.median if switch.before else float("nan")
    expected = f"{forecast.step_ms:.1f} ({forecast.low_ms:.1f} to {forecast.high_ms:.1f})"
    print(
        f"| {case.name} | {switch.old} > {switch.new} | {before:.1f} | {expected} | {one.measured_ms:.1f} "
        f"| {one.off:+.1%} | {'yes' if one.inside else 'NO'} |",
        flush=True,
    )


def main() -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    print("| pipeline | switch | before, ms | forecast, ms | measured, ms | off | in range |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |", flush=True)
    checked: list[CheckedForecast] = []
    asked = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in [
            case for _ in range(options.rounds) for case in CASES if options.only in case.name
        ]:
            asked += len(case.turns)
            for one in train(case, Path(folder)).checked:
                checked.append(one)
                print_row(case, one)
    found = Record(tuple(checked))
    load = f"load {os.getloadavg()[0]:.1f}, {psutil.cpu_count()} cores"
    print(
        f"\n{len(checked)} of {asked} switches have a forecast, median {found.median_error:.1%} off; ",
        end="",
    )
    print(f"{found.inside} of {len(checked)} in range; {load}")
    return 0 if checked and found.inside >= 0.9 * len(checked) else 1


if __name__ == "__main__":
    sys.exit(main())
