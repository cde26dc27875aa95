"""Watch's data-wait share against the GPU's busy share in its device trace.

    python -m tests.bench.starvation [--delays 0 5 10 20 40] [--step-ms 15] [--steps 40]
        [--rounds 3]

Trains convolutions on delayed batches, with prefetch off and 4, under one device trace. Prints a
row for each case, over all rounds: the mean step and its compute; Watch's data-wait share of the
wall clock; the share in which the GPU runs a kernel or a copy; the expected one from the cases
without delay (their busy share without data wait, times 1 - data wait); and the share of the data
wait in which the GPU is busy. Without a GPU, busy is n/a.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Callable, Iterable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.bench.runner import figure, in_turns, make_parser, print_head, print_row
from tfwatch import Watch, open_run
from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import work_ahead

#: What the start of a sleep and the wake-up take, in microseconds.
_SLEEP_COST_US = 450
SIZE, FILTERS, CLASSES = 32, 128, 10
#: The plane of a trace, and the lines of its streams: the others are derived from these.
PLANE, STREAM = "/device:GPU:0", "Stream"
#: Nanoseconds since 1970 are above it (2001), those since a trace's start below.
_SINCE_1970_NS = 10**18
#: Steps before the counted ones: compile, convolution algorithms, the start of the pipeline.
SKIP = 15


def delayed(value: tf.Tensor, delay_ms: float | tf.Tensor) -> tf.Tensor:
    """Return the value after a sleep inside TensorFlow, without Python and the GIL."""
    once = tf.data.Dataset.from_tensors(value)
    slow = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(once),
        sleep_microseconds=tf.maximum(tf.cast(delay_ms * 1000, tf.int64) - _SLEEP_COST_US, 0),
        output_types=[value.dtype],
        output_shapes=[value.shape],
    )
    # take(1): reading on to the end would sleep a second time.
    made = tf.data.experimental.from_variant(slow, once.element_spec)
    return made.take(1).get_single_element()


class Case(NamedTuple):
    """The settings of a case."""

    delay_ms: float
    prefetch: str


@dataclass(frozen=True, slots=True)
class Window:
    """The counted steps of one `fit`: begin, end and data waits, in nanoseconds since 1970."""

    start_ns: int
    end_ns: int
    waits_ns: NDArray[np.int64]
    compute_ms: float


def make_model() -> Any:
    """Return four convolutions of equal size, so that a step with its batch is device-bound."""
    keras.utils.set_random_seed(1)
    image = x = keras.Input((SIZE, SIZE, 3))
    for _ in range(4):
        x = keras.layers.Conv2D(FILTERS, 3, padding="same", use_bias=False)(x)
        x = keras.layers.Activation("relu")(keras.layers.BatchNormalization()(x))
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(image, keras.layers.Dense(CLASSES, activation="softmax")(x))
    model.compile(
        "adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False
    )
    return model


def make_data(batch: int, delay_ms: float, prefetch: str) -> tf.data.Dataset:
    """Return one random batch endlessly, each time after a sleep inside TensorFlow."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch, SIZE, SIZE, 3)).astype("float32")
    data = tf.data.Dataset.from_tensors((x, rng.integers(0, CLASSES, size=batch))).repeat()
    if delay_ms:
        data = data.map(lambda x, y: (x, delayed(y, delay_ms)))
    size = work_ahead.count_of(prefetch)
    return (data if size is None else data.prefetch(size)).with_options(
        work_ahead.options(Knobs(prefetch=prefetch))
    )


class Bounds(keras.callbacks.Callback):
    """Records begin and end of the counted steps; the device is drained then, because Keras has
    read the metrics."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.start_ns = self.end_ns = 0
        self._last = SKIP + steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == SKIP:
            self.start_ns = time.time_ns()
        elif batch == self._last:
            self.end_ns = time.time_ns()


def run(model: Any, batch: int, case: Case, steps: int, runs_dir: Path) -> Window:
    """Run one watched `fit`, whose run is its own."""
    watch, bounds = Watch(Path(tempfile.mkdtemp(dir=runs_dir))), Bounds(steps)
    data = make_data(batch, case.delay_ms, case.prefetch)
    model.fit(data, steps_per_epoch=SKIP + steps + 2, verbose=0, callbacks=[watch, bounds])
    assert watch.run_path
    rows = open_run(watch.run_path).steps
    before, rows = rows[SKIP], rows[SKIP + 1 : SKIP + steps + 1]
    # The callback runs within 50 us of the end of its step's compute, which aligns the run's clock
    # with the trace's.
    drained_ns = int(before["start_ns"]) + int((before["wait_ms"] + before["compute_ms"]) * 1e6)
    starts = rows["start_ns"].astype(np.int64) + (bounds.start_ns - drained_ns)
    waits = np.stack([starts, starts + (rows["wait_ms"] * 1e6).astype(np.int64)], axis=1)
    return Window(bounds.start_ns, bounds.end_ns, waits, float(rows["compute_ms"].sum()))


def find_batch(model: Any, step_ms: float) -> int:
    """Return the batch size at which a step without data wait takes about `step_ms`."""
    batch = 32
    for _ in range(3):
        measured = _compute_ms(model, batch)
        batch = max(1, round(batch * min(8.0, step_ms / measured)))
    return batch


def _compute_ms(model: Any, batch: int) -> float:
    data, times = iter(make_data(batch, 0, "4")), []
    for _ in range(12):
        x, y = next(data)
        start = time.perf_counter()
        model.train_on_batch(x, y)
        times.append((time.perf_counter() - start) * 1e3)
    return float(np.median(times[4:]))


class Busy:
    """The time that the first GPU runs a kernel or a copy on any stream; `any` is False without a
    GPU in the trace."""

    def __init__(self, folder: Path) -> None:
        spans = np.array([*_spans(folder)], np.int64).reshape(-1, 2)
        self.any = bool(len(spans))
        # Nanoseconds since 1970 have more digits than a float.
        self._first_ns = int(spans.min()) if self.any else 0
        if self.any:
            self._times, self._busy = busy_until(spans - self._first_ns)

    def within_ns(self, spans: Iterable[Sequence[int]]) -> float:
        """Return the nanoseconds of work within spans of time."""
        edges = np.array(list(spans), np.int64)
        if not self.any or not edges.size:
            return 0.0
        ran = np.interp((edges - self._first_ns).ravel(), self._times, self._busy).reshape(-1, 2)
        return float((ran[:, 1] - ran[:, 0]).sum())


def trace(folder: Path, measure: Callable[[], None]) -> Busy:
    """Run `measure` under one device trace that is written below `folder`."""
    tf.profiler.experimental.start(str(folder))
    try:
        measure()
    finally:
        tf.profiler.experimental.stop()
    return Busy(folder)


def busy_until(spans: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return instants in order and, for each, the total time covered by the spans until then."""
    spans = spans[np.argsort(spans[:, 0])]
    starts, ends = spans[:, 0], np.maximum.accumulate(spans[:, 1])
    apart = starts[1:] > ends[:-1]
    starts, ends = starts[np.r_[True, apart]], ends[np.r_[apart, True]]
    ran = np.cumsum(ends - starts)
    return (
        np.stack([starts, ends], axis=1).ravel(),
        np.stack([ran - (ends - starts), ran], axis=1).ravel(),
    )


