"""An error of tfwatch's own changes no training, wherever it is raised."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfwatch
from tests.keras_fixtures import compile_built, determinism
from tests.whole import events_of, only
from tfwatch import Watch
from tfwatch.core.events import Noted, RunEnded, WatchFailed
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.stepping.step_runners import StepByStepRunner, TrainFunction

pytestmark = pytest.mark.tensorflow

X, Y = np.arange(40, dtype="float32").reshape(20, 2) / 40, np.ones((20, 1), "float32")
BATCH = 4
#: The functions, of some 200 of tfwatch's, in which an exception of the user's arrives.
EVERYWHERE = 12
PACKAGE = Path(tfwatch.__file__).parent


class Trained:
    """A model that each test trains from the same weights: it is traced once, bare and watched."""

    def __init__(self, **settings: Any) -> None:
        keras.utils.set_random_seed(3)
        self.model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        compile_built(self.model, **settings)
        self._begin = self.model.get_weights()
        self.stock = self.fit()

    def fit(self, *callbacks: Any, **data: Any) -> Any:
        self.model.set_weights(self._begin)
        self.model.optimizer.iterations.assign(0)
        data = data or {"x": X, "y": Y, "batch_size": BATCH, "shuffle": False}
        history = self.model.fit(**data, epochs=2, verbose=0, callbacks=list(callbacks))
        weights = [weight.tolist() for weight in self.model.get_weights()]
        return history.history, weights, int(self.model.optimizer.iterations)


@pytest.fixture(scope="module")
def trained() -> Iterator[dict[int, Trained]]:
    """Models by the steps of a call; with 0, a step runs op by op."""
    with determinism(False):  # so that the graph's clock is the wall clock
        yield {
            0: Trained(run_eagerly=True),
            **{steps: Trained(steps_per_execution=steps) for steps in (1, 2)},
        }
        keras.backend.clear_session(free_memory=False)
        gc.collect()


def switching(watch: Watch) -> Any:
    """Return a callback that switches after each of two calls: the second pipeline takes over from
    the first."""
    settings = [2, 4]

    def switch(batch: int, logs: Any) -> None:
        if settings:
            watch.set(prefetch=settings.pop(0))

    return keras.callbacks.LambdaCallback(on_train_batch_end=switch)


@pytest.mark.parametrize(
    ("part", "steps"),
    [
        ("watch.fit.recorder.Recorder.begin_epoch", 1),
        ("watch.fit.recorder.Recorder.end_epoch", 1),
        ("watch.fit.recorder.Recorder.end", 1),
        ("watch.fit.recorder.Recorder._is_abandoned", 1),
        ("runs.control.Control.is_over", 1),
        ("watch.fit.stepping.step_runners.TrainFunction.uninstall", 1),
        ("watch.step_log.StepLog.begin_phase", 1),
        ("watch.fit.switching.requested_switches.RequestedSwitches.apply", 1),
        ("watch.fit.fetch.Fetch.mark_first_batch", 2),
        ("watch.fit.fetch.Fetch.explain_wait", 1),
        ("watch.fit.stepping.step_runners.clock_offset_ns", 2),
        ("watch.fit.stepping.step_runners.clock_was_set", 2),
        ("watch.fit.stepping.eager_operations.Operations.begin", 0),
        ("watch.fit.stepping.eager_operations.Operations.end", 0),
        ("watch.fit.stepping.eager_operations.Calls.begin", 0),
        ("watch.fit.stepping.eager_operations.Calls.end", 0),
        ("tfdata.live_switch.SwitchablePipeline.is_switching", 1),
        ("runs.writer.RunWriter.step", 1),
        ("runs.writer.RunWriter.event", 1),
        ("runs.writer.RunWriter.now_ns", 2),
        ("runs.writer.RunWriter.describe", 2),
    ],
)
def test_an_error_in_a_part_of_tfwatch_changes_no_training(
    part: str,
    steps: int,
    trained: dict[int, Trained],
    watch: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised = []

    def fault(*_: Any, **__: Any) -> float:
        raised.append(part)
        return 1 / 0

    broken = property(fault) if part.endswith("is_switching") else fault
    with monkeypatch.context() as patched:
        patched.setattr(f"tfwatch.{part}", broken)
        assert trained[steps].fit(watch, switching(watch)) == trained[steps].stock
    assert raised
    assert not isinstance(trained[steps].model.train_function, TrainFunction)
    assert trained[steps].fit() == trained[steps].stock


@pytest.mark.parametrize(
    "part",
    [
        "switching.requested_switches.RequestedSwitches._refusal",
        "switching.requested_switches.RequestedSwitches._accept",
        "switching.requested_switches.RequestedSwitches.report",
        "switching.script_pipeline.ScriptPipeline.read",
        "fetch.Fetch._measure",
    ],
)
def test_an_error_in_a_switch_changes_no_training_and_is_noted(
    part: str, trained: dict[int, Trained], watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tfwatch.watch.fit.{part}", lambda *_: 1 / 0)
    assert trained[1].fit(watch, switching(watch)) == trained[1].stock
    assert watch.run_path
    notes = [event.text for event in events_of(open_run(watch.run_path), Noted)]
    assert any("ZeroDivisionError" in text for text in notes)


def test_nothing_of_tfwatchs_stands_between_the_end_of_data_of_unknown_length_and_keras(
    trained: dict[int, Trained], tmp_path: Path
) -> None:
    """Raise in each function that the runner calls, but in boundaries and those that give the
    batches."""
    around, seen = ("guarded", "_next", "_run"), set()

    def see(frame: FrameType, event: str, _: Any) -> None:
        caller, called = frame.f_back and frame.f_back.f_code, frame.f_code
        if caller is StepByStepRunner.__call__.__code__ and Path(called.co_filename).is_relative_to(
            PACKAGE
        ):
            seen.add(called.co_name)
            if called.co_name not in around:
                del frame  # else it is an exception of the trace function, which ends fit
                raise MemoryError(called.co_name)

    data = tf.data.Dataset.from_tensor_slices((X, Y)).filter(lambda x, y: True).batch(BATCH)
    stock = trained[1].fit(x=data)
    sys.settrace(see)
    try:
        assert trained[1].fit(Watch(tmp_path), x=data) == stock
    finally:
        sys.settrace(None)
    assert seen == set(around)


class _TooLateError(Exception):
    """A time limit of the user's."""


