"""A script's own pipeline under `Watch`, rebuilt with other settings: the training's result stays
the same."""

import itertools
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras_fixtures import BATCH, STEPS, compile_built, determinism
from tests.runs.processes import wait_until
from tests.watch.watched import (
    EPOCHS,
    Make,
    fit_result,
    is_restored,
    known,
    stock_result,
)
from tests.whole import events_of
from tfwatch.core.events import PipelineSwitched, RandomDrawsAllowed, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import Refusal
from tfwatch.core.script_code import CodeEdit
from tfwatch.runs.create import make_writer
from tfwatch.runs.run import open_run
from tfwatch.tfdata import cache as stores
from tfwatch.tfdata import replay
from tfwatch.tfdata.pipeline_tree import ONLY_INTERLEAVES
from tfwatch.watch.fit.switching.script_pipeline import (
    KnobDescriber,
    ScriptPipeline,
    fixed_below_strategy,
)

pytestmark = pytest.mark.tensorflow


def _twice(x: Any, y: Any) -> Any:
    return x * 2, y


def _is_positive(x: Any, _: Any) -> Any:
    return tf.reduce_sum(x) > -1e9


def at_once(arrays: Any) -> Any:
    """Return a pipeline whose source is replayed."""
    shuffled = tf.data.Dataset.from_tensor_slices(arrays).shuffle(50, seed=1)
    return shuffled.map(_twice).batch(BATCH).map(_twice).prefetch(2)


def with_epoch(arrays: Any) -> Any:
    """Return a pipeline of unknown length whose source begins again with an epoch."""
    filtered = tf.data.Dataset.from_tensor_slices(arrays).shuffle(50, seed=1).filter(_is_positive)
    return filtered.map(_twice).batch(BATCH)


def _switching(watch: Any) -> Any:
    """Return a callback that switches after every third batch."""
    chooser, calls = random.Random(7), itertools.count()

    def switch(*_: Any, **__: Any) -> None:
        if next(calls) % 3 == 0:
            knob = chooser.choice(["prefetch", "workers"])
            watch.set(**{knob: chooser.choice(["off", "default", "auto", 3])})

    return keras.callbacks.LambdaCallback(on_train_batch_end=switch)


def _weights(model: Any) -> list[Any]:
    return [weight.tolist() for weight in model.get_weights()]


@pytest.mark.parametrize("make_data", [at_once, with_epoch])
@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_switches_of_workers_leave_the_weights_equal(
    make_data: Any, steps_per_execution: int, watch: Any
) -> None:
    how = {"epochs": EPOCHS + 1, "steps_per_execution": steps_per_execution}
    assert fit_result(make_data, watch, _switching(watch), **how) == fit_result(make_data, **how)
    run = open_run(watch.run_path)
    assert {event.knob for event in events_of(run, PipelineSwitched)} == {"prefetch", "workers"}
    assert not events_of(run, SwitchFailed)


def test_a_switch_that_waits_for_an_epoch_that_never_comes_is_missed(watch: Any) -> None:
    switch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batch or watch.set(workers=3)
    )
    fit_result(with_epoch, watch, switch, epochs=1)
    run = open_run(watch.run_path)
    asked, missed = events_of(run, SwitchAsked), events_of(run, SwitchFailed)
    assert [(event.knob, event.new) for event in (*asked, *missed)] == [("workers", "3")] * 2


def interleaved(arrays: Any) -> Any:
    """Return a pipeline whose only parallel calls are those of an interleave."""
    slices = tf.data.Dataset.from_tensor_slices(arrays).batch(10).interleave(_rows, cycle_length=3)
    return slices.shuffle(20, seed=1).batch(BATCH)


