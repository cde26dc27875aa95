"""`track` around loops of TensorFlow: the same result bit for bit, the steps that trace, and a
probed GPU."""

import contextlib
import hashlib
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

import tfwatch
from tests.runs.processes import wait_until
from tests.watch.tracked import opened, runs_in
from tests.watch.watched import Make, known
from tests.whole import events_of
from tfwatch.core.events import Noted, WatchFailed
from tfwatch.core.rows import Flag
from tfwatch.runs.library import list_runs
from tfwatch.watch.loops import async_loop, function_calls, track, tracked_loop
from tfwatch.watch.loops.loop_step_log import LoopStepLog
from tfwatch.watch.tensorflow_info import Device

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("all_runs_ended")]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the CPU as a GPU, and probe it."""
    make = async_loop.make_completion_probe
    monkeypatch.setattr(tracked_loop, "find_device", lambda: Device("GPU:0", accelerated=True))
    monkeypatch.setattr(async_loop, "make_completion_probe", lambda writer: make(writer, "/CPU:0"))


def weights(model: Any) -> str:
    return hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()


def by_tape(make_model: Make, wrap: Callable[[Any], Any]) -> tuple[str, list[float]]:
    """Train with a loop that leaves its losses on the device."""
    model, data = make_model(), known()
    optimizer, loss_of = keras.optimizers.Adam(), keras.losses.MeanSquaredError()

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = []
    for _ in range(2):
        for x, y in wrap(data):
            losses.append(step(x, y))
    return weights(model), [float(loss) for loss in losses]


def by_train_on_batch(make_model: Make, wrap: Callable[[Any], Any]) -> tuple[str, list[float]]:
    model, data, losses = make_model(), known(), []
    for _ in range(2):
        for x, y in wrap(data):
            losses.append(float(model.train_on_batch(x, y)))
    return weights(model), losses


def by_hand(make_model: Make, wrap: Callable[[Any], Any]) -> tuple[str, list[float]]:
    """Train without a compiled function, with random numbers from operations."""
    make_model()
    weight, data, losses = tf.Variable(tf.random.normal((4,))), known(), []
    for _ in range(2):
        for _, y in wrap(data):
            with tf.GradientTape() as tape:
                noise = tf.random.normal((4,))
                loss = tf.reduce_sum((tf.gather(weight + noise, y)) ** 2)
            weight.assign_sub(1e-3 * tf.convert_to_tensor(tape.gradient(loss, weight)))
            losses.append(float(loss))
    return hashlib.sha256(weight.numpy().tobytes()).hexdigest(), losses


LOOPS = [by_tape, by_train_on_batch, by_hand]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_is_the_same_bit_for_bit(
    loop: Any, make_model: Make, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bare = loop(make_model, lambda data: data)
    assert loop(make_model, lambda data: tfwatch.track(data, tmp_path / "cpu")) == bare
    request.getfixturevalue("gpu")
    assert loop(make_model, lambda data: tfwatch.track(data, tmp_path / "gpu")) == bare
    for runs_dir in (tmp_path / "cpu", tmp_path / "gpu"):
        (run,) = runs_in(runs_dir)
        assert len(run.steps) == 2 * len(known())
        assert run.manifest.accelerated == (runs_dir.name == "gpu")
        assert events_of(run, WatchFailed) == []


def test_steps_that_trace_are_flagged(tmp_path: Path) -> None:
    @tf.function
    def step(x: Any) -> Any:
        return tf.reduce_sum(x)

    shapes = [(2,), (2,), (2,), (3, 3), (2,)]
    with tfwatch.track([tf.zeros(shape) for shape in shapes], tmp_path) as tracked:
        for x in tracked:
            step(x)
    flags = opened(tracked).steps["flags"].tolist()
    assert flags == [Flag.EPOCH_START | Flag.COMPILE, 0, 0, Flag.RETRACE, 0]


@pytest.mark.parametrize("runs", ["operations", "a function", "neither"])
def test_a_loop_of_operations_without_a_call_of_a_function_runs_op_by_op(
    tmp_path: Path, runs: str
) -> None:
    def square(x: Any) -> Any:
        return tf.linalg.matmul(x, x) + 1.0

    steps = {"operations": square, "a function": tf.function(square), "neither": id}
    with tfwatch.track([tf.ones((64, 64))] * 6, tmp_path) as tracked:
        for x in tracked:
            steps[runs](x)
    run = opened(tracked)

    assert run.manifest.op_by_op is (runs == "operations")
    rows = run.steps[1:]
    assert (rows["dispatch_ms"] > 0).all() == (runs == "operations")
    assert (rows["dispatch_ms"] <= rows["compute_ms"]).all()


def test_python_beside_the_calls_of_a_function_is_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call takes 30 us by the clock of the calls, and a failing one counts too."""
    host_ns, own_call, ticks = (
        LoopStepLog._host_ns,
        Function.__call__,
        itertools.count(0, 30_000),
    )
    monkeypatch.setattr(
        function_calls, "time", SimpleNamespace(perf_counter_ns=lambda: next(ticks))
    )
    monkeypatch.setattr(
        LoopStepLog,
        "_host_ns",
        lambda self, _, in_calls_ns: host_ns(self, 100_000, in_calls_ns),
    )
    inner = tf.function(tf.identity)

    @tf.function
    def double(x: Any) -> Any:
        return inner(x) * 2

    @tf.function
    def fail(x: Any) -> Any:
        return tf.ensure_shape(tf.boolean_mask(x, x > 0), [2])

    with tfwatch.track([tf.zeros(2)] * 3, tmp_path) as tracked:
        for x, functions in zip(tracked, ([double, double], [fail], []), strict=True):
            for function in functions:
                with contextlib.suppress(tf.errors.InvalidArgumentError):
                    function(x)

    assert opened(tracked).steps["host_ms"].tolist() == pytest.approx([0.04, 0.07, 0])
    assert Function.__call__ is own_call


