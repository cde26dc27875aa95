"""A wait is explained by a shuffle buffer only if tf.data's own model shows that the buffer was
filled."""

from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.runs.folders import FakeClock, make_manifest, read_back
from tests.tfdata.batches import without_autotune
from tfwatch import Watch
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Flag
from tfwatch.runs.writer import RunWriter
from tfwatch.tfdata.shuffle_fill import (
    ShuffleFill,
    find_filled_shuffle,
    is_fill_with_all,
    is_shuffle_fill,
)
from tfwatch.tfdata.stage_reader import StageReader
from tfwatch.tfdata.work_ahead import options
from tfwatch.watch.fit.recorder import Recorder
from tfwatch.watch.session import Session
from tfwatch.watch.step_log import StepLog

pytestmark = pytest.mark.tensorflow

MS = 1e6


def model(*, read_ms: float, out: int, held: int, after_ms: float) -> dict[int, Any]:
    """Return a model of a map over a shuffle over a reader, with their total times."""
    nodes = {
        1: ("Root", [2], 0.0, out, 0),
        2: ("Map", [3], after_ms, out, 0),
        3: ("Shuffle", [4], 0.0, out, held),
        4: ("Map", [5], read_ms, out + held, 0),
    }
    names = ("name", "inputs", "processing_time", "num_elements", "buffered_elements")
    return {
        at: SimpleNamespace(**dict(zip(names, (name, inputs, ms * MS, *counts), strict=True)))
        for at, (name, inputs, ms, *counts) in nodes.items()
    }


@pytest.mark.parametrize(
    ("wait_ms", "read_ms", "out", "held", "after_ms", "filled"),
    [
        pytest.param(105, 104, 2, 50, 1, True, id="all of it"),
        pytest.param(105, 50, 2, 50, 50, False, id="as much went to what follows"),
        pytest.param(105, 1, 2, 1000, 100, False, id="of what costs nothing"),
        pytest.param(500, 104, 2, 50, 1, False, id="a fifth of the wait"),
        pytest.param(60, 200, 2, 100, 1, True, id="by several readers at once"),
        pytest.param(105, 104, 52, 0, 1, False, id="nothing is held"),
        pytest.param(105, 0, 0, 0, 0, False, id="nothing has come"),
    ],
)
def test_a_first_wait(
    wait_ms: float, read_ms: float, out: int, held: int, after_ms: float, filled: bool
) -> None:
    nodes = model(read_ms=read_ms, out=out, held=held, after_ms=after_ms)

    assert is_shuffle_fill(nodes, wait_ms * MS, begun=False) is filled


@pytest.mark.parametrize(
    ("read_ms", "out", "held", "filled"),
    [
        pytest.param(104, 2, 50, True, id="refilled"),
        pytest.param(1000, 450, 50, True, id="the last half of a buffer's time"),
        pytest.param(1000, 50, 50, False, id="filled earlier, for longer"),
    ],
)
def test_a_wait_in_mid_run(read_ms: float, out: int, held: int, filled: bool) -> None:
    assert (
        is_shuffle_fill(
            model(read_ms=read_ms, out=out, held=held, after_ms=5000), 105 * MS, begun=True
        )
        is filled
    )


@pytest.mark.parametrize(
    ("wait_ms", "others_ms", "known", "filled"),
    [
        pytest.param(105, 1, False, True, id="all of it"),
        pytest.param(105, 60, False, False, id="most went to what follows"),
        pytest.param(105, 1, True, False, id="filled before the last reading"),
        pytest.param(40, 1, False, False, id="short"),
    ],
)
def test_a_buffer_that_took_all_leaves_no_work_in_the_model(
    wait_ms: float, others_ms: float, known: bool, filled: bool
) -> None:
    nodes = model(read_ms=0, out=2, held=50, after_ms=others_ms)
    del nodes[4]
    nodes[3].inputs = []

    assert is_fill_with_all(nodes, wait_ms * MS, {3: 1.0} if known else {}) is filled
    assert not is_shuffle_fill(nodes, wait_ms * MS, begun=False)


def slow(x: Any) -> Any:
    return x