def _rows(x: Any, y: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices((x, y))


def augmented(arrays: Any) -> Any:
    """Return a pipeline with a random map over the one that a cache keeps."""
    tf.random.set_seed(5)
    shuffled = tf.data.Dataset.from_tensor_slices(arrays).shuffle(50, seed=1)
    return shuffled.map(_twice).map(_moved).batch(BATCH).prefetch(2)


def _moved(x: Any, y: Any) -> Any:
    return x + tf.random.uniform(tf.shape(x), seed=3), y


def test_a_cache_serves_from_the_second_epoch_on_and_leaves_the_weights_equal(
    watch: Any,
) -> None:
    settings: list[dict[str, Any]] = [{"cache": True}, {"prefetch": 4}, {"prefetch": 1}]
    settings += [{"cache": False}, {"cache": True}]
    switch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: (
            settings and batch == 1 and watch.set(**settings.pop(0))
        )
    )
    assert fit_result(augmented, watch, switch, epochs=6) == fit_result(augmented, epochs=6)
    run = open_run(watch.run_path)
    made = [
        (event.knob, event.old, event.new, event.step) for event in events_of(run, PipelineSwitched)
    ]
    cached, dropped = ("cache", "off", "on", 2 * STEPS + 1), ("cache", "on", "off", 4 * STEPS + 1)
    assert [one for one in made if one[0] == "cache"] == [cached, dropped]
    assert [event.epochs for event in events_of(run, SwitchAsked) if event.knob == "cache"] == [
        2,
        1,
        2,
    ]
    assert [event.knob for event in events_of(run, SwitchFailed)] == ["cache"]


@pytest.fixture
def _frees_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a cache that is closed free its memory before the next batch, as where the system has no
    thread left."""

    def refuse(*_: Any) -> Any:
        raise RuntimeError("no thread")

    monkeypatch.setattr(stores, "start_awaited", refuse)


def _many(arrays: Any) -> Any:
    """Return the pipeline of `augmented` over eight times the examples."""
    return augmented(tuple(np.repeat(part, 8, axis=0) for part in arrays))


@pytest.mark.usefixtures("_frees_at_once")
@pytest.mark.parametrize("after", [{}, {"prefetch": 4}])
def test_a_cache_that_is_off_again_while_it_fills_is_no_switch_and_ends_no_training(
    after: dict[str, Any], watch: Any
) -> None:
    settings: dict[Any, Any] = {
        (0, 1): {"cache": True},
        (1, 1): {"cache": False},
        (1, 9): after,
    }
    switch = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: settings.update(now=epoch),
        on_train_batch_end=lambda batch, logs: watch.set(
            **settings.get((settings["now"], batch), {})
        ),
    )
    assert fit_result(_many, watch, switch, epochs=3) == stock_result(_many, epochs=3)
    run = open_run(watch.run_path)
    assert not any(event.knob == "cache" for event in events_of(run, PipelineSwitched))
    assert not events_of(run, SwitchFailed)


def test_steps_left_to_keras_in_mid_epoch_continue_where_the_rebuilt_pipeline_was(
    watch: Any,
) -> None:
    def give_up(batch: int, logs: Any) -> None:
        if batch == 0:
            watch.set(workers=3)
        if batch == 2 and watch._recorder:
            watch._recorder._give_up(RuntimeError("as in this test"))
            switch.model.train_function._runner = watch._recorder._runner

    switch = keras.callbacks.LambdaCallback(on_train_batch_end=give_up)
    assert fit_result(at_once, watch, switch) == stock_result(at_once, steps_per_execution=1)


def _augmented_in_parallel(arrays: Any) -> Any:
    """Return the pipeline of `augmented` with `num_parallel_calls=1` pasted into its maps."""
    tf.random.set_seed(5)
    shuffled = tf.data.Dataset.from_tensor_slices(arrays).shuffle(50, seed=1)
    mapped = shuffled.map(_twice, num_parallel_calls=1).map(_moved, num_parallel_calls=1)
    return mapped.batch(BATCH).prefetch(2)


def test_random_maps_run_in_parallel_once_the_user_accepts_other_draws(watch: Any) -> None:
    watch.set(workers=1, random_draws=True)

    assert fit_result(augmented, watch) == fit_result(_augmented_in_parallel)
    run = open_run(watch.run_path)
    (accepted,) = events_of(run, RandomDrawsAllowed)
    assert (accepted.step, accepted.by, accepted.reason) == (0, "code", _DRAWS)
    assert [(event.knob, event.new) for event in events_of(run, PipelineSwitched)] == [
        ("workers", "1")
    ]


def _dropped(arrays: Any, **calls: int) -> Any:
    """Return a pipeline whose map draws as Keras' layers do: their seed is a variable."""
    layer = keras.layers.Dropout(0.5, seed=3)

    def drop(x: Any, y: Any) -> Any:
        return layer(x, training=True), y

    return tf.data.Dataset.from_tensor_slices(arrays).map(drop, **calls).batch(BATCH).prefetch(2)


