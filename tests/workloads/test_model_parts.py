"""The start settings reach the model of a workload."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tfwatch.core.errors import BadInputError
from tfwatch.workloads import model_parts
from tfwatch.workloads.workload import OPTIMIZERS, Settings

if TYPE_CHECKING:
    import keras

pytestmark = pytest.mark.tensorflow


def compiled(**changes: Any) -> keras.Model:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    return model_parts.compiled(
        model, replace(Settings(), **changes), "mse", "mean_absolute_error", learning_rate=0.25
    )


def test_the_default_is_a_graph_and_adam_at_the_workloads_rate() -> None:
    model = compiled()
    assert (model.run_eagerly, model.jit_compile, model.steps_per_execution) == (False, False, 1)
    assert (type(model.optimizer).__name__, float(model.optimizer.learning_rate)) == ("Adam", 0.25)


def test_each_knob_reaches_the_model() -> None:
    assert compiled(mode="eager").run_eagerly
    assert compiled(steps_per_execution=8).steps_per_execution == 8
    assert float(compiled(learning_rate=0.5).optimizer.learning_rate) == 0.5


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_its_own_rate_unless_one_is_given(name: str) -> None:
    import keras

    own = float(keras.optimizers.get(name).learning_rate)
    optimizer = compiled(optimizer=name).optimizer
    assert type(optimizer).__name__.lower() == name
    assert float(optimizer.learning_rate) == (0.25 if name == "adam" else own)
    assert float(compiled(optimizer=name, learning_rate=0.125).optimizer.learning_rate) == 0.125


def test_the_first_step_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that makes variables is traced twice."""
    model, traces = compiled(), list[int]()
    step = model.train_step

    def train_step(data: Any) -> Any:
        traces.append(1)
        return step(data)

    monkeypatch.setattr(model, "train_step", train_step)
    model.fit(np.zeros((4, 3)), np.zeros((4, 2)), batch_size=2, verbose=0)
    assert len(traces) == 1


def test_a_model_without_xla_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from keras.src.trainers import trainer

    monkeypatch.setattr(trainer, "model_supports_jit", lambda _: True)
    assert compiled(mode="jit").jit_compile
    monkeypatch.setattr(trainer, "model_supports_jit", lambda _: False)
    with pytest.raises(BadInputError, match="leave out --jit"):
        compiled(mode="jit")