def _spans(folder: Path) -> Iterator[tuple[int, int]]:
    for path in sorted(folder.rglob("*.xplane.pb")):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        planes = [plane for plane in space.planes if plane.name == PLANE]
        for line in (line for plane in planes for line in plane.lines):
            if line.name.startswith(STREAM):
                is_absolute = line.timestamp_ns > _SINCE_1970_NS
                line_ns = line.timestamp_ns + (0 if is_absolute else _started_ns(space))
                for event in line.events:
                    from_ns = line_ns + event.offset_ps // 1000
                    yield from_ns, from_ns + event.duration_ps // 1000


def _started_ns(space: Any) -> int:
    """Return the begin of the trace, from which its instants count, in nanoseconds since 1970; 0
    where unknown."""
    for plane in space.planes:
        for stat in plane.stats:
            if plane.stat_metadata[stat.metadata_id].name == "profile_start_time":
                return int(stat.uint64_value or stat.int64_value)
    return 0


class Reading:
    """A case over all rounds; shares of 1. `busy` and `busy_in_wait` are NaN where the trace has no
    GPU."""

    def __init__(self, windows: Sequence[Window], busy: Busy) -> None:
        wall_ns = sum(window.end_ns - window.start_ns for window in windows)
        waits = np.concatenate([window.waits_ns for window in windows])
        wait_ns = float((waits[:, 1] - waits[:, 0]).sum())
        ran_ns = busy.within_ns((window.start_ns, window.end_ns) for window in windows)
        self.step_ms = wall_ns / len(waits) / 1e6
        self.compute_ms = sum(window.compute_ms for window in windows) / len(waits)
        self.wait = wait_ns / wall_ns
        self.busy = ran_ns / wall_ns if busy.any else float("nan")
        self.busy_in_wait = busy.within_ns(waits) / wait_ns if busy.any else float("nan")


def print_table(readings: dict[Case, Reading]) -> None:
    """Print a row for each case."""
    without_delay = [one for case, one in readings.items() if case.delay_ms == 0]
    unstarved = np.mean([one.busy / (1 - one.wait) for one in without_delay])
    columns = ("step ms", "compute ms", "data wait", "GPU busy", "expected", "error, points")
    print_head("delay ms", "prefetch", *columns, "busy in wait")
    for case, one in readings.items():
        expected = float(unstarved) * (1 - one.wait)
        times = f"{one.step_ms:.2f}", f"{one.compute_ms:.2f}", f"{one.wait:.3f}"
        shares = figure(one.busy, ".3f"), figure(expected, ".3f")
        error = figure((one.busy - expected) * 100, "+.1f")
        print_row(*case, *times, *shares, error, figure(one.busy_in_wait, ".4f"))


def main() -> None:
    """Train under a trace."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--delays",
        nargs="*",
        type=float,
        default=[0, 5, 10, 20, 40],
        help="milliseconds by which batches are late; 0 is needed",
    )
    parser.add_argument("--step-ms", type=float, default=15.0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    model = make_model()
    batch = find_batch(model, options.step_ms)
    print(f"batches of {batch}", flush=True)
    windows: dict[Case, list[Window]] = {
        Case(*case): [] for case in product(options.delays, ("off", "4"))
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def measure() -> None:
            for _, case in in_turns(options.rounds, [*windows]):
                windows[case].append(run(model, batch, case, options.steps, folder))

        run(model, batch, next(iter(windows)), options.steps, folder)
        busy = trace(folder / "trace", measure)
        print_table({case: Reading(found, busy) for case, found in windows.items()})


if __name__ == "__main__":
    main()
