"""Several steps per call, `steps_per_execution`: their rows, and the fallback without rows."""

from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras_fixtures import BATCH, STEPS, compile_built, fingerprint, training_arrays
from tests.runs.folders import make_manifest
from tests.watch.watched import Make
from tfwatch import Watch
from tfwatch.core.events import Noted, PipelineSwitched
from tfwatch.core.rows import Flag
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.fit.stepping import step_runners
from tfwatch.watch.fit.stepping.fused_steps import FusedSteps, GraphClock, find_clock

pytestmark = pytest.mark.tensorflow

GROUP = 10


@pytest.fixture
def model(make_model: Make) -> Any:
    model = make_model()
    compile_built(model, steps_per_execution=GROUP)
    return model


def batches() -> Any:
    """Two groups of ten, and one more batch."""
    return tf.data.Dataset.from_tensor_slices(training_arrays()).batch(BATCH)


def test_a_clock_that_op_determinism_forbids_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []
    monkeypatch.setattr(tf, "timestamp", lambda: asked.append("timestamp"))
    writer = RunWriter(tmp_path, make_manifest())
    clock = find_clock(writer.clock)
    read = tf.function(clock.read, autograph=False)
    assert writer.now_ns() / 1e9 <= float(read()) <= clock.now_ns() / 1e9
    assert not asked


def watched(model: Any, folder: Path) -> Snapshot:
    watch = Watch(folder)
    model.fit(batches(), verbose=0, callbacks=[watch])
    return open_run(watch.run_path or "")


def notes(run: Snapshot) -> list[str]:
    return [event.text for event in run.events.of(Noted)]


def test_the_steps_of_a_call_are_contiguous_and_the_last_one_has_the_host_part(
    model: Any, tmp_path: Path
) -> None:
    run = watched(model, tmp_path)
    rows = run.steps
    last = [GROUP - 1, 2 * GROUP - 1, STEPS - 1]
    assert np.flatnonzero(rows["host_ms"]).tolist() == last
    assert rows["flags"].tolist() == [Flag.COMPILE | Flag.EPOCH_START] + [0] * (STEPS - 1)
    total_ms = rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]
    np.testing.assert_allclose(
        total_ms[:-1], np.diff(rows["start_ns"].astype(np.int64)) / 1e6, rtol=1e-3
    )
    assert f"steps_per_execution={GROUP}" in run.manifest.split
    assert notes(run) == [f"step timing: {run.manifest.split}"]
    assert np.flatnonzero(rows["dispatch_ms"]).tolist() == [0, GROUP, 2 * GROUP]


def test_a_step_that_cannot_be_traced_is_left_to_keras_and_the_run_notes_it(
    model: Any,
    make_model: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise TypeError("not in a graph\n  with a long tail")

    monkeypatch.setattr(step_runners, "FusedSteps", refuse)
    run = watched(model, tmp_path)
    stock = make_model()
    compile_built(stock, steps_per_execution=GROUP)
    assert fingerprint(model, model.history) == fingerprint(stock, stock.fit(batches(), verbose=0))
    assert run.manifest.not_split == "not in a graph"
    assert notes(run) == ["the steps of this fit are not split: not in a graph"]
    assert len(run.steps) == 0
    assert run.ended
    assert run.ended.cause == "finished"


def test_steps_have_no_rows_if_the_wall_clock_is_set_meanwhile(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ns, readings = 3_600 * 10**9, count()

    def set_in_the_second_call(*_: object) -> int:
        return hour_ns if next(readings) >= 3 else 0

    monkeypatch.setattr(step_runners, "clock_offset_ns", set_in_the_second_call)
    run = watched(model, tmp_path)
    assert run.steps["step"].tolist() == [*range(1, GROUP + 1), STEPS]
    assert notes(run)[1:] == [
        f"the wall clock was set: the {GROUP} steps up to step {2 * GROUP} are not timed"
    ]
    assert run.ended
    assert run.ended.steps == STEPS


def test_a_switch_in_mid_call_is_flagged_at_the_first_step_of_the_new_pipeline(
    model: Any, watch: Any
) -> None:
    watch.set(prefetch=4)
    off = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: watch.set(prefetch="off")
    )
    model.fit(batches(), verbose=0, callbacks=[watch, off])
    run = open_run(watch.run_path or "")
    on, switched = run.events.of(PipelineSwitched)
    assert (on.step, switched.asked_step) == (1, GROUP)
    # The old pipeline held four batches in its buffer and one in preparation.
    assert GROUP < switched.step <= GROUP + 4 + 2
    flags = run.steps["flags"]
    assert {GROUP, switched.step - 1} == set(np.flatnonzero(flags[1:] & Flag.SWITCH) + 1)


def test_the_loop_does_not_wait_for_the_end_time_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    began = Event()
    waited: list[bool] = []

    def original(iterator: Any) -> Any:
        batch = next(iterator)

        def begin(number: int) -> int:
            if number == 1:
                began.set()
            return number

        seen = tf.numpy_function(begin, [batch], tf.int64)
        return {"loss": tf.ensure_shape(seen, ())}

    def read_once_the_second_step_began() -> float:
        waited.append(began.wait(timeout=20))
        return 1.0

    def when_landed(self: Any, last: Any) -> Any:
        with tf.control_dependencies([last]):
            return tf.numpy_function(read_once_the_second_step_began, [], tf.float64)

    monkeypatch.setattr(FusedSteps, "_when_landed", when_landed)
    iterator = iter(tf.data.Dataset.range(3))
    clock = GraphClock(lambda: tf.numpy_function(lambda: 0.0, [], tf.float64), lambda: 0)
    steps = FusedSteps(original, iterator, clock)
    stamps, _, outputs = steps(iterator, 3)
    assert waited == [True] * 3
    assert stamps[1:, 0].tolist() == [1.0] * 3
    assert outputs["loss"].numpy() == 2
