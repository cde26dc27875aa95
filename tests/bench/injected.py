"""Watch's figures against trainings with known delays.

    python -m tests.bench.injected [--rounds 1]

A `fit` over batches that are made on request, so that each delay in them is data wait in full, and
a loop under `tfwatch.track`. A seeded schedule decides which steps sleep in their fetch, their
compute and their host part, and each sleep times itself. The steps without a sleep in a part show
that part's own cost, which is subtracted. Prints a line for each delay: what was injected and what
Watch measured, medians of the steps; and the sum of the parts against the wall clock.
"""

import contextlib
import gc
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tests.bench.runner import make_parser, print_head, print_row
from tests.tfdata.batches import without_autotune
from tfwatch import Watch, open_run, track
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Rows
from tfwatch.runs.snapshot import Snapshot
from tfwatch.tfdata.work_ahead import options

PARTS = ("wait", "compute", "host")
FIT, LOOP = "fit", "tfwatch.track"
#: The tolerance of each part: milliseconds, or this share of the injected figure where that is
#: more. Compute and callbacks have varying costs of their own.
_TOLERANCES = {"wait": (0.3, 0.02), "compute": (1.5, 0.05), "host": (1.0, 0.05)}
#: Percent of the wall clock.
_WALL_TOLERANCE = 0.1
_DELAYS_MS = (0, 0, 1, 2, 5, 10, 20, 40)


class Schedule(NamedTuple):
    """One training of `steps` steps. `*_ms`: the sleeps in that part, of which each step draws one.

    kind: the way in which the training gets its batches.
    """

    wait_ms: tuple[float, ...] = (0.0,)
    compute_ms: tuple[float, ...] = (0.0,)
    host_ms: tuple[float, ...] = (0.0,)
    kind: str = FIT
    steps: int = 160


SCHEDULES = (
    Schedule(_DELAYS_MS, (0, 0, 4, 12), (0, 0, 2, 6)),
    Schedule(_DELAYS_MS, (0, 0, 4, 12), kind=LOOP),
)


class KnownDelay(NamedTuple):
    """One comparison. tolerance: the error that passes; NaN, of too few steps, does not."""

    name: str
    injected: float
    measured: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """True within the tolerance."""
        return abs(self.measured - self.injected) <= self.tolerance


_BATCH = 8
#: Steps at a training's start that are not compared: trace, first batch.
_WARM_UP = 4
#: The fewest steps of a median.
_LEAST = 5


class Sleeps:
    """Planned delays, one after another; each lasts from the begin of its sleep until the code
    after it continues.

    The machine's time to wake up, 0.3 ms after 20 ms, is part of the delay and no error of the
    measurement.
    """

    def __init__(self, planned_ms: NDArray[np.float64]) -> None:
        self._planned_ms = planned_ms
        self._begin_ns: list[int] = []
        self._end_ns: list[int] = []

    def begin(self) -> None:
        """Begin a delay and sleep."""
        planned_ms = float(self._planned_ms[len(self._begin_ns) % len(self._planned_ms)])
        self._begin_ns.append(time.perf_counter_ns())
        if planned_ms:
            time.sleep(planned_ms / 1e3)

    def end(self) -> None:
        """End a delay."""
        self._end_ns.append(time.perf_counter_ns())

    def last(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the planned and the real milliseconds of the last delays, which are the steps':
        Keras fetches extra batches of some kinds before the first step."""
        planned_ms = np.resize(self._planned_ms, len(self._begin_ns))[-count:]
        return planned_ms, np.subtract(self._end_ns[-count:], self._begin_ns[-count:]) / 1e6


def _after(x: Any, call: Callable[[], None]) -> Any:
    # It takes the input, so that it cannot run in the phantom step that Keras makes at the end of
    # data.
    called = tf.numpy_function(lambda _: call(), [x], [])
    with tf.control_dependencies([called] if isinstance(called, tf.Operation) else []):
        return tf.identity(x)


class Sleeping(keras.layers.Layer):
    """A layer that delays its input in training. `sleeps` may be replaced between two trainings."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps = Sleeps(np.zeros(1))

    def call(self, x: Any, training: bool = False) -> Any:
        if not training:
            return x
        return _after(_after(x, lambda: self.sleeps.begin()), lambda: self.sleeps.end())


def make_model() -> tuple[Any, Sleeping]:
    """Return a compiled model, and the layer in it that sleeps."""
    x, sleeping = keras.Input((4,)), Sleeping()
    model = keras.Model(x, keras.layers.Dense(1)(sleeping(x)))
    model.compile("sgd", "mse", jit_compile=False)
    # Keras builds its metrics on a first batch, which is not one of the steps.
    model.fit(_constant(1), verbose=0, shuffle=False)
    return model, sleeping


def make_data(schedule: Schedule, sleeps: Sleeps) -> tf.data.Dataset:
    """Return the batches of a training, each of which sleeps once."""
    batches = _constant(schedule.steps).map(
        lambda x, y: (_after(_after(x, sleeps.begin), sleeps.end), y)
    )
    # By default tf.data works ahead of the step, which hides a delay in the fetch. An autotuned
    # pipeline takes up to 4 s to be deleted after the last step.
    return batches.with_options(options(Knobs())).with_options(without_autotune())


def _constant(batches: int) -> tf.data.Dataset:
    batch = (tf.ones((_BATCH, 4)), tf.ones((_BATCH, 1)))
    return tf.data.Dataset.from_tensors(batch).repeat(batches)


class InjectedTrainings:
    """Trains one schedule after another with Watch, all with one model."""

    def __init__(self, runs_dir: Path, seed: int) -> None:
        self._runs_dir = runs_dir
        self._rng = np.random.default_rng(seed)
        self._model, self._sleeping = make_model()

    def train(self, schedule: Schedule) -> tuple[Snapshot, list[KnownDelay]]:
        """Train one schedule; return its run, and the comparison of its delays with Watch's
        figures."""
        sleeps = {part: self._sleeps(part, schedule) for part in PARTS}
        self._sleeping.sleeps = sleeps["compute"]
        with _quiet():
            train = self._loop if schedule.kind == LOOP else self._fit
            run, ends_ns = train(schedule, sleeps)
        percent = _sum_percent(run.steps, ends_ns)
        whole = KnownDelay(f"{schedule.kind}, sum of the parts, %", 100.0, percent, _WALL_TOLERANCE)
        return run, [*compare_parts(run.steps, schedule, sleeps), whole]

    def _fit(self, schedule: Schedule, sleeps: dict[str, Sleeps]) -> tuple[Snapshot, list[int]]:
        """Return the run and the time at which the callbacks of each step ended."""
        watch = Watch(self._own_folder())
        host, data = _Host(sleeps["host"]), make_data(schedule, sleeps["wait"])
        self._model.fit(data, shuffle=False, verbose=0, callbacks=[watch, host])
        return open_run(watch.run_path or ""), host.end_ns

    def _loop(self, schedule: Schedule, sleeps: dict[str, Sleeps]) -> tuple[Snapshot, list[int]]:
        """Return the same for a loop without callbacks."""
        end_ns = []
        with track(make_data(schedule, sleeps["wait"]), self._own_folder()) as batches:
            for x, y in batches:
                self._model.train_on_batch(x, y)
                end_ns.append(time.perf_counter_ns())
        return open_run(batches.run_path or ""), end_ns

    def _own_folder(self) -> Path:
        """Return a runs folder of its own for a training: short fits in a row share a run of the
        same folder."""
        self._runs_dir.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self._runs_dir))

    def _sleeps(self, part: str, schedule: Schedule) -> Sleeps:
        levels = getattr(schedule, f"{part}_ms")
        planned_ms = np.resize(np.array(levels, dtype=np.float64), schedule.steps)
        self._rng.shuffle(planned_ms)
        return Sleeps(planned_ms)


