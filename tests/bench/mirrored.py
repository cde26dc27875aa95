"""MirroredStrategy over all GPUs by Watch against the device trace of each, and the cost of watching.

    python -m tests.bench.mirrored [--steps 40] [--rounds 5] [--delay-ms 40] [--filters 8] [--batch 16]

Without two GPUs it trains on two logical CPU devices, and what needs a device trace is n/a. Prints, for a model that is
compute-bound and for one whose batches are late: each GPU's busy share by the trace, its share within data wait, and
the split of the same steps by Watch. The busy share expected of a GPU is that of the steps without data wait, times
1 - data wait: both should be within 3 points. Then, for the model that is compute-bound, the ratio of watched to bare
step times in interleaved rounds, with the clock in the graph, with `split="exact"`, and through a relay after a switch,
beside that of a second bare fit, and the split of the watched ones; the differences of losses and weights between two
bare fits, and a bare and a watched one; and the GPUs by `--json` and by the doctor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from tests.bench import trace
from tfwatch import Watch, open_run
from tfwatch.report.document import as_json
from tfwatch.workloads.data.jpeg import delayed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.runs.reading.opened import Run
    from tfwatch.watch.fit.recorder import Split

SIZE, CLASSES, SKIP = 32, 10, 15
#: Largest difference of a share by Watch and by the trace, points.
WITHIN = 3.0
MODES = {"compute-bound": 0.0, "late batches": 1.0}
#: The fits of a round, bare ones by no split.
FITS: dict[str, Split | None] = {
    "bare": None,
    "bare again": None,
    "watched": "fused",
    "exact": "exact",
    "relayed": "fused",
}


@dataclass(frozen=True, slots=True)
class Bench:
    """The strategy, and the size of its work. gpus: none on logical CPU devices."""

    strategy: Any
    gpus: int
    filters: int
    batch: int


@dataclass(frozen=True, slots=True)
class Window:
    """The counted steps of a `fit`: their spans on the trace's clock, ns, and the sums of their parts, ms."""

    start_ns: int
    end_ns: int
    waits_ns: NDArray[np.int64]
    parts_ms: dict[str, float]
    steps: int


