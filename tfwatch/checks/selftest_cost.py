"""The cost of tfwatch on this machine: of Watch for a step, and of the live screen for a frame,
without a tolerance."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import EpochStarted
from tfwatch.core.knobs import PREFETCH
from tfwatch.core.rows import Phase
from tfwatch.runs.format import Manifest
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.fit.callback import Watch
from tfwatch.watch.fit.fit_runs import complete_runs

if TYPE_CHECKING:
    from pathlib import Path

_ROUNDS, _STEPS = 8, 200
_WIDTH, _BATCH = 256, 256
#: Steps before the timed ones: the trace, and the first write.
_SKIP = 40
ARMS = ("bare", "watched", "bare again")
_SIZE = (120, 40)
_FRAMES, _WARM_UP = 60, 10
#: The run on the screen: its steps at the start, their time, and the steps between two frames.
_FIRST_STEPS, _STEP_MS, _STEPS_A_FRAME = 9_000, 13.9, 18


@dataclass(frozen=True, slots=True)
class WatchCost:
    """The cost of Watch, as medians over the rounds.

    ratio: step time with Watch over that without. added_us: the difference. step_ms: the step time
    without Watch.
    noise: the difference of two runs without Watch, as a share.
    """

    ratio: float
    added_us: float
    step_ms: float
    noise: float


@dataclass(frozen=True, slots=True)
class FrameCost:
    """The CPU time of the drawing thread for a frame at 120x40, without the terminal's own."""

    median_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of Watch and of a frame."""

    watch: WatchCost
    frame: FrameCost

    @property
    def sentences(self) -> tuple[str, str]:
        """One sentence for each."""
        watch, frame = self.watch, self.frame
        added = f"{watch.added_us:+.0f} us of {watch.step_ms:.2f} ms"
        noise = f"two runs without it differ by {watch.noise:.3f}"
        drawn = (
            f"{frame.median_ms:.1f} ms of CPU time per frame at 120x40, 95 % of frames below"
            f" {frame.p95_ms:.1f} ms"
        )
        return (
            f"Watch: a step takes {watch.ratio:.3f} of its time without Watch ({added}; {noise})",
            f"live screen: {drawn}, 4 frames/s",
        )


def find_costs(runs_dir: Path) -> Costs:
    """Measure the cost of Watch and of a frame."""
    return Costs(watch_cost(runs_dir), asyncio.run(_frame_cost(runs_dir)))


def watch_cost(runs_dir: Path) -> WatchCost:
    """Train with and without Watch, interleaved."""
    rows = rounds_ms(runs_dir, _ROUNDS, _STEPS)
    return WatchCost(
        ratio=statistics.median(row["watched"] / row["bare"] for row in rows),
        added_us=statistics.median((row["watched"] - row["bare"]) * 1e3 for row in rows),
        step_ms=statistics.median(row["bare"] for row in rows),
        noise=statistics.median(abs(row["bare again"] / row["bare"] - 1) for row in rows),
    )


def rounds_ms(runs_dir: Path, rounds: int, steps: int) -> list[dict[str, float]]:
    """Return ms/step of a `fit` without Watch, of one with it, and of one more without: a row for
    each round."""
    data = _data()
    models = {arm: _model() for arm in ARMS}
    for model in models.values():
        _step_ms(model, data, 1, [])
    rows = []
    for n in range(rounds):
        order = ARMS if n % 2 else ARMS[::-1]
        row = {
            arm: _step_ms(models[arm], data, steps, [Watch(runs_dir)] if arm == "watched" else [])
            for arm in order
        }
        rows.append(row)
    complete_runs()  # before their folder is removed
    return rows


class _Stopwatch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.last_ns = time.perf_counter_ns()
        if batch == _SKIP - 1:
            self.first_ns = self.last_ns


def _step_ms(model: Any, data: tf.data.Dataset, steps: int, callbacks: list[Any]) -> float:
    clock = _Stopwatch()
    model.fit(
        data, steps_per_epoch=_SKIP + steps, verbose=0, shuffle=False, callbacks=[*callbacks, clock]
    )
    return float(clock.last_ns - clock.first_ns) / 1e6 / steps


def _model() -> Any:
    """Return a dense network whose step takes 1 to 2 ms."""
    layers = [keras.layers.Dense(_WIDTH, activation="relu") for _ in range(2)]
    model = keras.Sequential(
        [keras.Input((_WIDTH,)), *layers, keras.layers.Dense(10, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _data() -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16 * _BATCH, _WIDTH)).astype("float32")
    y = rng.integers(0, 10, size=16 * _BATCH)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH).cache().repeat()


async def _frame_cost(runs_dir: Path) -> FrameCost:
    """Draw frames of a growing run, without a terminal."""
    from tfwatch.app import TfwatchApp
    from tfwatch.runs.requests import RequestSender

    run = _GrowingRun(runs_dir / "frames")
    run.advance(_FIRST_STEPS)
    app = TfwatchApp(
        RunReader(RunFolder(run.folder), run.clock), RequestSender(lambda: None), clock=run.clock
    )
    costs_ms = []
    async with app.run_test(size=_SIZE) as pilot:
        for _ in range(_WARM_UP + _FRAMES):
            run.advance(_STEPS_A_FRAME)
            began_ns = SYSTEM.thread_ns()
            app.live.frame()
            await pilot.pause()
            costs_ms.append((SYSTEM.thread_ns() - began_ns) / 1e6)
    costs_ms = costs_ms[_WARM_UP:]
    return FrameCost(statistics.median(costs_ms), statistics.quantiles(costs_ms, n=20)[-1])


class _GrowingRun:
    """A run whose steps drive its clock."""

    def __init__(self, folder: Path) -> None:
        self._at_ns = 0
        self._step = 0
        self.folder = folder
        self.clock = Clock(
            now_ns=lambda: self._at_ns, wall_ns=lambda: self._at_ns, thread_ns=lambda: 0
        )
        manifest = Manifest(
            "selftest", "selftest", 0, 0, os.getpid(), 0.0, "", knobs={PREFETCH: "off"}
        )
        folder.mkdir(parents=True)
        self.writer = RunWriter(folder, manifest, self.clock)
        self.writer.event(EpochStarted(0, 0, 1, None))

    def advance(self, steps: int) -> None:
        """Add steps, half of which wait for data."""
        for _ in range(steps):
            self._step += 1
            wait_ms = 4.0 if self._step // 500 % 2 else 0.2
            self.writer.step(
                self._at_ns, self._step, 0, 0, wait_ms, 2.0, _STEP_MS - 1.0 - wait_ms, 1.0
            )
            self._at_ns += round(_STEP_MS * 1e6)
        self.writer.status = (Phase.COMPUTE, self._at_ns, self._step + 1, 0, "")
        self.writer.progress.append((32 * self._step, self._step, 0, self._step, 0.5, 0.9))
        self.writer.sample(self._at_ns, {"cpu_cores": 1.6, "own_cores": 0.01})
        self.writer.flush()
