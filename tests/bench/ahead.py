"""The data wait that `track` reports in a loop that runs ahead of the GPU, against the GPU's idle time, and its cost.

    python -m tests.bench.ahead [--delays 0,5,10,20,40] [--step-ms 15] [--steps 60] [--rounds 3] [--pairs 8]

A compiled train step without metrics runs on delayed batches, with prefetch off and 4, right after a loop without
delays; each pair has its own device trace, because a growing trace slows the loop down. Prints a row for each case,
over all rounds: the mean step with and without delays; then shares of the wall clock: fetches that block the host,
data wait by `track`, GPU idle during such fetches, `track` minus that (in points), GPU busy, and GPU idle for lack of
data by the loops without delays (1 - busy / busy without data wait). Without a GPU the last five are n/a, and the
host's wait is the data wait.

Then, without a trace, tracked loops against bare ones in pairs: that step, and a small launch-bound one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import tfwatch
from tests.bench.starvation import (
    PREFETCHES,
    SKIP,
    Case,
    find_batch,
    in_turns,
    make_data,
    make_model,
)
from tests.bench.trace import Busy, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Step = Callable[[Any, Any], Any]

#: Steps of one loop whose cost is compared.
COMPARED = 150


@dataclass(frozen=True, slots=True)
class Window:
    """The counted steps of one loop: begin and end in nanoseconds since 1970, and the data wait in all of them.

    fetches_ns: begin and end of each fetch.
    """

    start_ns: int
    end_ns: int
    steps: int
    fetches_ns: list[tuple[int, int]]
    wait_ms: float

    @property
    def blocked_ms(self) -> float:
        """The time that fetches block the host."""
        return sum(to_ns - from_ns for from_ns, to_ns in self.fetches_ns) / 1e6


class Timed:
    """A data set that records begin and end of each fetch, in nanoseconds since 1970."""

    def __init__(self, data: Iterable[Any]) -> None:
        self.fetches_ns: list[tuple[int, int]] = []
        self._data = data

    def __iter__(self) -> Iterator[Any]:
        fetches = iter(self._data)
        while True:
            start_ns = time.time_ns()
            batch = next(fetches)
            self.fetches_ns.append((start_ns, time.time_ns()))
            yield batch


def make_step(model: Any) -> Step:
    """Return a compiled train step that leaves its loss on the device."""
    optimizer, loss_of = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy()
    optimizer.build(model.trainable_variables)

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    compiled: Step = tf.function(step)
    return compiled


def make_small_model() -> Any:
    """Return two small dense layers, whose launching takes longer than their compute."""
    image = keras.Input((32, 32, 3))
    x = keras.layers.Dense(64, activation="relu")(keras.layers.Flatten()(image))
    return keras.Model(image, keras.layers.Dense(10, activation="softmax")(x))


def run(step: Step, batch: int, case: Case, steps: int, runs_dir: Path) -> Window:
    """Run one tracked loop; it reads the loss at both ends of the window, which drains the GPU."""
    fetches = Timed(make_data(batch, case.delay_ms, case.prefetch))
    start_ns = end_ns = 0
    with tfwatch.track(fetches, runs_dir) as tracked:
        for n, (x, y) in enumerate(tracked):
            loss = step(x, y)
            if n == SKIP:
                float(loss)
                start_ns = time.time_ns()
            elif n == SKIP + steps:
                float(loss)
                end_ns = time.time_ns()
                break
    assert tracked.run_path
    found = tfwatch.open_run(tracked.run_path)
    counted = slice(SKIP + 1, SKIP + steps + 1)
    wait_ms = float(found.steps["wait_ms"][counted].sum(dtype=np.float64))
    return Window(start_ns, end_ns, steps, fetches.fetches_ns[counted], wait_ms)


@dataclass(frozen=True, slots=True)
class Pair:
    """A loop without delays, the one with delays right after it, and the GPU's trace."""

    undelayed: Window
    late: Window
    busy: Busy


@dataclass(frozen=True, slots=True)
class Reading:
    """A case over all rounds; shares of 1. The last three are 0 where the traces have no GPU.

    dry: GPU idle while a fetch blocks. idled: GPU idle for lack of data, by the loops without delays.
    """

    step_ms: float
    undelayed_step_ms: float
    blocked: float
    wait: float
    dry: float
    busy: float
    idled: float