def test_so_do_maps_that_draw_by_a_layer_of_keras(watch: Any) -> None:
    watch.set(workers=1, random_draws=True)

    assert fit_result(_dropped, watch) == fit_result(partial(_dropped, num_parallel_calls=1))
    run = open_run(watch.run_path)
    (accepted,) = events_of(run, RandomDrawsAllowed)
    assert accepted.reason == "map(drop) draws random numbers, in the order of its calls"
    assert [event.new for event in events_of(run, PipelineSwitched)] == ["1"]


def test_random_maps_stay_as_written_without_consent(watch: Any) -> None:
    watch.set(workers=1)
    fit_result(augmented, watch, epochs=1)

    run = open_run(watch.run_path)
    assert [event.reason for event in events_of(run, SwitchFailed)] == [_DRAWS]
    assert not events_of(run, PipelineSwitched) + events_of(run, RandomDrawsAllowed)


_NO_MAP = "the pipeline has no map"
_OTHER_ORDER = "shuffle(50) gives filter(is_positive) other elements in each epoch"
_DRAWS = "map(moved) draws random numbers, in the order of its calls"


@pytest.mark.parametrize(
    ("make_data", "switchable", "fixed", "workers_from_epoch"),
    [
        (at_once, ["prefetch", "workers", "cache"], {}, False),
        (
            with_epoch,
            ["prefetch", "workers"],
            {"cache": _OTHER_ORDER},
            True,
        ),
        (
            interleaved,
            ["prefetch"],
            {"workers": ONLY_INTERLEAVES, "cache": _NO_MAP},
            False,
        ),
        (
            known,
            ["prefetch"],
            {"workers": _NO_MAP, "cache": _NO_MAP},
            False,
        ),
        (
            augmented,
            ["prefetch", "cache"],
            {"workers": _DRAWS},
            False,
        ),
    ],
)
def test_run_json_has_the_knobs_of_the_pipeline(
    make_data: Any,
    switchable: list[str],
    fixed: dict[str, str],
    workers_from_epoch: bool,
    arrays: Any,
) -> None:
    writer = make_writer(
        "test", knobs={"prefetch": "default", "workers": "default"}, switchable=["prefetch"]
    )
    KnobDescriber(writer).describe(iter(make_data(arrays)), ScriptPipeline(), None)
    manifest = writer.manifest()
    assert (manifest.switchable, manifest.fixed, manifest.workers_from_epoch) == (
        switchable,
        fixed,
        workers_from_epoch,
    )


def _with_options(data: Any, **optimization: bool) -> Any:
    options = tf.data.Options()
    for name, value in optimization.items():
        setattr(options.experimental_optimization, name, value)
    return data.with_options(options)


def nothing_ahead(arrays: Any) -> Any:
    """Return a pipeline that prepares no batch ahead."""
    return _with_options(at_once_bare(arrays), inject_prefetch=False)


def at_once_bare(arrays: Any) -> Any:
    """Return a pipeline without a prefetch."""
    return tf.data.Dataset.from_tensor_slices(arrays).map(_twice).batch(BATCH)


@pytest.mark.parametrize(
    ("make_data", "prefetch"),
    [
        pytest.param(nothing_ahead, "off", id="none, none injected"),
        pytest.param(at_once_bare, "default", id="injected"),
        pytest.param(
            lambda arrays: _with_options(at_once(arrays), inject_prefetch=False),
            "default",
            id="its own",
        ),
    ],
)
def test_prefetch_reads_off_where_the_script_prepares_no_batch_ahead(
    make_data: Any, prefetch: str, watch: Any
) -> None:
    fit_result(make_data, watch, epochs=1)
    assert open_run(watch.run_path).manifest.knobs["prefetch"] == prefetch


