"""Fixtures for tests that train: a small model and its data, op determinism, and tfwatch's own
pipelines."""

import contextlib
import functools
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

EXAMPLES, BATCH = 330, 16
STEPS = -(-EXAMPLES // BATCH)


@pytest.fixture(scope="package")
def op_determinism() -> Iterator[None]:
    import tensorflow as tf
    from tensorflow.python.framework import config

    tf.config.experimental.enable_op_determinism()
    yield
    config.disable_op_determinism()  # tests of other rooms compile with XLA, which Keras leaves out under determinism  # noqa: E501


@pytest.fixture(scope="package", autouse=True)
def always_deterministic(op_determinism: None) -> None:
    """Op determinism for all tests of a package."""


@pytest.fixture
def all_runs_ended() -> Iterator[None]:
    """End the runs of `track` that a test leaves open."""
    from tests.watch.tracked import end_all

    yield
    end_all()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the pipelines that tfwatch makes; a reference to one would change the thread
    that deletes it."""
    from tfwatch.tfdata import live_switch
    from tfwatch.tfdata.live_switch import BatchIterator

    numbers: list[int] = []

    def noted(iterator: Any, *stamps: Any) -> Any:
        numbers.append(len(numbers))
        return BatchIterator(iterator, *stamps)

    monkeypatch.setattr(live_switch, "BatchIterator", noted)
    return numbers


@pytest.fixture
def freed_in(monkeypatch: pytest.MonkeyPatch, made: list[int]) -> list[str]:
    """The names of the threads that delete tfwatch's pipelines."""
    from tfwatch.tfdata import live_switch

    threads: list[str] = []
    make = vars(live_switch)["BatchIterator"]

    def noted(iterator: Any, *stamps: Any) -> Any:
        weakref.finalize(
            iterator, lambda: threads.append(threading.current_thread().name)
        ).atexit = False
        return make(iterator, *stamps)

    monkeypatch.setattr(live_switch, "BatchIterator", noted)
    return threads


@functools.cache
def training_arrays() -> tuple[Any, Any]:
    """Return the examples and labels of most trainings."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(EXAMPLES, 6)).astype("float32"), np.arange(EXAMPLES) % 4


@pytest.fixture(scope="session")
def arrays() -> tuple[Any, Any]:
    return training_arrays()


@pytest.fixture
def make_model() -> Iterator[Callable[[], Any]]:
    import keras

    yield small_model
    keras.backend.clear_session(free_memory=False)


def small_model() -> Any:
    """Return a model with dropout, whose weights differ first when a step differs; `watch/kinds.py`
    has larger ones."""
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
    compile_built(model)
    return model


def compile_built(model: Any, optimizer: str = "sgd", loss: str = "mse", **settings: Any) -> None:
    """Compile a model with all variables made, in a third less CPU: TensorFlow traces a step that
    makes some twice.

    For most tests these will do: "sgd" has no variables of its own for a weight, and less to trace
    than Adam, as "mse" has less than the loss and the metric of a classifier.
    """
    model.compile(optimizer, loss, **settings)
    model.optimizer.build(model.trainable_variables)


def fingerprint(model: Any, history: Any) -> tuple[str, int, list[float]]:
    """Return weights, optimizer iterations and losses: equal only if two trainings were equal bit
    for bit."""
    digest = hashlib.sha256(
        b"".join(weight.tobytes() for weight in model.get_weights())
    ).hexdigest()
    return digest, int(model.optimizer.iterations), history.history["loss"]


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Within, the knobs of the copy to a GPU build their stages, for the CPU."""
    from tfwatch.tfdata import work_ahead
    from tfwatch.watch.fit.switching import requested_switches

    with (
        mock.patch.object(requested_switches, "why_no_device_prefetch", return_value=None),
        mock.patch.object(work_ahead, "DEVICE", "/CPU:0"),
    ):
        yield


@contextlib.contextmanager
def determinism(on: bool) -> Iterator[None]:
    """Within, turn op determinism off and use the CPU, where models this small give the same bits
    every time."""
    import tensorflow as tf
    from tensorflow.python.framework import config

    if on:
        yield
        return
    config.disable_op_determinism()
    try:
        with tf.device("/CPU:0"):
            yield
    finally:
        config.enable_op_determinism()
