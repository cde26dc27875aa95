"""A trial ends its process, and validates only where it is asked to."""

import random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfwatch.runs.script_process import ScriptTrial
from tfwatch.watch.script.trial import patch_trial

pytestmark = pytest.mark.tensorflow


def model() -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


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


@pytest.mark.parametrize(("validates", "times"), [(False, 0), (True, 2)])
def test_a_trial_validates_as_the_script_does_or_never(validates: bool, times: int) -> None:
    """Epochs have two steps, and the trial ends in the third one."""
    one = model()
    seen: list[Any] = []
    begins = keras.callbacks.LambdaCallback()
    begins.on_test_begin = seen.append
    x, y = np.zeros((8, 2)), np.zeros((8, 1))
    with patch_trial(keras, ScriptTrial(5, validates)):
        one.compile("sgd", "mse")
        with pytest.raises(SystemExit):
            one.fit(
                x,
                y,
                batch_size=4,
                epochs=3,
                verbose=0,
                validation_split=0.0,
                validation_data=(x, y),
                callbacks=[begins],
            )
    assert len(seen) == times


def test_trials_of_a_script_without_a_seed_draw_the_same() -> None:
    draws = []
    for _ in range(2):
        with patch_trial(keras, ScriptTrial(1)):
            shuffled = [*tf.data.Dataset.range(99).shuffle(99).as_numpy_iterator()]
            weights = model().get_weights()[0].tolist()
            draws.append((random.random(), np.random.rand(), shuffled, weights))
    assert draws[0] == draws[1]
