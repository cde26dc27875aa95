"""What a run records of traces under `fit` and in loops, and of its models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from tests.keras_fixtures import all_runs_ended
from tests.watch.tracked import end_all, opened
from tests.whole import events_of
from tfwatch import track
from tfwatch.core.events import Traced
from tfwatch.core.rows import Flag
from tfwatch.runs.format import Embedding, ModelFacts
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.fit_runs import complete_runs

__all__ = ["all_runs_ended"]

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("all_runs_ended")]


def model_of(**options: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((None, 2)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"], **options)
    return model


def batches_of(lengths: list[int]) -> Any:
    def batches() -> Any:
        for length in lengths:
            yield np.ones((4, length, 2), "float32"), np.ones((4, length, 1), "float32")

    spec = tf.TensorSpec((4, None, None), tf.float32)
    return tf.data.Dataset.from_generator(batches, output_signature=(spec, spec))


@pytest.fixture
def with_xla() -> Iterator[None]:
    """Keras compiles nothing with XLA under op determinism."""
    config.disable_op_determinism()
    yield
    config.enable_op_determinism()


@pytest.mark.usefixtures("with_xla")
def test_xla_compiles_each_new_length(watch: Any) -> None:
    model_of(jit_compile=True).fit(
        batches_of([3, 5, 3, 7, 5]), epochs=2, verbose=0, callbacks=[watch]
    )
    run = open_run(watch.run_path)
    traced = events_of(run, Traced)

    assert [event.step for event in traced] == [1, 2, 4]
    assert "input 0: shape (4, 3, 2) -> (4, 5, 2)" in traced[1].change
    assert (run.steps["flags"][[1, 3]] & Flag.RETRACE).all()
    assert not (run.steps["flags"][5:] & Flag.RETRACE).any()


def test_a_fit_after_compile_says_that_its_train_function_is_another(watch: Any) -> None:
    model = model_of()
    for _ in range(3):
        model.compile("sgd", "mse")
        model.fit(batches_of([3, 3]), verbose=0, callbacks=[watch])
    complete_runs()

    changes = [event.change for event in events_of(open_run(watch.run_path), Traced)]
    assert changes[-1].startswith("model: train function ")


def test_the_manifest_has_facts_of_the_first_model(watch: Any) -> None:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Embedding(50, 3, name="words"), keras.layers.Flatten()]
    )
    model.compile("adam", "mse", jit_compile=False)
    model.fit(np.ones((8, 4)), np.ones((8, 12)), verbose=0, callbacks=[watch])
    facts = open_run(watch.run_path).manifest.model

    assert facts == ModelFacts("Adam", False, Embedding("words", 50, 3))


def test_a_python_number_retraces_the_function_of_a_loop(tmp_path: Path) -> None:
    variable = tf.Variable(0.0)

    @tf.function
    def step(batch: Any, rate: float) -> Any:
        return variable.assign_add(tf.reduce_sum(batch) * rate)

    tracked = track(batches_of([3, 3, 3]), tmp_path)
    for number, (batch, _) in enumerate(tracked):
        step(batch, 0.5**number)
    end_all()
    changes = [event.change for event in events_of(opened(tracked), Traced)]

    assert changes == ["", *(f"rate: Python number {0.5**n} -> {0.5 ** (n + 1)}" for n in (0, 1))]
