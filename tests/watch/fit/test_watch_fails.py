"""Watch under errors in the training or in tfwatch: the training is unaffected, and the error is
recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from tests.keras_fixtures import STEPS, fingerprint
from tests.runs.hanging import hang
from tests.runs.processes import wait_until
from tests.watch.watched import EPOCHS, Make, is_restored, known, watch_in
from tests.whole import events_of, only
from tfwatch.core.events import Noted, PipelineSwitched, RunEnded, TrainingFailed, WatchFailed
from tfwatch.runs import create
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.runs.writer import RunWriter
from tfwatch.watch.fit import fetch
from tfwatch.watch.fit.fetch import Fetch

pytestmark = pytest.mark.tensorflow


def test_a_fit_that_raises_ends_its_run_and_a_later_fit_without_watch_writes_nothing(
    make_model: Make, tmp_path: Path
) -> None:
    def fail(batch: int, logs: Any) -> None:
        if batch == 5:
            raise RuntimeError("a callback of the user's")

    failing, model = keras.callbacks.LambdaCallback(on_train_batch_end=fail), make_model()
    for between in (True, False):
        watch, again = watch_in(tmp_path), watch_in(tmp_path)
        with pytest.raises(RuntimeError, match="a callback"):
            model.fit(known(), callbacks=[watch, failing], verbose=0)
        if between:
            model.fit(known(), verbose=0)
            assert len(open_run(watch.run_path).steps) <= 6
            assert only(open_run(watch.run_path), RunEnded).cause == "stopped"
        model.fit(known(), verbose=0, callbacks=[again])
        assert len(open_run(again.run_path).steps) == STEPS
        assert is_restored(model)


def test_a_fit_left_before_its_first_step_records_no_later_one(
    make_model: Make, watch: Any
) -> None:
    def fail(epoch: int, logs: Any) -> None:
        raise RuntimeError("a callback of the user's")

    model = make_model()
    with pytest.raises(RuntimeError, match="a callback"):
        model.fit(
            known(),
            callbacks=[watch, keras.callbacks.LambdaCallback(on_epoch_begin=fail)],
            verbose=0,
        )
    model.fit(known(), verbose=0)
    run = open_run(watch.run_path)
    assert (len(run.steps), only(run, RunEnded).cause) == (0, "stopped")
    assert is_restored(model)


def fit_that_raises(
    model: Any,
    data: Any,
    watch: Any,
    raised: Callable[[], BaseException],
    steps_per_execution: int = 1,
) -> Snapshot:
    """The run of a `fit` whose first step raises, and whose caller gets that error."""

    def broken(y: Any, predicted: Any) -> Any:
        raise error

    error = raised()
    fused = steps_per_execution > 1
    model.compile("sgd", broken, run_eagerly=not fused, steps_per_execution=steps_per_execution)
    with pytest.raises(type(error)) as reported:
        model.fit(data, verbose=0, callbacks=[watch])
    assert reported.value is error
    return open_run(watch.run_path)


class OddError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_an_error_without_a_printable_text_is_raised_unchanged(
    make_model: Make, tmp_path: Path, steps_per_execution: int
) -> None:
    run = fit_that_raises(make_model(), known(), watch_in(tmp_path), OddError, steps_per_execution)
    assert only(run, TrainingFailed).error == "OddError"
    assert only(run, RunEnded).cause == "failed"


def test_an_error_while_a_failure_is_reported_does_not_replace_it(
    make_model: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fetch, "close", lambda _: 1 / 0)
    run = fit_that_raises(make_model(), known(), watch_in(tmp_path), ValueError)
    assert "ZeroDivisionError" in only(run, WatchFailed).reason
    assert only(run, RunEnded).cause == "failed"


def test_a_step_log_lost_while_batches_are_buffered_loses_no_batch(
    stock: Any, make_model: Make, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    watch.set(prefetch=4)

    def fail(batch: int, logs: Any) -> None:
        if batch == 7:
            monkeypatch.setattr(RunWriter, "step", lambda *_: 1 / 0)

    failing = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
    history = model.fit(known(), epochs=EPOCHS, verbose=0, callbacks=[watch, failing])
    run = open_run(watch.run_path)
    assert fingerprint(model, history) == stock
    assert (
        len(events_of(run, PipelineSwitched)),
        len(events_of(run, WatchFailed)),
        len(run.steps),
    ) == (1, 1, 7)


def test_a_fit_does_not_wait_for_its_disk_and_is_recorded_once_the_disk_responds(
    stock: Any,
    make_model: Make,
    tmp_path: Path,
    watch: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(create, "BEGIN_S", 0.05)
    model = make_model()
    seen = []

    def answer(epoch: int, logs: Any) -> None:
        seen.append(watch.run_path)
        disk.answers.set()

    answering = keras.callbacks.LambdaCallback(on_epoch_end=answer)
    with hang(monkeypatch, type(tmp_path), "mkdir") as disk:
        history = model.fit(known(), epochs=EPOCHS, verbose=0, callbacks=[watch, answering])
        wait_until(lambda: bool(list(tmp_path.glob("*/run.json"))))
    assert fingerprint(model, history) == stock
    assert seen[0] is None
    (folder,) = tmp_path.iterdir()
    assert len(open_run(folder).steps) == EPOCHS * STEPS
    assert capsys.readouterr().err.count("did not respond") == 1


@pytest.mark.parametrize("raises", [True, False])
def test_a_batch_of_unknown_size_is_noted_once(
    make_model: Make, watch: Any, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    def weigh(batch: Any) -> None:
        if raises:
            raise TypeError("no")

    monkeypatch.setattr(fetch, "count_bytes", weigh)
    make_model().fit(known(), verbose=0, callbacks=[watch])
    run = open_run(watch.run_path)
    reported = [event.text for event in events_of(run, Noted) if "size" in event.text]
    why = "TypeError: no" if raises else "a batch holds more than plain numbers"
    assert reported == [f"the size of batches and buffers is unknown: {why}"]
    assert (len(run.steps), run.manifest.batch_bytes) == (STEPS, None)
