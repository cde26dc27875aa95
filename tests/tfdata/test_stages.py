"""The stages of real pipelines in tf.data's model."""

import gc
import itertools
import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters import get_data_adapter

from tests.runs.folders import FakeClock, read_back, write_run
from tests.runs.processes import wait_until
from tests.tfdata.batches import without_autotune
from tests.whole import events_of, only
from tfwatch.core.events import SensorMissing, StagesFound, StallLocated
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import STEP, Phase
from tfwatch.judge.stages import StageTable, make_stage_table
from tfwatch.runs.snapshot import Snapshot
from tfwatch.runs.writer import RunWriter
from tfwatch.tfdata import live_switch, work_ahead
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.tfdata.stage_names import find_code_stages
from tfwatch.tfdata.stage_reader import STALL_NS, StageReader
from tfwatch.tfdata.work_ahead import CopyStamps, options

pytestmark = pytest.mark.tensorflow


class Held:
    """The references of a training."""

    def __init__(self, source: Any, batches: Any) -> None:
        self.source, self.batches = source, batches

    def iterators(self) -> tuple[Any, Any]:
        return self.source, self.batches


def begin(batches: Any, source: Any = None) -> tuple[Held, RunWriter, StageReader, FakeClock]:
    held, clock = Held(source, batches), FakeClock(1)
    writer = write_run(None, np.empty(0, dtype=STEP), clock=clock)
    return held, writer, StageReader(writer, held.iterators), clock


def recorded(writer: RunWriter) -> Snapshot:
    writer.flush()
    return read_back(writer)


def table(writer: RunWriter) -> StageTable:
    run = recorded(writer)
    found = {event.pipeline: event for event in events_of(run, StagesFound)}
    made = make_stage_table(run.stages, found)
    assert made is not None
    return made


def decode(x: Any) -> Any:
    return x + 1


def rows() -> Iterator[int]:
    yield from range(100_000)


def read_after(held: Held, reader: StageReader, batches: int) -> None:
    """Read before and after so many batches."""
    next(held.batches)
    reader.read()
    for _ in range(batches):
        next(held.batches)
    reader.read()


def test_stages_have_the_names_of_the_code_and_no_gate() -> None:
    source = iter(
        tf.data.Dataset.range(100_000)
        .shuffle(100, seed=1)
        .map(decode)
        .batch(4)
        .with_options(options(Knobs()))
    )

    def build(batches: Any, knobs: Knobs) -> Any:
        return (
            batches.unbatch()
            .map(decode, num_parallel_calls=3)
            .batch(4)
            .prefetch(2)
            .with_options(options(knobs))
        )

    feed = SwitchablePipeline(build)
    feed.start(source, Knobs())
    held, writer, reader, _ = begin(feed.iterator, feed.source)
    read_after(held, reader, 30)
    made, labels = table(writer), [stage.label for stage in find_code_stages(held.batches._dataset)]
    feed.close()

    assert labels == ["map", "unbatch", "map(decode)", "batch(4)", "prefetch"]
    names = [stage.name for stage in made.stages]
    assert names[:4] == ["range", "shuffle(100)", "map(decode)", "batch(4)"]
    assert [name for name in names[4:] if name not in ("map", "unbatch")] == [
        "map(decode)",
        "batch(4)",
        "prefetch",
    ]
    by_name = dict(zip(names, made.stages, strict=True))
    assert by_name["prefetch"].buffer_size == 2
    assert by_name["shuffle(100)"].buffer_size == 100
    assert by_name["shuffle(100)"].buffered >= 99
    assert all(stage.busy_ms >= 0 for stage in made.stages if not stage.is_buffer)


def copied_ahead(
    source: Any, knobs: Knobs, monkeypatch: pytest.MonkeyPatch, *, decodes: bool = False
) -> Any:
    """The batches of a source with a prefetch to the device, for which the CPU stands."""
    monkeypatch.setattr(work_ahead, "DEVICE", "/CPU:0")
    gate = live_switch._gated(source, tf.Variable(True))
    over = gate.map(decode, num_parallel_calls=2) if decodes else gate
    monkeypatch.setattr(
        tf, "timestamp", lambda: tf.constant(0.0, tf.float64)
    )  # determinism forbids the clock
    stamped = CopyStamps(2).over(work_ahead.prefetch_only(over, knobs))
    return iter(work_ahead.on_device(stamped, knobs))


