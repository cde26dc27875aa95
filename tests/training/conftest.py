"""Small models and data sets, made the same way each time."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

EXAMPLES, BATCH = 330, 16
STEPS = -(-EXAMPLES // BATCH)


@pytest.fixture(scope="package", autouse=True)
def _deterministic() -> Iterator[None]:
    import tensorflow as tf
    from tensorflow.python.framework import config

    tf.config.experimental.enable_op_determinism()
    yield
    config.disable_op_determinism()  # other rooms' tests compile with XLA, which Keras then leaves out


@pytest.fixture
def all_runs_ended() -> Iterator[None]:
    """Runs of `track` that are left open end with the test."""
    from .tracked import end_all

    yield
    end_all()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pipelines of tfwatch's own that are made, by number: whoever held them would be who deletes them."""
    from tfwatch.training import pipelines
    from tfwatch.training.tap import Tap

    numbers: list[int] = []

    def noted(iterator: Any) -> Any:
        numbers.append(len(numbers))
        return Tap(iterator)

    monkeypatch.setattr(pipelines, "Tap", noted)
    return numbers


@pytest.fixture
def freed_in(monkeypatch: pytest.MonkeyPatch, made: list[int]) -> list[str]:
    """The threads that let go of pipelines of tfwatch's own last."""
    from tfwatch.training import pipelines

    threads: list[str] = []
    make = vars(pipelines)["Tap"]

    def noted(iterator: Any) -> Any:
        weakref.finalize(iterator, lambda: threads.append(threading.current_thread().name)).atexit = False
        return make(iterator)

    monkeypatch.setattr(pipelines, "Tap", noted)
    return threads


@pytest.fixture(scope="session")
def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(EXAMPLES, 12, 12, 3)).astype("float32"), np.arange(EXAMPLES) % 4


@pytest.fixture
def one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cnn workload has one of its four blocks: a short run, most of it tracing, takes 2.3 s in place of 3.2."""
    from tfwatch.workloads import cnn

    monkeypatch.setattr(cnn, "_FILTERS", (8,))


@pytest.fixture
def make_model() -> Iterator[Callable[[], Any]]:
    """Convolution, batch norm and dropout: what differs first when a step is not the same."""
    import keras

    def make() -> Any:
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [
                keras.Input((12, 12, 3)),
                keras.layers.Conv2D(8, 3),
                keras.layers.BatchNormalization(),
                keras.layers.ReLU(),
                keras.layers.Flatten(),
                keras.layers.Dropout(0.2),
                keras.layers.Dense(4, activation="softmax"),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    yield make
    keras.backend.clear_session()


def fingerprint(model: Any, history: Any) -> tuple[str, int, list[float]]:
    """Weights, optimizer iterations and losses: equal only where training was the same bit for bit."""
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()
    return digest, int(model.optimizer.iterations), history.history["loss"]
