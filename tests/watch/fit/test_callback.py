"""Watch in a user's script: the result is that of `fit` without it, and the folder has the
steps."""

import copy
import os
import pickle
import sys
import threading
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from tests.keras_fixtures import STEPS, fingerprint
from tests.watch.watched import (
    EPOCHS,
    Make,
    fit_result,
    is_restored,
    known,
    stock_result,
    watch_in,
)
from tests.whole import events_of, only
from tfwatch.core.events import (
    EpochEnded,
    PipelineSwitched,
    RunEnded,
    SwitchAsked,
    SwitchFailed,
    ValidationEnded,
)
from tfwatch.core.knobs import Refusal
from tfwatch.core.rows import Flag
from tfwatch.runs.run import open_run
from tfwatch.tfdata import live_switch
from tfwatch.watch import session
from tfwatch.watch.fit.switching import current_pipeline, script_pipeline
from tfwatch.watch.session import ScriptRun
from tfwatch.watch.tensorflow_info import Device

pytestmark = pytest.mark.tensorflow


def test_every_step_has_a_row_whose_parts_fill_the_time(make_model: Make, watch: Any) -> None:
    make_model().fit(known(), epochs=EPOCHS, verbose=0, callbacks=[watch], validation_data=known())
    run = open_run(watch.run_path)
    steps = run.steps
    assert steps["step"].tolist() == list(range(1, EPOCHS * STEPS + 1))
    assert steps["epoch"].tolist() == [0] * STEPS + [1] * STEPS
    assert steps["flags"][0] == Flag.COMPILE | Flag.EPOCH_START
    assert steps["flags"][STEPS - 1] == Flag.VALIDATION
    assert steps["flags"][STEPS] == Flag.EPOCH_START
    assert not steps["flags"][1 : STEPS - 1].any()
    assert (steps["dispatch_ms"] <= steps["compute_ms"]).all()
    total_ms = steps["wait_ms"] + steps["compute_ms"] + steps["host_ms"]
    np.testing.assert_allclose(
        total_ms[: STEPS - 1], np.diff(steps["start_ns"])[: STEPS - 1] / 1e6, rtol=1e-4
    )
    assert len(events_of(run, EpochEnded)) == len(events_of(run, ValidationEnded)) == EPOCHS
    assert only(run, RunEnded).cause == "finished"
    assert (run.manifest.epochs, run.manifest.steps_per_epoch) == (EPOCHS, STEPS)


def test_a_switch_between_epochs_takes_effect_with_the_next(make_model: Make, watch: Any) -> None:
    ask = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: watch.set(prefetch=2))
    make_model().fit(known(), epochs=EPOCHS, verbose=0, callbacks=[ask, watch])
    run = open_run(watch.run_path)
    (asked,) = run.events.of(SwitchAsked)
    (switched,) = run.events.of(PipelineSwitched)
    assert (asked.step, switched.step, switched.old, switched.new) == (
        STEPS,
        STEPS + 1,
        "default",
        "2",
    )


def _five_times(arrays: Any) -> Any:
    return known(arrays).repeat(5)