class _Host(keras.callbacks.Callback):
    """The last callback: sleeps and records its end, which is when the next batch is requested."""

    def __init__(self, sleeps: Sleeps) -> None:
        super().__init__()
        self.end_ns: list[int] = []
        self._sleeps = sleeps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._sleeps.begin()
        self._sleeps.end()
        self.end_ns.append(time.perf_counter_ns())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Keras' warnings about data that ran out, and collect no garbage by itself."""
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    gc.enable()


def compare_parts(
    rows: Rows, schedule: Schedule, sleeps: dict[str, Sleeps]
) -> Iterator[KnownDelay]:
    """Compare each injected delay of a part with the measured time of that part."""
    steady = rows["flags"] == 0
    steady[:_WARM_UP] = False
    for part in PARTS:
        levels = sorted(set(getattr(schedule, f"{part}_ms")))
        if len(levels) < 2:
            continue
        planned_ms, injected_ms = sleeps[part].last(len(rows))
        error_ms = rows[f"{part}_ms"].astype(np.float64) - injected_ms
        error_ms -= float(np.median(error_ms[steady & (planned_ms == 0)]))
        for level in levels[1:]:
            chosen = steady & (planned_ms == level)
            if chosen.sum() < _LEAST:
                chosen[:] = False  # the medians are NaN, which does not pass
            injected = float(np.median(injected_ms[chosen]))
            measured = injected + float(np.median(error_ms[chosen]))
            least_ms, share = _TOLERANCES[part]
            name = f"{schedule.kind}, {part}, {level:g} ms"
            yield KnownDelay(name, injected, measured, max(least_ms, share * injected))


def _sum_percent(rows: Rows, end_ns: Sequence[int]) -> float:
    """Return the parts' sum between the ends of the first and the last but one step, as a share of
    the wall clock."""
    sums = (float(rows[f"{part}_ms"][1:-1].sum(dtype=np.float64)) for part in PARTS)
    return 100 * sum(sums) / (float(end_ns[-2] - end_ns[0]) / 1e6)


def main() -> None:
    """Train, and print each comparison."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    print_head("delay", "injected", "measured", "")
    passed = []
    with tempfile.TemporaryDirectory() as folder:
        trainings = InjectedTrainings(Path(folder), seed=2011)
        for schedule in SCHEDULES * options.rounds:
            for case in trainings.train(schedule)[1]:
                word = "pass" if case.passed else "FAIL"
                print_row(case.name, f"{case.injected:.2f}", f"{case.measured:.2f}", word)
                passed.append(case.passed)
    print(f"\n{sum(passed)} of {len(passed)} cases pass")


if __name__ == "__main__":
    main()