@pytest.mark.parametrize("prefetch", ["off", "4"])
def test_behind_a_prefetch_to_the_device_the_stages_are_those_of_the_source(
    prefetch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = iter(tf.data.Dataset.range(100_000).map(decode).batch(8))
    knobs = Knobs(prefetch=prefetch, device_prefetch="2")
    held, writer, reader, _ = begin(copied_ahead(source, knobs, monkeypatch), source)
    read_after(held, reader, 40)
    found = table(writer)
    assert [stage.name for stage in found.stages] == ["range", "map(decode), batch(8)"]
    assert found.rate_ms > 0


def test_a_map_between_the_source_and_a_prefetch_to_the_device_has_no_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = iter(tf.data.Dataset.range(100_000).batch(8))
    batches = copied_ahead(source, Knobs(device_prefetch="2"), monkeypatch, decodes=True)
    held, writer, reader, _ = begin(batches, source)
    read_after(held, reader, 40)
    assert not len(recorded(writer).stages)
    assert "prefetch_to_device" in only(recorded(writer), SensorMissing).reason


def test_a_stage_is_charged_with_its_own_work() -> None:
    def work(x: Any) -> Any:
        sum(range(200_000))
        return x

    @tf.autograph.experimental.do_not_convert
    def slow(x: Any) -> Any:
        return tf.numpy_function(work, [x], x.dtype)

    held, writer, reader, _ = begin(
        iter(tf.data.Dataset.range(100_000).map(decode).map(slow).batch(4))
    )
    read_after(held, reader, 20)
    made = table(writer)

    slowest = max(
        (stage for stage in made.stages if not math.isnan(stage.busy_ms)),
        key=lambda stage: stage.busy_ms,
    )
    assert "map(slow)" in slowest.name
    assert slowest.kind.endswith(" python")


def test_a_new_epochs_iterator_keeps_the_known_names() -> None:
    batches = tf.data.Dataset.range(100_000).map(decode).batch(4)
    held, writer, reader, _ = begin(iter(batches))
    read_after(held, reader, 30)
    held.batches = iter(batches)
    read_after(held, reader, 30)

    run = recorded(writer)

    assert len(events_of(run, StagesFound)) == 1
    assert set(run.stages["pipeline"].tolist()) == {0}
    # The first reading of each iterator includes its start-up, and gives no figures.
    known = ~np.isnan(run.stages["busy_ms"][run.stages["stage"] == 0])
    assert known.tolist() == [False, True, False, True]


def waits_of(
    reader: StageReader, act: Callable[[list[float]], None], monkeypatch: pytest.MonkeyPatch
) -> list[float]:
    """Return the six waits before the first readings. act: called with those so far in each."""
    waits: list[float] = []

    def sleep(wait_s: float) -> bool:
        waits.append(wait_s)
        act(waits)
        return len(waits) == 6

    monkeypatch.setattr(reader, "_sleep", sleep)
    reader.start()
    wait_until(lambda: len(waits) == 6)
    return waits


def test_the_stages_are_read_again_soon_after_an_epochs_first_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = tf.data.Dataset.range(1000).map(decode)
    held, _, reader, _ = begin(iter(batches))

    def train(waits: list[float]) -> None:
        if len(waits) == 3:
            held.batches = iter(batches)
        for _ in range(5):
            next(held.batches)

    assert waits_of(reader, train, monkeypatch) == [0.2, 0.2, 1.0, 0.2, 1.0, 1.0]


def test_expensive_readings_of_short_epochs_come_in_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two readings within an epoch show its work; the rest after them keeps to the budget."""
    batches = tf.data.Dataset.range(1000).map(decode)
    held, writer, reader, clock = begin(iter(batches))
    spent_ns = itertools.count(0, 2_000_000)
    monkeypatch.setattr(writer, "clock", replace(clock.clock, thread_ns=lambda: next(spent_ns)))

    def train(waits: list[float]) -> None:
        if waits[-1] > 0.2:
            held.batches = iter(batches)
        next(held.batches)

    waits = waits_of(reader, train, monkeypatch)
    assert waits == pytest.approx([0.2, 0.2, 1.0, 0.2, 2.0, 0.2])
    assert not events_of(recorded(writer), SensorMissing)


def test_a_stage_that_draws_random_numbers_is_marked() -> None:
    layer = keras.layers.RandomFlip()
    flipped = tf.data.Dataset.from_tensors(tf.zeros([1, 4, 4, 3])).map(layer)
    assert [stage.random for stage in find_code_stages(flipped)] == [False, True]

    def stateless(x: Any) -> Any:
        return x + tf.random.stateless_uniform([], [1, 2], 0, 9, tf.int64)

    drawn = tf.data.Dataset.range(9).map(
        lambda x: x + tf.random.uniform([], 0, 9, tf.int64, seed=1)
    )
    stages = find_code_stages(drawn.map(stateless).batch(2))

    assert [(stage.kind, stage.random) for stage in stages[1:]] == [
        ("Map", True),
        ("Map", False),
        ("Batch", False),
    ]


def test_epochs_that_end_before_the_next_reading_are_reported_as_the_reason() -> None:
    batches = tf.data.Dataset.range(8).map(decode)
    held, writer, reader, _ = begin(iter(batches))
    for epoch in range(3):
        assert not events_of(recorded(writer), SensorMissing), epoch
        held.batches = iter(batches)
        next(held.batches)
        reader.read()

    assert only(recorded(writer), SensorMissing).reason.startswith("epochs too short for a reading")


def test_the_argument_of_fit_marks_the_stage_that_keras_made_of_it() -> None:
    x, y = np.ones((64, 2)), np.ones((64, 1))

    class Data(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 64

        def __getitem__(self, index: int) -> Any:
            return x, y

    def given(data: Any, *more: Any) -> set[str]:
        batches = get_data_adapter(data, *more).get_tf_dataset()
        held, writer, reader, _ = begin(iter(batches))
        next(held.batches)
        wait_until(lambda: bool(reader.read() or events_of(recorded(writer), StagesFound)))
        (found, *_) = events_of(recorded(writer), StagesFound)
        return {kind.split()[-1] for kind in found.kinds if " " in kind}

    assert given(x, y) == {"arrays"}
    assert given(Data()) == {"PyDataset"}
    assert given((x, y) for _ in range(64)) == {"generator"}
    # Keras turns autotuning off, and with it tf.data's model: only the names are known.
    assert given(Data(workers=2)) == {"PyDataset"}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: iter(tf.data.Dataset.range(9).with_options(without_autotune())), "not autotuned"),
        (rows, "do not come from a tf.data iterator"),
    ],
)
def test_a_pipeline_that_cannot_be_read_is_reported_once_and_no_model_is_asked_for(
    make: Callable[[], Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow logs a warning each time, once a second into the user's log."""
    asked: list[Any] = []
    monkeypatch.setattr(tf.data.experimental, "get_model_proto", asked.append)
    _held, writer, reader, _ = begin(make())
    reader.read()
    reader.read()

    missing = only(recorded(writer), SensorMissing)

    assert missing.sensor == "pipeline"
    assert reason in missing.reason
    assert len(recorded(writer).stages) == 0
    assert not asked


def test_an_error_that_ends_the_thread_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    _held, writer, reader, _ = begin(rows())
    monkeypatch.setattr(reader, "_sleep", lambda _: False)
    monkeypatch.setattr(reader, "read", lambda: 1 / 0)
    reader.start()
    wait_until(lambda: bool(events_of(recorded(writer), SensorMissing)))

    missing = only(recorded(writer), SensorMissing)

    assert (missing.sensor, missing.reason) == (
        "pipeline",
        "the thread that reads it stopped: ZeroDivisionError: division by zero",
    )


def test_the_reader_keeps_neither_an_iterator_nor_its_owner_alive() -> None:
    held, _, reader, _ = begin(iter(tf.data.Dataset.range(1000).map(decode)))
    read_after(held, reader, 5)
    iterator, holder = weakref.ref(held.batches), weakref.ref(held)

    held.batches = None
    gc.collect()
    gone = iterator() is None
    del held
    gc.collect()

    assert (gone, holder()) == (True, None)
    assert reader.read() == 0


def test_a_stall_is_reported_once_with_the_stage_that_is_stuck() -> None:
    held, writer, reader, clock = begin(
        iter(tf.data.Dataset.range(100_000).map(decode).batch(4).with_options(options(Knobs())))
    )
    read_after(held, reader, 30)
    writer.status = (Phase.WAIT, writer.now_ns(), 31, 0, "")
    for _ in range(4):
        clock.at_s += STALL_NS / 2e9
        reader.read()

    located = only(recorded(writer), StallLocated)

    assert (located.step, located.stage) == (31, "range")
    assert located.since_ns <= writer.status[1]