@pytest.mark.parametrize("steps_per_execution", [1, 4])
@pytest.mark.parametrize("lasts", [True, False], ids=["lasts", "stays ended"])
def test_alternating_settings_have_one_pipeline_each(
    watch: Any,
    steps_per_execution: int,
    lasts: bool,
    made: list[int],
    freed_in: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If TensorFlow leaves them ended, they are built again, and no data is cut off."""
    if not lasts:
        monkeypatch.setattr(live_switch, "_restartable", lambda batches: batches)
    settings = cycle((3, "default", 1, "off", 3, 1))
    ask = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: watch.set(prefetch=next(settings))
    )
    how = {"epochs": 1, "steps_per_execution": steps_per_execution}
    assert fit_result(_five_times, watch, ask, **how) == stock_result(_five_times, **how)
    switched = events_of(open_run(watch.run_path), PipelineSwitched)
    assert len(switched) >= 10
    assert "MainThread" not in freed_in
    if lasts:
        assert (
            len(made) <= 5
        )  # one for each of the four settings; the fifth shows whether the data has ended


def test_of_two_watches_in_a_fit_one_records_and_the_other_reports_that_it_does_not(
    make_model: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other, model = watch_in(tmp_path), watch_in(tmp_path), make_model()
    for watches in ([one, other], [other, one], [other]):
        model.fit(known(), epochs=EPOCHS, verbose=0, callbacks=watches)
        count = capsys.readouterr().err.count("another Watch records this fit already")
        assert [watch.run_path is None for watch in watches] == [False, True][: len(watches)]
        assert count == len(watches) - 1
        assert len(open_run(watches[0].run_path).fits[-1]) == EPOCHS * STEPS
    assert len(open_run(watches[0].run_path).fits) == 2  # the last two share a run


def test_an_evaluation_before_the_first_step_does_not_end_the_run(
    make_model: Make, watch: Any
) -> None:
    """In Keras 3.8 an evaluation sets its own `History` on the model."""
    model = make_model()

    def evaluate(epoch: int, logs: Any) -> None:
        model.evaluate(known(), verbose=0)
        model.history = keras.callbacks.History()

    between = keras.callbacks.LambdaCallback(on_epoch_begin=evaluate)
    model.fit(known(), epochs=EPOCHS, verbose=0, callbacks=[watch, between])
    assert len(open_run(watch.run_path).steps) == EPOCHS * STEPS


def test_a_fit_inside_a_fit_takes_over_the_same_watch(make_model: Make, watch: Any) -> None:
    outer, inner, paths = make_model(), make_model(), []

    def fit_inner(batch: int, logs: Any) -> None:
        if batch == 5:
            paths.append(watch.run_path)
            inner.fit(known(), verbose=0, callbacks=[watch])

    between = keras.callbacks.LambdaCallback(on_train_batch_end=fit_inner)
    outer.fit(known(), verbose=0, callbacks=[watch, between])
    assert int(outer.optimizer.iterations) == STEPS
    assert [len(open_run(path).steps) for path in (*paths, watch.run_path)] == [6, STEPS]
    assert is_restored(outer)


def test_a_forked_process_that_exits_does_not_end_its_parents_run(tmp_path: Path) -> None:
    run = ScriptRun(tmp_path, Device("CPU", accelerated=False), {}, [])
    if (child := os.fork()) == 0:
        try:
            run.end("stopped", "as at this process' exit")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    run.end("finished")
    assert run.path
    assert only(open_run(run.path), RunEnded).cause == "finished"


def test_a_forked_process_that_exits_does_no_work_of_its_parents_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    session.call_at_exit((tmp_path / "done").touch)
    if (child := os.fork()) == 0:
        try:
            at_exit[0]()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert not (tmp_path / "done").exists()
    at_exit[0]()
    assert (tmp_path / "done").exists()


def test_a_process_that_ends_waits_for_the_last_work_on_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    monkeypatch.setattr("atexit.unregister", at_exit.remove)
    works, may_end = threading.Event(), threading.Event()
    done: list[bool] = []

    def last_work() -> None:
        works.set()
        done.append(may_end.wait(5))

    run = ScriptRun(tmp_path, Device("CPU", accelerated=False), {}, [])
    run.at_end = last_work
    run.end("finished")
    assert works.wait(5)
    (exit_function,) = at_exit
    may_end.set()
    exit_function()
    assert done == [True]
    assert not at_exit


def test_a_copy_of_a_watch_has_no_fit(make_model: Make, tmp_path: Path, watch: Any) -> None:
    make_model().fit(known(), verbose=0, callbacks=[watch])
    copies: list[Any] = [copy.deepcopy(watch), pickle.loads(pickle.dumps(watch))]
    for copied in copies:
        assert not copied.run_path
        make_model().fit(known(), verbose=0, callbacks=[copied])
        assert copied.run_path.parent == tmp_path
        assert len(open_run(copied.run_path).fits[-1]) == STEPS


def test_prefetch_after_batches_in_gpu_memory_is_refused(
    stock: Any, make_model: Make, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = iter(known())
    assert script_pipeline.why_not_switchable(batches) is None
    batches._iterator_resource = SimpleNamespace(
        device="/job:localhost/replica:0/task:0/device:GPU:0"
    )
    assert script_pipeline.why_not_switchable(batches) is Refusal.ON_DEVICE

    monkeypatch.setattr(current_pipeline, "why_not_switchable", lambda _: Refusal.ON_DEVICE)
    watch.set(prefetch=4)
    watched = make_model()
    assert (
        fingerprint(watched, watched.fit(known(), epochs=EPOCHS, verbose=0, callbacks=[watch]))
        == stock
    )
    run = open_run(watch.run_path)
    assert [event.reason for event in run.events.of(SwitchFailed)] == [Refusal.ON_DEVICE.words]
    assert len(events_of(run, PipelineSwitched)) == 0


def test_a_process_forked_within_a_fit_deletes_no_iterator(make_model: Make, watch: Any) -> None:
    codes: list[int] = []

    def fork(batch: int, logs: Any) -> None:
        recorder = watch._recorder
        before = sys.getrefcount(recorder)
        if (child := os.fork()) == 0:  # deleting an iterator would wait for a thread of the parent
            os._exit(sys.getrefcount(recorder) - before)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    model = make_model()
    forking = keras.callbacks.LambdaCallback(on_train_batch_end=fork)
    model.fit(known().take(2), verbose=0, callbacks=[watch, forking])
    assert codes == [1, 1]


def test_a_fit_of_the_legacy_keras_is_left_alone(
    watch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The calls are those of tf_keras 2.21 (its `CallbackList`), which is not installed here."""
    model = SimpleNamespace(train_function=print)
    for part in ("train", "test", "predict"):
        assert not getattr(watch, f"_implements_{part}_batch_hooks")()
    assert watch._supports_tf_logs
    watch.set_model(model)
    watch.set_params({"epochs": 1, "steps": 1})
    watch.on_train_begin()
    watch.on_epoch_begin(0)
    watch.on_epoch_end(0, {"loss": 1.0})
    watch.on_train_end()

    assert watch.run_path is None
    assert model.train_function is print
    assert "the legacy Keras, is not watched" in capsys.readouterr().err
