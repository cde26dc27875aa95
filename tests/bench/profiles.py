"""What do profiles of a few steps cost a training, does it stay the same, and are they right?

    python -m tests.bench.profiles [--model cnn] [--profiles 50] bits, cost, memory
    python -m tests.bench.profiles --model resnet --pairs 8      lengths with a profile, without
    python -m tests.bench.profiles --jit ...                     with XLA where Keras chooses it
    python -m tests.bench.profiles --model resnet --trace OUT    a long profile beside short ones

By default it trains twice with deterministic operations, once with profiles at random steps, and
exits with 1 where a bit differs. A pair is two trainings of some seconds, one of them with one
profile: its row has both lengths, the cost by the run folder, and what a second of steps from the
start of the profile takes more than as many in the second before. A trace of 30 steps is for XProf;
beside it stand the rows of tfwatch's own profiles of a few steps, milliseconds a step.
"""

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import psutil
import tensorflow as tf

from tests.bench.runner import figure, in_turns, make_parser, print_head, print_row
from tfwatch import Watch
from tfwatch.core.events import AUTOMATIC, StepProfiled
from tfwatch.core.rows import Flag, step_ms
from tfwatch.judge.profile.step_parts import profile_of_run, step_parts
from tfwatch.runs.requests import ProfileRequest, append
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.fit_runs import complete_runs

layers = keras.layers
#: Steps between two profiles on average, and steps of an epoch.
_BETWEEN, _EPOCH = 60, 300
#: The length of a training of a pair, seconds, and steps that are not counted at its begin.
_PAIR_S, _SETTLE = 5.0, 20
#: Steps of a long trace.
_TRACED = 30
_BATCH = 32


