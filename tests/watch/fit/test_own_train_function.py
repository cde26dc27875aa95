"""A train function that is not Keras' own is called as it is; the run counts its steps and notes
that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.keras_fixtures import STEPS, compile_built, fingerprint
from tests.runs.folders import read
from tests.watch.watched import EPOCHS, Make, is_restored, known
from tests.whole import events_of, only
from tfwatch.core.events import EpochEnded, Noted, RunEnded, SwitchFailed
from tfwatch.core.knobs import NotTimed
from tfwatch.report.text import as_text
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

pytestmark = pytest.mark.tensorflow
NOT_KERAS = (
    "the model's train function is not Keras' own (make_train_function, or train_function itself,"
    " is replaced)"
)


def compiled(model: Any, calls: list[int]) -> Any:
    @tf.function
    def one_batch(iterator: Any) -> Any:
        calls.append(1)
        return model.train_step(next(iterator))

    return one_batch


def compiled_for_two_batches(model: Any, calls: list[int]) -> Any:
    @tf.function
    def two_batches(iterator: Any) -> Any:
        calls.append(1)
        model.train_step(next(iterator))
        return model.train_step(next(iterator))

    return two_batches


def around_keras(model: Any, calls: list[int]) -> Any:
    model.make_train_function()
    inner = model.train_function

    def counted(iterator: Any) -> Any:
        calls.append(1)
        return inner(iterator)

    return counted


def fitted(
    make_model: Make,
    make: Any,
    data: Callable[[], Any],
    callbacks: list[Any],
    **settings: Any,
) -> Any:
    """Return the result of a `fit`, and the number of calls of the train function's Python."""
    model = make_model()
    calls: list[int] = []
    compile_built(model, **settings)
    model.train_function = make(model, calls)
    history = model.fit(data(), epochs=EPOCHS, verbose=0, callbacks=callbacks)
    return fingerprint(model, history), len(calls)


@pytest.mark.parametrize("make", [compiled, compiled_for_two_batches, around_keras])
@pytest.mark.parametrize("settings", [{}, {"run_eagerly": True}], ids=["graph", "eager"])
def test_it_is_called_as_stock_fit_calls_it(
    make: Any, settings: dict[str, Any], make_model: Make, watch: Any
) -> None:
    def whole_batches() -> Any:
        return known().take(6)

    stock = fitted(make_model, make, whole_batches, [], **settings)
    assert fitted(make_model, make, whole_batches, [watch], **settings) == stock
    assert is_restored(watch.model)
    assert_not_split(open_run(watch.run_path))


def assert_not_split(run: Snapshot) -> None:
    assert run.manifest.not_split == NOT_KERAS
    assert [note.text for note in events_of(run, Noted)] == [
        f"the steps of this fit are not split: {NOT_KERAS}"
    ]
    assert f"the parts of a step were not separated: {NOT_KERAS}" in as_text(run, Path.home())
    assert len(run.steps) == 0


def test_its_epochs_and_steps_are_counted(
    make_model: Make, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tfwatch.watch.fit.recorder.why_no_device_prefetch", lambda: None
    )  # as beside a GPU
    fitted(make_model, compiled, lambda: known(), [watch])
    run = open_run(watch.run_path)
    assert run.manifest.copy_not_timed == NotTimed.NOT_SPLIT.value
    assert [epoch.step for epoch in events_of(run, EpochEnded)] == [
        STEPS * (epoch + 1) for epoch in range(EPOCHS)
    ]
    assert (only(run, RunEnded).cause, only(run, RunEnded).steps) == ("finished", EPOCHS * STEPS)
    newest = read(watch.run_path).latest
    assert newest
    assert newest.loss
    assert (newest.step, newest.epoch_step) == (EPOCHS * STEPS, STEPS)


def test_a_switch_is_refused(make_model: Make, watch: Any) -> None:
    watch.set(prefetch=4)
    fitted(make_model, compiled, lambda: known(), [watch])
    failed = only(open_run(watch.run_path), SwitchFailed)
    assert (failed.knob, failed.reason.startswith("the steps of this fit are not split")) == (
        "prefetch",
        True,
    )


def test_the_last_call_of_an_epoch_may_have_fewer_steps(make_model: Make, watch: Any) -> None:
    fitted(make_model, around_keras, lambda: known(), [watch], steps_per_execution=4)
    assert only(open_run(watch.run_path), RunEnded).steps == EPOCHS * STEPS


def test_a_method_that_makes_it_is_recognized_too(make_model: Make, watch: Any) -> None:
    class OwnFunction(keras.Sequential):
        train_function: Any

        def make_train_function(self, force: bool = False) -> None:
            self.train_function = self.train_function or compiled(self, [])

    model = OwnFunction(make_model().layers)
    model.compile("sgd", "mse")
    model.fit(known(), verbose=0, callbacks=[watch])
    assert_not_split(open_run(watch.run_path))


def test_an_error_in_it_ends_the_run_as_failed(make_model: Make, watch: Any) -> None:
    def raising(model: Any, calls: list[int]) -> Any:
        inner = around_keras(model, calls)

        def fails(iterator: Any) -> Any:
            if len(calls) == 5:
                raise ValueError("in the function")
            return inner(iterator)

        return fails

    with pytest.raises(ValueError, match="in the function"):
        fitted(make_model, raising, lambda: known(), [watch])
    run = open_run(watch.run_path)
    assert (only(run, RunEnded).cause, only(run, RunEnded).steps) == ("failed", 5)


def test_a_train_on_batch_within_a_fit_is_not_a_step_of_the_fit(
    arrays: Any, make_model: Make, watch: Any
) -> None:
    def fit(*watches: Any) -> Any:
        model = make_model()

        def train_more(at: int, logs: Any) -> None:
            model.train_on_batch(arrays[0][:16], arrays[1][:16])

        more = keras.callbacks.LambdaCallback(
            on_epoch_begin=train_more, on_train_batch_end=train_more
        )
        return fingerprint(
            model, model.fit(known(), epochs=EPOCHS, verbose=0, callbacks=[*watches, more])
        )

    assert fit(watch) == fit()
    run = open_run(watch.run_path)
    assert run.manifest.split == "exact"
    assert (len(run.steps), only(run, RunEnded).cause) == (EPOCHS * STEPS, "finished")
