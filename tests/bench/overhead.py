"""The time that Watch, Keras' progress bar and TensorBoard each add to a step, in one interleaved
run.

    python -m tests.bench.overhead [--rounds 10] [--steps 400]

Every round runs every arm once, in turn forwards and backwards: one `fit` of one epoch each. Prints
for each arm the median of its ratios to the bare `fit` of the same round, with the smallest and the
largest, and the microseconds that it adds to a step. `bare again` is the noise.
The TensorBoard arms need the package `tensorboard`. Exits with 1 where Watch costs more than it
may.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from tests.bench.runner import in_turns, make_parser, print_head, print_row, spread_text
from tfwatch import Watch

#: Steps before the timed ones: the trace, and the first write of each logger.
SKIP = 40
WIDTH, BATCH = 256, 384
#: First and last profiled step, as users set it.
PROFILED = (60, 159)
#: The most that Watch may add to a step, us.
MOST_US = 20.0
BARE, AGAIN, WATCH = "bare", "bare again", "Watch"


@dataclass(frozen=True)
class Arm:
    """One way to call `fit`."""

    callbacks: Callable[[], list[Any]] = list
    verbose: int = 0
    stdout: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


@contextlib.contextmanager
def to_a_file() -> Iterator[None]:
    """Redirect standard output to a file, as in a batch job."""
    with tempfile.TemporaryFile("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        yield


@contextlib.contextmanager
def to_a_terminal() -> Iterator[None]:
    """Redirect standard output to a pseudo terminal that nothing draws: a real terminal costs
    more."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        ["cat"], stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as reader:
        os.close(ours)
        with (
            os.fdopen(theirs, "w", encoding="utf-8") as terminal,
            contextlib.redirect_stdout(terminal),
        ):
            yield
        reader.terminate()


def make_arms(folder: Path) -> dict[str, Arm]:
    """Return every arm by its name; those of TensorBoard where it is installed."""

    def tensorboard(**options: Any) -> Arm:
        return Arm(lambda: [keras.callbacks.TensorBoard(tempfile.mkdtemp(dir=folder), **options)])

    arms = {
        BARE: Arm(),
        AGAIN: Arm(),
        WATCH: Arm(lambda: [Watch(folder / "runs")]),
        "progress bar, to a file": Arm(verbose=1, stdout=to_a_file),
        "progress bar, on a terminal": Arm(verbose=1, stdout=to_a_terminal),
    }
    if find_spec("tensorboard"):
        arms["TensorBoard"] = tensorboard()
        arms["TensorBoard, every batch"] = tensorboard(update_freq="batch")
        arms["TensorBoard, 100 steps profiled"] = tensorboard(profile_batch=PROFILED)
    return arms


def make_model() -> Any:
    """Return a dense network whose step takes about 2 ms on two cores."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(2)]
    model = keras.Sequential(
        [keras.Input((WIDTH,)), *layers, keras.layers.Dense(10, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def make_data() -> tf.data.Dataset:
    """Return endless random examples."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16 * BATCH, WIDTH)).astype("float32")
    y = rng.integers(0, 10, size=16 * BATCH)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).cache().repeat()


class Stopwatch(keras.callbacks.Callback):
    """Measures ms/step from the end of the last skipped batch to the end of the newest."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now_s = time.perf_counter()
        if batch == SKIP - 1:
            self._first_s = now_s
        elif batch >= SKIP:
            self.step_ms = (now_s - self._first_s) / (batch - SKIP + 1) * 1e3


def step_ms(arm: Arm, model: Any, data: tf.data.Dataset, steps: int) -> float:
    """Run one `fit` of one epoch; return ms/step."""
    stopwatch = Stopwatch()
    with arm.stdout():
        callbacks = [*arm.callbacks(), stopwatch]
        model.fit(
            data,
            epochs=1,
            steps_per_epoch=SKIP + steps,
            verbose=arm.verbose,
            shuffle=False,
            callbacks=callbacks,
        )
    return float(stopwatch.step_ms)


def measure(arms: dict[str, Arm], rounds: int, steps: int) -> list[dict[str, float]]:
    """Return ms/step of each arm, a row for each round."""
    data, models = make_data(), {name: make_model() for name in arms}
    for name, arm in arms.items():
        step_ms(arm, models[name], data, SKIP)
    rows: list[dict[str, float]] = [{} for _ in range(rounds)]
    for number, name in in_turns(rounds, [*arms]):
        rows[number][name] = step_ms(arms[name], models[name], data, steps)
    return rows


def print_table(rows: list[dict[str, float]]) -> None:
    """Print a row for each arm."""
    print_head(f"{len(rows)} rounds", "ms/step", "ratio to bare", "added, us/step")
    for name in rows[0]:
        median_ms = statistics.median(row[name] for row in rows)
        ratios = spread_text(ratios_of(name, rows))
        print_row(name, f"{median_ms:.3f}", ratios, f"{added_us(name, rows):+.0f}")


def ratios_of(name: str, rows: list[dict[str, float]]) -> list[float]:
    """Return an arm's step times over those of the bare `fit` in the same rounds."""
    return [row[name] / row[BARE] for row in rows]


def added_us(name: str, rows: list[dict[str, float]]) -> float:
    """Return the time that an arm adds to a step: the median over the rounds, us."""
    return statistics.median((row[name] - row[BARE]) * 1e3 for row in rows)


def is_within_budget(rows: list[dict[str, float]]) -> bool:
    """Print and return whether Watch costs no more than its budget.

    The noise is the median difference of two bare runs.
    """
    ratio = statistics.median(ratios_of(WATCH, rows))
    noise = statistics.median(abs(again - 1) for again in ratios_of(AGAIN, rows))
    added = added_us(WATCH, rows)
    is_within = ratio <= 1 + noise and added <= MOST_US
    print(
        f"\nWatch: ratio {ratio:.3f} of at most 1 within the noise of {noise:.3f}, {added:+.0f} of"
        f" {MOST_US:.0f} us/step: {'holds' if is_within else 'FAILS'}"
    )
    return is_within


def main() -> int:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(make_arms(Path(folder)), options.rounds, options.steps)
    print_table(rows)
    return 0 if is_within_budget(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