class Asks(keras.callbacks.Callback):
    """Asks for a profile after some steps; notes losses, ends of steps, and memory at each
    request."""

    def __init__(self, watch: Watch, at: set[int], by: str = "command") -> None:
        super().__init__()
        self.losses: list[float] = []
        self.ends_s: list[float] = []
        self.memory: list[int] = []
        self._watch, self._at, self._by = watch, at, by

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the step; ask."""
        self.ends_s.append(time.perf_counter())
        self.losses.append(logs["loss"])
        if len(self.losses) in self._at and self._watch.run_path is not None:
            append(self._watch.run_path, ProfileRequest(self._by))
            self.memory.append(psutil.Process().memory_info().rss)

    @property
    def length_s(self) -> float:
        """The time of the steps after the first ones."""
        return self.ends_s[-1] - self.ends_s[_SETTLE]


def _transformer() -> Any:
    """Return two blocks of attention, as keras.io's text classification has one."""
    inputs = x = keras.Input((128, 64))
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 64)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        dense = layers.Dense(64)(layers.Dense(256, activation="relu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, dense]))
    return keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


def _network(kind: str) -> Any:
    match kind:
        case "dense":
            return keras.Sequential([keras.Input((64,)), layers.Dense(128), layers.Dense(1)])
        case "lstm":
            return keras.Sequential([keras.Input((40, 16)), layers.LSTM(32), layers.Dense(1)])
        case "loop":
            recurrent = layers.LSTM(64, use_cudnn=False)
            return keras.Sequential([keras.Input((40, 32)), recurrent, layers.Dense(1)])
        case "transformer":
            return _transformer()
        case "resnet":
            base = keras.applications.ResNet50(weights=None, input_shape=(96, 96, 3), classes=1)
            return keras.Sequential([keras.Input((96, 96, 3)), base])
    body = [layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(32, 3, activation="relu")]
    pool = layers.GlobalAveragePooling2D()
    return keras.Sequential([keras.Input((64, 64, 3)), *body, pool, layers.Dense(1)])


def make_model(kind: str, *, jit: bool) -> Any:
    """Return a compiled model. jit: with XLA where Keras chooses it."""
    keras.utils.set_random_seed(3)
    model = _network(kind)
    model.compile("adam", "mse", jit_compile="auto" if jit else False)
    return model


def make_data(model: Any) -> Any:
    """Return endless random examples."""
    rng, shape = np.random.default_rng(0), model.input_shape[1:]
    x = rng.normal(size=(_BATCH * 20, *shape)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, rng.normal(size=(len(x), 1))))
    return data.repeat().batch(_BATCH)


def train(model: Any, folder: Path, at: set[int], steps: int, by: str) -> tuple[Asks, Any]:
    """Train with a profile after some steps; return the callback and the run."""
    watch = Watch(folder)
    asks = Asks(watch, at, by)
    epochs, data = -(-steps // _EPOCH), make_data(model)
    each = min(steps, _EPOCH)
    model.fit(data, epochs=epochs, steps_per_epoch=each, verbose=0, callbacks=[watch, asks])
    complete_runs()
    return asks, open_run(watch.run_path or "")


def compare_bits(kind: str, profiles: int, folder: Path, *, jit: bool) -> bool:
    """Train with profiles at random steps, and without; print, and return whether both are
    equal."""
    tf.config.experimental.enable_op_determinism()
    steps, chooser = _BETWEEN * (profiles + 2), random.Random(7)
    at = {n * _BETWEEN + chooser.randrange(_BETWEEN // 2) for n in range(1, profiles + 1)}
    plain, profiled = (make_model(kind, jit=jit) for _ in range(2))
    without, _ = train(plain, folder / "a", set(), steps, "command")
    asks, run = train(profiled, folder / "b", at, steps, "command")
    pairs = zip(plain.get_weights(), profiled.get_weights(), strict=True)
    is_equal = asks.losses == without.losses and all(
        one.tobytes() == other.tobytes() for one, other in pairs
    )
    _print_costs(kind, is_equal, asks, run)
    return is_equal


def _print_costs(kind: str, is_equal: bool, asks: Asks, run: Any) -> None:
    done = [event for event in run.events.of(StepProfiled) if not event.missing]
    whole = step_ms(run.steps, np.float64)
    is_profiled = run.steps["flags"] & int(Flag.PROFILED) > 0
    plain_ms = float(whole[run.steps["flags"] == 0].mean())
    slower = float((whole[is_profiled] - plain_ms).sum()) / max(len(done), 1)
    costs = [event.cost_ms for event in done]
    at = 0, len(asks.memory) // 4, len(asks.memory) // 2, -1
    memory = ", ".join(str(asks.memory[one] >> 20) for one in at)
    print(
        f"{kind}: {len(done)} profiles, weights and losses"
        f" {'equal' if is_equal else 'DIFFER'}; starting takes {median(costs):.1f} ms, most"
        f" {max(costs):.1f}; with the slower steps {slower:.1f} ms each; step"
        f" {np.median(whole[~is_profiled]):.2f} ms; first {costs[0]:.1f} ms; memory at the first,"
        f" after a quarter, a half and all {memory} MB"
    )


def print_pairs(kind: str, pairs: int, folder: Path, *, jit: bool) -> None:
    """Print a row for each pair of trainings, with a profile for which nobody asked and without
    one."""
    model = make_model(kind, jit=jit)
    warm, _ = train(model, folder / "warm", set(), 5 * _SETTLE, "command")
    steps = int(_PAIR_S / float(np.median(np.diff(warm.ends_s[_SETTLE:]))))
    steps = min(steps, _EPOCH) if steps <= _EPOCH else steps // _EPOCH * _EPOCH
    print_head(
        "model",
        "steps",
        "plain, s",
        "profiled, s",
        "cost, ms",
        "start, ms",
        "marked steps",
        "a second",
    )
    lengths_s: dict[str, str] = {}
    for number, arm in in_turns(pairs, ("plain", "profiled")):
        at = {steps // 2} if arm == "profiled" else set()
        asks, run = train(model, folder / f"{number}{arm}", at, steps, AUTOMATIC)
        lengths_s[arm] = f"{asks.length_s:.3f}"
        if at:
            profile, done = profile_of_run(run), run.events.of(StepProfiled)
            marked = int((run.steps["flags"] & int(Flag.PROFILED) > 0).sum())
            cost = profile.cost_ms if profile else None
            start = done[0].cost_ms if done else None
            costs = figure(cost, ".1f"), figure(start, ".1f"), marked, _in_a_second(run)
        if len(lengths_s) == 2:
            print_row(kind, steps, lengths_s.pop("plain"), lengths_s.pop("profiled"), *costs)


def _in_a_second(run: Any) -> str:
    """Return what the steps of a second from the start of the profile take more than before it."""
    whole = step_ms(run.steps, np.float64)
    ends = np.cumsum(whole)
    (marked,) = np.nonzero(run.steps["flags"] & int(Flag.PROFILED))
    if not len(marked):
        return figure(None, ".1f")
    at = int(marked[0])
    before = whole[(ends > ends[at] - 1000) & (np.arange(len(ends)) < at)]
    after = whole[at : np.searchsorted(ends, ends[at] + 1000)]
    return figure(float(after.sum() - len(after) * before.mean()), ".1f")


def write_trace(kind: str, folder: Path, out: Path, *, jit: bool) -> None:
    """Write a long recording for XProf, and the rows of short profiles, of one model."""
    model = make_model(kind, jit=jit)
    out.mkdir(parents=True, exist_ok=True)
    _, run = train(model, folder, {*range(2 * _SETTLE, 290, 50)}, 300, "command")
    profiles = [
        {"steps": one.steps, "parts": [(part.role, part.name, part.took_ms) for part in parts]}
        for one in run.events.of(StepProfiled)
        if (parts := step_parts(one))
    ]
    (out / f"{kind}.json").write_text(json.dumps(profiles))
    model.fit(make_data(model), steps_per_epoch=_SETTLE, verbose=0)
    with tf.profiler.experimental.Profile(str(out / kind)):
        model.fit(make_data(model), steps_per_epoch=_TRACED, verbose=0)


def main() -> int:
    """Train and compare."""
    parser = make_parser(__doc__)
    parser.add_argument("--profiles", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--jit", action="store_true")
    kinds = ["cnn", "dense", "lstm", "loop", "transformer", "resnet"]
    parser.add_argument("--model", choices=kinds, default="cnn")
    asked = parser.parse_args()
    kind, jit = asked.model, asked.jit
    with tempfile.TemporaryDirectory() as folder:
        if asked.trace:
            write_trace(kind, Path(folder), asked.trace, jit=jit)
        elif asked.pairs:
            print_pairs(kind, asked.pairs, Path(folder), jit=jit)
        else:
            return int(not compare_bits(kind, asked.profiles, Path(folder), jit=jit))
    return 0


if __name__ == "__main__":
    sys.exit(main())