class Bounds(keras.callbacks.Callback):
    """Records the begin and the end of the counted steps, and each batch's loss."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.losses: list[float] = []
        self.start_ns = self.end_ns = 0
        self._last = SKIP + steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(logs["loss"])
        if batch == SKIP:
            self.start_ns = time.time_ns()
        elif batch == self._last:
            self.end_ns = time.time_ns()


def make_bench(filters: int | None, batch: int | None) -> Bench:
    """Return the strategy over all GPUs, or over two logical CPU devices; batch: of all replicas."""
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) > 1:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        return Bench(
            tf.distribute.MirroredStrategy(), len(gpus), filters or 128, batch or 256 * len(gpus)
        )
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return Bench(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), 0, filters or 8, batch or 16)


def make_model(bench: Bench) -> Any:
    """Return four convolutions, from the same seed each time."""
    keras.utils.set_random_seed(1)
    with bench.strategy.scope():
        image = x = keras.Input((SIZE, SIZE, 3))
        for _ in range(4):
            x = keras.layers.Conv2D(bench.filters, 3, padding="same", use_bias=False)(x)
            x = keras.layers.Activation("relu")(keras.layers.BatchNormalization()(x))
        x = keras.layers.GlobalAveragePooling2D()(x)
        model = keras.Model(image, keras.layers.Dense(CLASSES, activation="softmax")(x))
        model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
        model.optimizer.build(model.trainable_variables)
    return model


def make_data(batch: int, delay_ms: float, batches: int) -> tf.data.Dataset:
    """Return random batches, each after a sleep inside TensorFlow, and a ragged one at the end."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch, SIZE, SIZE, 3)).astype("float32")
    y = rng.integers(0, CLASSES, size=batch)
    data = tf.data.Dataset.from_tensors((x, y)).repeat(batches - 1)
    data = data.concatenate(
        tf.data.Dataset.from_tensors((x[: batch // 2 + 1], y[: batch // 2 + 1]))
    )
    return data.map(lambda x, y: (x, delayed(y, delay_ms))) if delay_ms else data


def fit(
    bench: Bench,
    model: Any,
    delay_ms: float,
    steps: int,
    runs: Path | None,
    split: Split = "fused",
    *,
    relayed: bool = False,
) -> tuple[Bounds, Run | None, float]:
    """Run a `fit` of one epoch; return its bounds, its run where it is watched, and the milliseconds of a step.

    relayed: a switch is asked for before it, so its batches go through a relay.
    """
    watch = Watch(Path(tempfile.mkdtemp(dir=runs)), split) if runs else None
    if watch and relayed:
        watch.set(prefetch=2)
    bounds = Bounds(steps)
    data = make_data(bench.batch, delay_ms, SKIP + steps + 2)
    model.fit(data, verbose=0, callbacks=[bounds, *([watch] if watch else [])])
    run = open_run(watch.run_path) if watch and watch.run_path else None
    return bounds, run, (bounds.end_ns - bounds.start_ns) / 1e6 / steps


def window_of(bounds: Bounds, run: Run, steps: int) -> Window:
    """Return the counted steps of a watched `fit`."""
    before, rows = run.steps[SKIP], run.steps[SKIP + 1 : SKIP + steps + 1]
    # The callback runs within 50 us of the end of its step's compute, which aligns the run's clock with the trace's.
    drained_ns = int(before["start_ns"]) + int((before["wait_ms"] + before["compute_ms"]) * 1e6)
    starts = rows["start_ns"].astype(np.int64) + (bounds.start_ns - drained_ns)
    waits = np.stack([starts, starts + (rows["wait_ms"] * 1e6).astype(np.int64)], axis=1)
    names = ("wait_ms", "copy_ms", "dispatch_ms", "compute_ms", "host_ms")
    parts = {name: float(rows[name].sum(dtype=np.float64)) for name in names}
    return Window(bounds.start_ns, bounds.end_ns, waits, parts, steps)


def busy_of(folder: Path, gpus: int) -> list[trace.Busy]:
    """Return the work of each GPU in a trace: its reader knows one plane at a time."""
    found, first = [], trace.PLANE
    try:
        for number in range(gpus):
            trace.PLANE = f"/device:GPU:{number}"
            found.append(trace.Busy(folder))
    finally:
        trace.PLANE = first
    return found


def print_split(
    name: str, window: Window, busy: list[trace.Busy], unstarved: list[float] | None
) -> list[float]:
    """Print the split of some steps, and each GPU's share of them; return these shares over 1 - data wait."""
    wall_ns = window.end_ns - window.start_ns
    share = shares_of(window)
    print(f"{name}: {wall_ns / window.steps / 1e6:.2f} ms/step; by Watch {as_text(share)}")
    wait_ns = float((window.waits_ns[:, 1] - window.waits_ns[:, 0]).sum())
    rates = []
    for number, gpu in enumerate(busy):
        ran = gpu.within_ns([(window.start_ns, window.end_ns)]) / wall_ns
        waiting = gpu.within_ns(window.waits_ns) / wall_ns
        rates.append(ran / (1 - share["wait_ms"]))
        line = f"    GPU:{number} busy {ran:.3f} by the trace, {waiting:.3f} during data wait ({wait_ns / 1e6:.1f} ms)"
        if unstarved:
            off = (ran - unstarved[number] * (1 - share["wait_ms"])) * 100
            line += f"; expected {ran - off / 100:.3f}, off {off:+.1f} points, {_judged(off)}"
        print(line, flush=True)
    if not busy:
        print("    GPU busy share by the trace: n/a, no two GPUs", flush=True)
    return rates


def shares_of(window: Window) -> dict[str, float]:
    """Return the share of each part in the counted steps, NaN where it is not timed."""
    return {
        part: ms * 1e6 / (window.end_ns - window.start_ns) for part, ms in window.parts_ms.items()
    }


def as_text(share: dict[str, float]) -> str:
    """Return the shares of the parts of a step in words."""
    copied = "n/a" if np.isnan(share["copy_ms"]) else f"{share['copy_ms']:.3f}"
    return (
        f"data wait {share['wait_ms']:.3f}, copy {copied}, compute {share['compute_ms']:.3f} "
        f"(dispatch {share['dispatch_ms']:.3f}), host {share['host_ms']:.3f}"
    )


def _judged(points: float) -> str:
    return f"within {WITHIN:g}" if abs(points) <= WITHIN else f"NOT WITHIN {WITHIN:g}"


def print_splits(bench: Bench, model: Any, options: argparse.Namespace, runs: Path) -> Run:
    """Train both models under one device trace and print their splits; return the last run."""
    windows: dict[str, Window] = {}
    last: list[Run] = []

    def measure() -> None:
        for name, late in MODES.items():
            bounds, run, _ = fit(bench, model, late * options.delay_ms, options.steps, runs)
            assert run
            windows[name] = window_of(bounds, run, options.steps)
            last.append(run)

    folder = runs / "trace"
    if bench.gpus:
        trace.trace(folder, measure)
    else:
        measure()
    busy = busy_of(folder, bench.gpus)
    unstarved: list[float] | None = None
    for name, window in windows.items():
        rates = print_split(name, window, busy, unstarved)
        unstarved = unstarved or rates
    for gpu in busy:
        gpu.print_if_incomplete([(window.start_ns, window.end_ns) for window in windows.values()])
    return last[-1]


def print_cost(bench: Bench, model: Any, options: argparse.Namespace, runs: Path) -> None:
    """Print the ratio of each fit's step time to that of the bare one, in rounds whose order moves on."""
    took_ms: dict[str, list[float]] = {name: [] for name in FITS}
    shares: dict[str, list[dict[str, float]]] = {name: [] for name in FITS}
    for name, split in FITS.items():  # traces, and what the first fit alone does
        fit(
            bench,
            model,
            0.0,
            5,
            runs if split else None,
            split or "fused",
            relayed=name == "relayed",
        )
    for n in range(options.rounds):
        names = list(FITS)
        for name in [*names[n % len(names) :], *names[: n % len(names)]]:
            split = FITS[name]
            folder, is_relayed = runs if split else None, name == "relayed"
            bounds, run, step_ms = fit(
                bench, model, 0.0, options.steps, folder, split or "fused", relayed=is_relayed
            )
            assert not (is_relayed and run) or run.manifest.switchable
            took_ms[name].append(step_ms)
            shares[name] += [shares_of(window_of(bounds, run, options.steps))] if run else []
    print(f"cost: bare {np.median(took_ms['bare']):.2f} ms/step")
    for name in list(FITS)[1:]:
        _print_ratios(name, np.divide(took_ms[name], took_ms["bare"]), shares[name])


def _print_ratios(name: str, ratios: NDArray[np.float64], shares: list[dict[str, float]]) -> None:
    listed = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"    {name} over bare {np.median(ratios):.3f}, median of {listed}")
    if shares:
        parts = {part: float(np.median([share[part] for share in shares])) for part in shares[0]}
        waits = ", ".join(f"{share['wait_ms']:.3f}" for share in shares)
        print(f"        medians of its split: {as_text(parts)}; data wait of each: {waits}")
    sys.stdout.flush()


def print_bits(bench: Bench, runs: Path) -> None:
    """Print the largest differences between two bare fits, and between a bare and a watched one."""
    results = {}
    for name in ("bare", "again", "watched"):
        model = make_model(bench)
        bounds, _, _ = fit(bench, model, 0.0, 10, runs if name == "watched" else None)
        results[name] = (
            np.array(bounds.losses),
            [np.array(weight) for weight in model.get_weights()],
        )
    for name in ("again", "watched"):
        losses = float(np.abs(results[name][0] - results["bare"][0]).max())
        pairs = zip(results[name][1], results["bare"][1], strict=True)
        weights = max(float(np.abs(one - other).max()) for one, other in pairs)
        same = "equal bit for bit" if losses == weights == 0 else "not equal"
        print(
            f"bits: bare against {name}: losses {losses:.3g}, weights {weights:.3g}, {same}",
            flush=True,
        )


def print_lanes(run: Run) -> None:
    """Print the GPUs of a run as `--json` has them, and as the doctor has them."""
    document = as_json(run)
    print("--json: device", document["device"], "replicas", document["replicas"])
    machine = document["machine"]
    lanes = {name: machine[name] for name in ("busiest_gpu", "idlest_gpu", "strategy_gpus")}
    print("--json: machine", json.dumps(lanes, default=str))
    print("--json: pipeline", document["pipeline"]["missing"])
    command = [sys.executable, "-m", "tfwatch", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    for line in done.stdout.splitlines():
        if "GPU" in line:
            print("doctor:", line.strip())
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-ms", type=float, default=40.0)
    parser.add_argument("--filters", type=int, help="of each convolution")
    parser.add_argument("--batch", type=int, help="of all replicas together")
    options = parser.parse_args()
    bench = make_bench(options.filters, options.batch)
    where = f"{bench.gpus} GPUs" if bench.gpus else "two logical CPU devices"
    print(f"MirroredStrategy over {where}, global batches of {bench.batch}", flush=True)
    model = make_model(bench)
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        fit(bench, model, 0.0, 5, None)
        run = print_splits(bench, model, options, runs)
        print_cost(bench, model, options, runs)
        print_bits(bench, runs)
        print_lanes(run)


if __name__ == "__main__":
    main()