def read(pairs: list[Pair]) -> Reading:
    """Combine the loops of a case."""
    late, undelayed = [pair.late for pair in pairs], [pair.undelayed for pair in pairs]
    wall_ms, undelayed_wall_ms = _wall_ms(late), _wall_ms(undelayed)
    share = sum(_ran_ms(pair.busy, pair.late) for pair in pairs) / wall_ms
    undelayed_share = sum(_ran_ms(pair.busy, pair.undelayed) for pair in pairs) / undelayed_wall_ms
    undelayed_wait = sum(window.wait_ms for window in undelayed) / undelayed_wall_ms
    blocked_ms = sum(window.blocked_ms for window in late)
    ran_ms = sum(pair.busy.within_ns(pair.late.fetches_ns) for pair in pairs) / 1e6
    return Reading(
        step_ms=wall_ms / sum(window.steps for window in late),
        undelayed_step_ms=undelayed_wall_ms / sum(window.steps for window in undelayed),
        blocked=blocked_ms / wall_ms,
        wait=sum(window.wait_ms for window in late) / wall_ms,
        dry=(blocked_ms - ran_ms) / wall_ms,
        busy=share,
        idled=1 - share * (1 - undelayed_wait) / undelayed_share if undelayed_share else 0.0,
    )


def _wall_ms(windows: list[Window]) -> float:
    return sum(window.end_ns - window.start_ns for window in windows) / 1e6


def _ran_ms(busy: Busy, window: Window) -> float:
    return busy.within_ns([(window.start_ns, window.end_ns)]) / 1e6


def print_table(readings: dict[Case, Reading]) -> None:
    """Print a row for each case."""
    print(
        "delay ms  prefetch  step ms  no-delay ms  blocked  data wait  GPU dry  off, points  GPU busy  GPU idled"
    )
    for case, r in readings.items():
        row = f"{case.delay_ms:8g}  {case.prefetch!s:>8}  {r.step_ms:7.2f}  {r.undelayed_step_ms:11.2f}"
        row += f"  {r.blocked:7.3f}  {r.wait:9.3f}"
        off = (r.wait - r.dry) * 100
        rest = (
            f"  {r.dry:7.3f}  {off:+11.1f}  {r.busy:8.3f}  {r.idled:9.3f}"
            if r.busy
            else f"  {'n/a':>7}"
        )
        print(row + rest)


def step_ms(step: Step, data: Iterable[Any]) -> float:
    """Return ms/step of one loop, including the GPU's work at its end."""
    start, loss = 0.0, tf.constant(0.0)
    for n, (x, y) in enumerate(data):
        loss = step(x, y)
        if n == SKIP:
            float(loss)
            start = time.perf_counter()
        elif n == SKIP + COMPARED:
            break
    float(loss)
    return (time.perf_counter() - start) * 1e3 / COMPARED


def print_cost(word: str, step: Step, batch: int, pairs: int, runs_dir: Path) -> None:
    """Compare tracked loops with bare ones, and bare ones with each other, in alternating order."""
    ratios: dict[str, list[float]] = {"bare again": [], "track": []}
    bare_ms: list[float] = []
    for n in range(pairs + 1):
        times: dict[str, float] = {}
        for arm in ("bare", "bare again", "track")[:: 1 if n % 2 else -1]:
            data = make_data(batch, 0, 4)
            if arm == "track":
                with tfwatch.track(data, runs_dir) as tracked:
                    times[arm] = step_ms(step, tracked)
            else:
                times[arm] = step_ms(step, data)
        if n:  # the first one warms up
            bare_ms.append(times["bare"])
            for arm, measured in ratios.items():
                measured.append(times[arm] / times["bare"])
    print(
        f"{word}, {statistics.median(bare_ms):.2f} ms/step bare; ratios to it over {pairs} rounds:"
    )
    for arm, found in ratios.items():
        print(
            f"    {arm:>10}: median {statistics.median(found):.3f}, {min(found):.3f} to {max(found):.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--delays", default="0,5,10,20,40", help="milliseconds by which batches are late"
    )
    parser.add_argument("--step-ms", type=float, default=15.0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--pairs", type=int, default=8, help="rounds of the cost comparison; 0 for none"
    )
    options = parser.parse_args()
    model = make_model()
    batch = find_batch(model, options.step_ms)
    print(f"batches of {batch}", flush=True)
    step = make_step(model)
    cases = [
        Case(float(delay), prefetch)
        for delay in options.delays.split(",")
        for prefetch in PREFETCHES
    ]
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder) / "runs"

        def once(case: Case) -> Window:
            return run(step, batch, case, options.steps, runs_dir)

        def measure(case: Case) -> Pair:
            windows: list[Window] = []
            both = (Case(0.0, case.prefetch), case)
            busy = trace(
                Path(tempfile.mkdtemp(dir=folder)), lambda: windows.extend(map(once, both))
            )
            return Pair(windows[0], windows[1], busy)

        once(cases[0])
        pairs = in_turns(options.rounds, cases, measure)
        print_table({case: read(pairs[case]) for case in cases})
        newest = pairs[cases[-1]][-1]
        newest.busy.print_if_incomplete([(newest.late.start_ns, newest.late.end_ns)])
        if options.pairs:
            print_cost("convolutions", step, batch, options.pairs, runs_dir)
            print_cost(
                "small dense layers", make_step(make_small_model()), 32, options.pairs, runs_dir
            )


if __name__ == "__main__":
    main()
