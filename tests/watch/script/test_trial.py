"""The change to what a script compiles that a trial makes."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from tfwatch.runs.script_process import ScriptChange, ScriptTrial
from tfwatch.watch.script.trial import patch_trial

pytestmark = pytest.mark.tensorflow


def model() -> Any:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def compiled(trial: ScriptTrial, **arguments: Any) -> Any:
    one = model()
    with patch_trial(keras, trial):
        one.compile("sgd", "mse", **arguments)
    return one


def test_xla_compiles_the_step() -> None:
    for change, is_compiled in ((ScriptChange.JIT_COMPILE, True), ("", False)):
        one = compiled(ScriptTrial(9, change), jit_compile=False)
        assert one.get_compile_config()["jit_compile"] is is_compiled


@pytest.mark.parametrize(
    ("metrics", "left"),
    [
        (["mae", "mape"], ["mape"]),
        ([keras.metrics.MeanAbsoluteError(name="mae")], []),
        ({"dense": ["mae", "mape"]}, ["mape"]),
        ("mae", []),
    ],
)
def test_the_metric_is_left_out(metrics: Any, left: list[str]) -> None:
    trial = ScriptTrial(9, ScriptChange.WITHOUT_METRIC, "mae")
    one = compiled(trial, metrics=metrics if not isinstance(metrics, dict) else [*metrics.values()])
    one.train_on_batch(np.zeros((4, 2)), np.zeros((4, 1)))
    assert [name for name in one.get_metrics_result() if name != "loss"] == left


@pytest.mark.parametrize("in_call", [1, 2])
def test_fit_ends_the_process_after_its_steps(in_call: int) -> None:
    """Epochs have four steps, and a call one or two."""
    one = model()
    with patch_trial(keras, ScriptTrial(6)):
        one.compile("sgd", "mse", steps_per_execution=in_call)
        with pytest.raises(SystemExit) as ended:
            one.fit(np.zeros((16, 2)), np.zeros((16, 1)), batch_size=4, epochs=3, verbose=0)
    assert ended.value.code == 0
    assert int(one.optimizer.iterations) == 6