def test_a_function_whose_graph_cannot_be_read_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(function: Any) -> bool:
        raise AttributeError("another TensorFlow")

    monkeypatch.setattr("tfwatch.watch.loops.function_calls.operations_of", fail)
    double = tf.function(lambda x: x * 2)
    with tfwatch.track([tf.zeros(2)] * 3, tmp_path) as tracked:
        for x in tracked:
            double(x)

    (note,) = (one.text for one in events_of(opened(tracked), Noted) if "are not seen" in one.text)
    assert (
        note
        == "batches that a tf.function fetches are not seen: AttributeError: another TensorFlow"
    )


@pytest.mark.parametrize("form", ["batch", "iterator", "captured", "inner loop", "data set"])
def test_a_call_that_fetches_its_batches_is_recorded_as_such(form: str, tmp_path: Path) -> None:
    data = tf.data.Dataset.range(20)
    iterator = iter(data)
    double = tf.function(lambda x: x * 2)

    @tf.function
    def fetch(source: Any) -> Any:
        return double(next(source))

    @tf.function
    def sum_up(source: Any) -> Any:
        total = tf.constant(0, tf.int64)
        for x in source:
            total += x
        return total

    steps: dict[str, Callable[[Any], Any]] = {
        "batch": double,
        "iterator": lambda _: fetch(iterator),
        "captured": tf.function(lambda _: fetch(iterator)),
        "inner loop": tf.function(
            lambda _: tf.while_loop(
                lambda n: n < 2, lambda n: n + fetch(iterator), [tf.zeros((), tf.int64)]
            )
        ),
        "data set": lambda _: sum_up(data),
    }
    with tfwatch.track([tf.zeros(2)] * 3, tmp_path) as tracked:
        for x in tracked:
            steps[form](x)

    assert opened(tracked).manifest.fetches_in_calls == (form != "batch")