def test_a_prefetch_goes_on_and_back_to_the_script_s_off_and_another_fit_has_its_own(
    watch: Any,
) -> None:
    asks = {3: "4", 9: "off"}
    counts = itertools.count()

    def switch(*_: Any, **__: Any) -> None:
        if value := asks.get(next(counts)):
            watch.set(prefetch=value)

    switching = keras.callbacks.LambdaCallback(on_train_batch_end=switch)
    assert fit_result(nothing_ahead, watch, switching) == fit_result(nothing_ahead)
    switched = events_of(open_run(watch.run_path), PipelineSwitched)
    assert [(event.old, event.new) for event in switched] == [("off", "4"), ("4", "off")]
    fit_result(at_once_bare, watch, epochs=1)
    assert open_run(watch.run_path).manifest.knobs["prefetch"] == "default"


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_batches_ahead_are_trained_where_a_callback_makes_the_train_function_again(
    steps_per_execution: int, make_model: Make, watch: Any
) -> None:
    results = []
    switch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: watch.set(prefetch="default" if batch > 4 else 4)
    )
    for callbacks in ([], [watch, switch]):
        model = make_model()
        compile_built(model, steps_per_execution=steps_per_execution)
        again = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs, model=model: model.make_train_function(force=True)
        )
        data, callbacks = known().repeat(), [*callbacks, again]
        with determinism(on=False):  # which takes a prefetch away
            model.fit(data, epochs=3, steps_per_epoch=8, verbose=0, callbacks=callbacks)
        results.append(_weights(model))
    assert results[0] == results[1]


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_batches_ahead_are_trained_where_it_is_made_again_within_an_epoch(
    steps_per_execution: int, arrays: Any, make_model: Make, watch: Any
) -> None:
    results = []
    for watches in ([], [watch]):
        model = make_model()
        compile_built(model, steps_per_execution=steps_per_execution)

        def change(batch: int, logs: Any, model: Any = model) -> None:
            if batch == 2:
                watch.set(prefetch=4)
            if batch == 5:
                model.make_train_function(force=True)

        callbacks = [*watches, keras.callbacks.LambdaCallback(on_train_batch_end=change)]
        data = tf.data.Dataset.from_tensor_slices(arrays).repeat().batch(16)
        with determinism(on=False):  # which takes a prefetch away
            model.fit(data, epochs=3, steps_per_epoch=9, verbose=0, callbacks=callbacks)
        results.append(_weights(model))
        assert is_restored(model)
    assert results[0] == results[1]


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_a_switch_far_into_an_epoch_lets_the_training_go_on_until_another_iterator_is_there(
    steps_per_execution: int, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_FAR", 0)
    monkeypatch.setattr(replay, "_NEAR", 0)
    reads, dropper = threading.Event(), replay._dropper
    monkeypatch.setattr(replay, "_dropper", lambda source: _held_until(reads, dropper(source)))

    # counted here: the number of a call is that of its last batch, before Keras 3.11 that of its
    # first
    ends = itertools.count(steps_per_execution, steps_per_execution)

    def switch(*_: Any, **__: Any) -> None:
        trained = next(ends)
        if trained == 4:
            watch.set(workers=3)
        if trained == 12:  # a training that waits for the second iterator does not come here
            reads.set()
            wait_until(
                lambda: not any(thread.name == "tfwatch-replay" for thread in threading.enumerate())
            )

    how = {"steps_per_execution": steps_per_execution}
    callbacks = watch, keras.callbacks.LambdaCallback(on_train_batch_end=switch)
    assert fit_result(at_once, *callbacks, **how) == stock_result(at_once, **how)
    (switched,) = events_of(open_run(watch.run_path), PipelineSwitched)
    assert (switched.asked_step, switched.step) == (4, 13)


def _held_until(reads: threading.Event, drop: Callable[[], None]) -> Callable[[], None]:
    def drop_later() -> None:
        reads.wait()
        drop()

    return drop_later


@pytest.mark.parametrize("epochs", [1, 2])
def test_an_epoch_that_ends_before_the_second_iterator_is_there_leaves_the_switch_to_the_next(
    epochs: int, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_FAR", 0)
    over = threading.Event()
    monkeypatch.setattr(replay, "_dropper", lambda _source: over.wait)
    switch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batch == 12 and watch.set(workers=3)
    )
    try:
        fit_result(at_once, watch, switch, epochs=epochs)
    finally:
        over.set()
    run = open_run(watch.run_path)
    assert [event.step for event in events_of(run, PipelineSwitched)] == [STEPS + 1] * (epochs - 1)
    assert len(events_of(run, SwitchFailed)) == 2 - epochs


def test_a_knob_below_a_strategy_names_the_line_of_the_script_to_change() -> None:
    edits = [
        CodeEdit("workers", "train.py", line, "data = data.map(f)", 0, 0, "", "tf.data.AUTOTUNE")
        for line in (7, 9)
    ]
    fixed = fixed_below_strategy(edits)
    assert fixed["workers"] == f"change train.py:7: {Refusal.SPREAD.words}"
    assert fixed["prefetch"] == fixed["cache"] == Refusal.SPREAD.words
