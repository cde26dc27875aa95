"""Layers that are frozen or unfrozen between two fits, with and without `compile`: what is
reported, against what Keras trains."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.keras_fixtures import all_runs_ended
from tests.watch.watched import watch_in
from tests.whole import events_of
from tfwatch.core.events import TrainableIgnored
from tfwatch.runs.run import open_run
from tfwatch.watch.fit.fit_runs import complete_runs

__all__ = ["all_runs_ended"]

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("all_runs_ended")]

X = np.random.default_rng(1).normal(size=(16, 4)).astype("float32")


def model_of(**options: Any) -> Any:
    keras.utils.set_random_seed(3)
    encoder = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4, name="first")], name="encoder"
    )
    model = keras.Sequential([keras.Input((4,)), encoder, keras.layers.Dense(1, name="head")])
    model.compile("sgd", "mse", **options)
    return model


def fit(model: Any, tmp_path: Path) -> tuple[bool, list[TrainableIgnored]]:
    """Train; return whether the first layer trained, and what the run reports."""
    kernel, watch = model.layers[0].layers[0].kernel, watch_in(tmp_path)
    before = np.array(kernel)
    model.fit(X, X[:, :1], batch_size=4, verbose=0, callbacks=[watch])
    complete_runs()
    return not np.array_equal(before, kernel), events_of(open_run(watch.run_path), TrainableIgnored)


@pytest.mark.parametrize("options", [{}, {"steps_per_execution": 2}], ids=["one", "fused"])
def test_a_layer_that_is_frozen_without_compile_still_trains(
    options: dict[str, Any], tmp_path: Path
) -> None:
    model = model_of(**options)
    assert fit(model, tmp_path) == (True, [])
    assert fit(model, tmp_path) == (True, [])
    model.layers[0].trainable = False

    trains, (ignored,) = fit(model, tmp_path)
    assert trains
    assert (ignored.frozen, ignored.unfrozen) == (["encoder/first"], [])

    model.compile("sgd", "mse", **options)
    assert fit(model, tmp_path) == (False, [])
    model.layers[0].trainable = True

    trains, (ignored,) = fit(model, tmp_path)
    assert not trains
    assert (ignored.frozen, ignored.unfrozen) == ([], ["encoder/first"])


def test_a_layer_that_is_frozen_before_the_first_fit_does_not_train(tmp_path: Path) -> None:
    model = model_of()
    model.layers[0].trainable = False
    assert fit(model, tmp_path) == (False, [])


def test_steps_without_a_graph_read_trainable_each_time(tmp_path: Path) -> None:
    model = model_of(run_eagerly=True)
    assert fit(model, tmp_path) == (True, [])
    model.layers[0].trainable = False
    assert fit(model, tmp_path) == (False, [])


def test_a_train_step_of_the_scripts_own_may_freeze_by_itself(tmp_path: Path) -> None:
    class Alternates(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model_of()

        def call(self, inputs: Any) -> Any:
            return self.inner(inputs)

        @property
        def layers(self) -> Any:
            return self.inner.layers

        def train_step(self, data: Any) -> Any:
            result = super().train_step(data)
            self.inner.layers[0].trainable = False
            return result

    model = Alternates()
    model.compile("sgd", "mse")
    fit(model, tmp_path)
    assert fit(model, tmp_path)[1] == []