def test_a_function_whose_trace_fails_is_not_traced_again(tmp_path: Path) -> None:
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def fail(x: Any) -> Any:
        traces.append(x)
        raise ValueError("a fault of the script")

    with tfwatch.track([tf.zeros(2)], tmp_path) as tracked:
        for x in tracked:
            with pytest.raises(ValueError, match="a fault of the script"):
                fail(x)

    assert len(traces) == 1
    assert not opened(tracked).manifest.fetches_in_calls


def test_a_gpu_is_probed_and_every_step_has_its_row_in_order(gpu: None, tmp_path: Path) -> None:
    def is_probed() -> bool:
        """Return whether the thread has timed probes of an idle GPU."""
        probe = tracked._loop._step_log.gpu_probe if tracked._loop else None
        return probe is not None and probe.idle_ns is not None

    with tfwatch.track(known(), tmp_path) as tracked:
        for _ in range(5):
            for x, _ in tracked:
                tf.reduce_sum(x)
                wait_until(is_probed)
    run = opened(tracked)
    rows = run.steps
    assert rows["step"].tolist() == list(range(1, len(rows) + 1))
    assert len(rows) == 5 * len(known())
    inside = np.flatnonzero(np.diff(rows["epoch"]) == 0)
    total_ms = rows["wait_ms"] + rows["compute_ms"]
    np.testing.assert_allclose(total_ms[inside], np.diff(rows["start_ns"])[inside] / 1e6, rtol=1e-3)
    assert run.manifest.split.startswith("the loop's fetches and the GPU: ")
    (note,) = events_of(run, Noted)
    assert note.text.startswith("a probe of an idle GPU takes ")


def test_a_gpu_is_not_probed_if_its_work_is_not_visible(gpu: None, tmp_path: Path) -> None:
    with tf.Graph().as_default(), tfwatch.track(range(5), tmp_path) as tracked:
        assert len(list(tracked)) == 5
    assert {note.text for note in events_of(opened(tracked), Noted)} == {
        "the GPU cannot be probed: every fetch that blocks counts as data wait",
        "examples are not counted: the size of a batch is unknown",
    }


def test_a_tracked_data_set_given_to_fit_shows_the_way_to_watch_a_fit(
    make_model: Make, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"callbacks=\[tfwatch.Watch\(\)\]"):
        make_model().fit(tfwatch.track(known(), tmp_path), verbose=0)


def test_a_loop_that_waits_for_a_shuffle_buffer_names_it(tmp_path: Path) -> None:
    def slow(number: Any) -> Any:
        with tf.control_dependencies([tf.numpy_function(lambda: time.sleep(0.004), [], [])]):
            return tf.identity(number)

    data = tf.data.Dataset.range(40).map(slow).shuffle(40, seed=1).batch(10)
    with tfwatch.track(data, tmp_path) as tracked:
        for _ in range(2):
            assert len(list(tracked)) == 4

    run = opened(tracked)
    flagged = run.steps["step"][(run.steps["flags"] & int(Flag.SHUFFLE_FILL)) != 0].tolist()
    assert flagged == [1, 5]
    assert (run.manifest.filled_shuffle, run.manifest.map_below_shuffle) == (
        "shuffle(40)",
        "map(slow)",
    )


# -- inside a tf.function it is refused ------------------------------------------------------------


def test_a_tracked_loop_in_a_function_raises_a_sentence(tmp_path: Path) -> None:
    def loop(data: Any) -> Any:
        total = tf.constant(0, tf.int64)
        for number in data:
            total += number
        return total

    with pytest.raises(RuntimeError, match="outside it, and call the function"):
        tf.function(loop)(tfwatch.track(tf.data.Dataset.range(10), tmp_path))
    assert list_runs(tmp_path) == []


def test_a_loop_continues_while_another_thread_imports_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert not track.is_in_function()
    assert list(tfwatch.track([1, 2], tmp_path)) == [1, 2]
