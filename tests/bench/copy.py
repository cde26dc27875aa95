"""The timed copy of batches to the GPU against its device trace, and the forecast of device prefetch. Needs a GPU.

    python -m tests.bench.copy [--megabytes 1.2,4.8,19.3,77.1] [--rounds 4] [--steps 50]

Prints for each size and element type: the copy that Watch records; the host-to-device copies of the trace, on the GPU
and as calls of the driver, per step; steps of stock `fit`, Watch and their ratio; the verdict. Then, with device
prefetch switched on in mid-epoch: the forecast and the measured step. Then whether every batch's loss and the weights
are those of stock `fit`, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.bench.trace import PLANE
from tfwatch import Watch, open_run
from tfwatch.live.judged_run import JudgedRun

if TYPE_CHECKING:
    from tfwatch.analysis.steps.verdict import Breakdown

SKIP, SIDE = 12, 224
IMAGE_BYTES = SIDE * SIDE * 3
#: The calls of the driver are in it.
HOST_PLANE = "/host:CPU"


def make_model(kind: str, layers: int) -> Any:
    """Return a few convolutions on images of an element type."""
    keras.utils.set_random_seed(1)
    image = keras.Input((SIDE, SIDE, 3), dtype=kind)
    x = keras.layers.Rescaling(1 / 255.0)(image)
    for n in range(layers):
        x = keras.layers.Conv2D(
            32 if n else 16, 5, strides=1 if n else 4, padding="same", activation="relu"
        )(x)
    x = keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x))
    model = keras.Model(image, x)
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False
    )
    return model


def make_data(kind: str, batch: int) -> tf.data.Dataset:
    """Return six random batches in host memory, endlessly, without a copy of their own."""
    rng, found = np.random.default_rng(0), None
    for _ in range(6):
        x = rng.integers(0, 255, size=(batch, SIDE, SIDE, 3), dtype=np.uint8).astype(kind)
        one = tf.data.Dataset.from_tensors((x, rng.integers(0, 10, size=batch)))
        found = one if found is None else found.concatenate(one)
    assert found is not None
    return found.repeat()


class Steps(keras.callbacks.Callback):
    """Notes when steps end, and each loss; switches device prefetch on after some of them."""

    def __init__(self, watch: Watch | None = None, switches: dict[int, Any] | None = None) -> None:
        super().__init__()
        self.ends_ns: list[int] = []
        self.losses: list[float] = []
        self._watch, self._switches, self._step = watch, switches or {}, 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ends_ns.append(time.perf_counter_ns())
        self.losses.append(logs["loss"])
        self._step += 1
        if self._watch and self._step in self._switches:
            self._watch.set(device_prefetch=self._switches[self._step])

    def median_ms(self) -> float:
        return float(np.median(np.diff(self.ends_ns[SKIP:]))) / 1e6


def fit(
    model: Any, data: tf.data.Dataset, steps: int, runs: Path | None, switches: Any = None
) -> tuple[Steps, Any]:
    """Run one `fit`; return its steps, and the run where it is watched, which it shares with no other."""
    watch = Watch(Path(tempfile.mkdtemp(dir=runs))) if runs else None
    seen = Steps(watch, switches)
    model.fit(data, steps_per_epoch=steps, verbose=0, callbacks=[seen, *([watch] if watch else [])])
    return seen, open_run(watch.run_path) if watch and watch.run_path else None


def traced_copies_ms(model: Any, data: tf.data.Dataset, runs: Path) -> tuple[float, float, float]:
    """Return the host-to-device copies of the trace on the GPU and as calls of the driver, and those of Watch.

    All are milliseconds a step. A call also fills the driver's first pinned buffer, before the GPU begins to copy.
    """
    fit(model, data, SKIP, runs)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(
            folder, tf.profiler.experimental.ProfilerOptions(host_tracer_level=1)
        )
        _, run = fit(model, data, 40, runs)
        tf.profiler.experimental.stop()
        spaces = [
            xplane_pb2.XSpace.FromString(path.read_bytes())
            for path in Path(folder).rglob("*.xplane.pb")
        ]
    on_gpu, called = (_copies_ps(spaces, plane) / 1e9 / 40 for plane in (PLANE, HOST_PLANE))
    return on_gpu, called, float(np.mean(run.steps["copy_ms"][2:]))


def _copies_ps(spaces: list[Any], plane_name: str) -> int:
    return sum(
        event.duration_ps
        for space in spaces
        for plane in space.planes
        if plane.name == plane_name
        for line in plane.lines
        for event in line.events
        if "MemcpyH2D" in plane.event_metadata[event.metadata_id].name
    )


def measure(kind: str, batch: int, layers: int, options: Any, runs: Path) -> None:
    """Print the rows of one size."""
    model, data = make_model(kind, layers), make_data(kind, batch)
    bare: list[float] = []
    watched: list[float] = []
    copies, word = [], ""
    for n in range(options.rounds):
        for is_watched in (True, False) if n % 2 else (False, True):
            seen, run = fit(model, data, options.steps + SKIP, runs if is_watched else None)
            (watched if is_watched else bare).append(seen.median_ms())
            if run is not None:
                copies.append(float(np.median(run.steps["copy_ms"][SKIP:])))
                found = JudgedRun(run).finding
                word = found.word if found else ""
    traced, called, beside = traced_copies_ms(model, data, runs)
    ratio = np.median(np.array(watched) / np.array(bare))
    print(
        f"{kind:8} {batch * IMAGE_BYTES * np.dtype(kind).itemsize / 1e6:6.1f} MB, {layers} layers: "
        f"copy {np.median(copies):.2f} (traced fit {beside:.2f}; {traced:.2f} on the GPU, {called:.2f} in calls) ms; "
        f"stock {np.median(bare):.2f}, Watch {np.median(watched):.2f}, ratio {ratio:.3f}; {word}",
        flush=True,
    )
    half = options.steps + SKIP
    _, run = fit(model, data, 2 * half + 20, runs, {half: 2})
    checked = JudgedRun(run).record.checked
    for one in checked:
        made = one.forecast
        print(
            f"    device prefetch: {made.now_ms:.2f} -> forecast {made.step_ms:.2f} ({made.low_ms:.2f} to "
            f"{made.high_ms:.2f}), measured {one.measured_ms:.2f}, off {one.off:+.1%}; {JudgedRun(run).finding}",
            flush=True,
        )
        for side, split in (("before", one.switch.before), ("after", one.switch.after)):
            print(f"        {side}: {parts_text(split)}", flush=True)
    if not checked:
        print(
            "    device prefetch: no forecast",
            [e for e in run.events if "witch" in type(e).__name__][:3],
        )


def parts_text(split: Breakdown | None) -> str:
    """Return the medians of a step's parts: what the forecast is made from, and what came."""
    if split is None or split.copy is None:
        return "n/a"
    parts = {
        "wait": split.wait,
        "copy": split.copy,
        "dispatch": split.dispatch,
        "compute": split.compute,
    }
    return ", ".join(
        f"{name} {stat.median:.2f}" for name, stat in {**parts, "host": split.host}.items()
    )