class _Handler:
    """A handler of the user's, which raises as one function of tfwatch's begins in the thread that
    trains.

    at: that function; None raises nowhere. begun: the functions that began, the first one first.
    """

    def __init__(self, at: CodeType | None = None) -> None:
        self.begun: list[CodeType] = []
        self._at = at

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code not in self.begun and Path(code.co_filename).is_relative_to(PACKAGE):
            self.begun.append(code)
            if code is self._at:
                raise _TooLateError

    def is_swallowed(self, trained: Trained, watch: Watch) -> bool:
        """Train, and return whether the exception was raised and did not end `fit`."""
        sys.settrace(self)
        try:
            trained.fit(watch, switching(watch))
        except _TooLateError:
            return False
        finally:
            sys.settrace(None)
        return self._at in self.begun


def test_an_exception_of_a_users_handler_ends_fit_wherever_it_arrives(
    trained: dict[int, Trained], tmp_path: Path
) -> None:
    everywhere = _Handler()
    everywhere.is_swallowed(trained[1], Watch(tmp_path))
    # What is raised where the garbage collector calls, Python drops by itself.
    places = [code for code in everywhere.begun if not code.co_filename.endswith("disposal.py")]
    assert len(places) > 100
    swallowed = [
        code.co_name
        for code in places[:: len(places) // EVERYWHERE]
        if _Handler(code).is_swallowed(trained[1], Watch(tmp_path))
    ]
    assert not swallowed
    assert trained[1].fit() == trained[1].stock


@pytest.mark.parametrize(
    "part",
    [
        "fit.switching.requested_switches.RequestedSwitches.apply",
        "fit.recorder.Recorder.begin_epoch",
    ],
)
def test_an_interrupt_in_a_part_of_tfwatch_ends_fit_and_its_run(
    part: str, trained: dict[int, Trained], watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"tfwatch.watch.{part}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            trained[1].fit(watch)
    assert watch.run_path
    run = open_run(watch.run_path)
    assert (only(run, RunEnded).cause, only(run, RunEnded).detail) == (
        "stopped",
        "KeyboardInterrupt",
    )
    assert not events_of(run, WatchFailed)
    assert trained[1].fit() == trained[1].stock