def test_the_shuffle_and_the_map_that_it_can_come_before_are_named() -> None:
    def shuffled(data: Any, size: int) -> Any:
        return data.shuffle(size, seed=1)

    def positive(x: Any) -> Any:
        return x > 0

    numbers = tf.data.Dataset.range(10)
    unnamed = numbers.filter(positive).map(lambda x: x)
    twice = shuffled(shuffled(numbers.map(slow), 10).map(slow).batch(2), 5)

    assert find_filled_shuffle(shuffled(numbers.map(slow).map(slow).prefetch(2), 10)) == (
        "shuffle(10)",
        "map(slow)",
    )
    assert find_filled_shuffle(shuffled(numbers.map(slow).cache(), 10)) == ("shuffle(10)", "")
    assert find_filled_shuffle(shuffled(unnamed, 10)) == ("shuffle(10)", "map")
    assert find_filled_shuffle(twice) == ("shuffle(5)", "map(slow)")
    assert find_filled_shuffle(shuffled(numbers, 10).map(slow)) == ("shuffle(10)", "")
    assert find_filled_shuffle(numbers.map(slow)) == ("", "")


def test_without_an_iterator_or_a_model_no_wait_is_explained() -> None:
    batches = tf.data.Dataset.range(10).shuffle(5, seed=1)

    assert not ShuffleFill(None).is_cause_of(1e9)
    assert not ShuffleFill(iter(batches.with_options(without_autotune()))).is_cause_of(1e9)
    assert not ShuffleFill(iter(batches)).is_cause_of(1e9)


#: What the pipelines below take for each call of their slow map, by a clock that they alone move.
SLOW_S = 0.02


class Played:
    """A run in memory whose clock advances only in `slow`, as in tf.data's model of as many
    elements."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.writer = RunWriter(None, make_manifest(), self.clock.clock)
        real = tf.data.experimental.get_model_proto

        def read_model(iterator: Any) -> Any:
            model = real(iterator)
            for node in model.nodes.values():
                node.processing_time = (
                    round(SLOW_S * 1e9) * node.num_elements if node.name == "Map" else 0
                )
            return model

        monkeypatch.setattr(tf.data.experimental, "get_model_proto", read_model)

    def slow(self, x: Any, y: Any) -> Any:
        def pass_time(_: Any) -> None:
            self.clock.at_s += SLOW_S

        with tf.control_dependencies([tf.numpy_function(pass_time, [x], [])]):
            return tf.identity(x), y

    def before(self, pairs: Any) -> Any:
        """Read slowly, then shuffle."""
        return pairs.map(self.slow).shuffle(20, seed=1).batch(2)

    def all_before(self, pairs: Any) -> Any:
        """Read all slowly, then shuffle: tf.data's model has no reader any more."""
        return pairs.map(self.slow).shuffle(40, seed=1).batch(2)

    def all_repeated(self, pairs: Any) -> Any:
        """Repeat behind the batch, which refills in mid-run."""
        return self.all_before(pairs).repeat(2)

    def repeated(self, pairs: Any) -> Any:
        """Refilled in mid-run."""
        return self.before(pairs).repeat(2)

    def behind(self, pairs: Any) -> Any:
        """Shuffle cheap elements, then work slowly."""
        return pairs.shuffle(40, seed=1).batch(2).map(self.slow)


@pytest.mark.parametrize(
    ("pipeline", "epochs", "filled"),
    [
        ("before", 2, [1, 21]),
        ("all_before", 2, [1, 21]),
        ("repeated", 1, [1, 21]),
        ("all_repeated", 1, [1, 21]),
        ("behind", 2, []),
    ],
)
@pytest.mark.parametrize("steps_per_execution", [1, 5])
def test_in_a_fit(
    pipeline: str,
    epochs: int,
    filled: list[int],
    steps_per_execution: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(monkeypatch)
    pairs = tf.data.Dataset.from_tensors((tf.ones(4), tf.ones(1))).repeat(40)
    batches = getattr(played, pipeline)(pairs).with_options(options(Knobs()))
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=steps_per_execution)

    class Recorded(Watch):
        """Records to the writer that has the played clock."""

        def _begin_script(self) -> None:
            log, stages = StepLog(played.writer), StageReader(played.writer)
            self._recorder = Recorder(Session(played.writer, log, stages), self.model)

    watch = Recorded()
    model.fit(batches, epochs=epochs, verbose=0, shuffle=False, callbacks=[watch])
    played.writer.flush()
    rows = read_back(played.writer).steps
    assert len(rows) == 40

    flagged = rows["step"][(rows["flags"] & int(Flag.SHUFFLE_FILL)) != 0].tolist()

    assert flagged == filled
    named = (
        ("shuffle(20)", "map(slow)")
        if pipeline in ("before", "repeated")
        else ("shuffle(40)", "map(slow)")
    )
    manifest = played.writer.manifest()
    assert (manifest.filled_shuffle, manifest.map_below_shuffle) == (named if filled else ("", ""))