def print_bits(runs: Path) -> None:
    """Compare with stock `fit`, with and without switches."""
    tf.config.experimental.enable_op_determinism()
    for kind, last in (("float32", 7), ("uint8", 16)):
        found = {}
        for name, switches in (
            ("stock", None),
            ("again", None),
            ("watched", {}),
            ("switched", {4: 2, 9: "off", 14: 1}),
        ):
            model, data = make_model(kind, 3), make_data(kind, 16)
            data = data.take(20).concatenate(data.take(1).map(lambda x, y, n=last: (x[:n], y[:n])))
            seen, _ = fit(model, data, 21, runs if switches is not None else None, switches)
            found[name] = (seen.losses, [weights.tobytes() for weights in model.get_weights()])
        same = {name: found[name] == found["stock"] for name in found}
        print(f"bits, {kind}, last batch of {last}: {same}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", default="1.2,4.8,19.3,77.1")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        for kind in ("float32", "uint8"):
            for megabytes in map(float, options.megabytes.split(",")):
                batch = max(1, round(megabytes * 1e6 / IMAGE_BYTES / np.dtype(kind).itemsize))
                measure(kind, batch, 2, options, runs)
        for kind, batch, layers in (("float32", 128, 1), ("float32", 128, 5), ("uint8", 128, 5)):
            measure(kind, batch, layers, options, runs)
        print_bits(runs)


if __name__ == "__main__":
    main()
