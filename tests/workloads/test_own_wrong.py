"""Errors in the user's own file while it runs are reported in a sentence with the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.whole import events_of
from tests.workloads.files import DATASET, EXAMPLE, IMPORTS, LIVE, MODEL, ONCE, train
from tfwatch.core.events import TrainingFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.tensorflow


#: Several devices must be set up before TensorFlow starts, which the tests have done.
SPREAD = """
class Spread(keras.Sequential):
    @property
    def distribute_strategy(self):
        return type("Two", (), {"num_replicas_in_sync": 2})
"""


RAGGED_LENGTHS = """
def batches():
    for size in (4, 4, 5):
        yield [[1.0] * size] * 2, [[1.0]] * 2

def dataset(knobs):
    spec = tf.TensorSpec((2, None)), tf.TensorSpec((2, 1))
    return tf.data.Dataset.from_generator(batches, output_signature=spec)
"""


def batched(stages: str) -> str:
    """Return the file with other stages at the end of its data set."""
    return ONCE.replace(".batch(8)", stages)


UNFIT = "own.py:8: the batches of dataset() do not fit model(): "
WRONG = {
    "import": ("import nosuch\n" + ONCE, "own.py:1: ModuleNotFoundError: No module named 'nosuch'"),
    "exits": ("raise SystemExit(3)\n" + ONCE, "own.py:1: SystemExit: 3"),
    "star": ("from x_not_here import *", "own.py:1: ModuleNotFoundError: No module named 'x_not_here'"),
    "no function": (ONCE + "\nmodel = 3", "own.py has no function model()"),
    "model raises": (ONCE + "\ndef model():\n    return 1 / 0\n", "own.py:19: ZeroDivisionError: division by zero"),
    "no model": (ONCE + "\ndef model(): ...\n", "own.py:18: model() returns None, not a compiled Keras model"),
    "not compiled": (
        ONCE.replace("model.compile", "(lambda *_, **__: 0)"),
        "own.py:12: model() returns a model that is not compiled: call its compile()",
    ),
    "no such loss": (
        ONCE.replace('"mse"', '"mean_sqared_error"'),
        "own.py:12: model() compiles with the loss 'mean_sqared_error', which Keras does not know (is it 'mean_s",
    ),
    "no such loss, op by op": (
        ONCE.replace('"mse"', '["nothing_like_it"], run_eagerly=True'),
        "own.py:12: model() compiles with the loss 'nothing_like_it', which Keras does not know",
    ),
    "no such metric": (
        ONCE.replace('["mean_absolute_error"]', '["mae", "acuracy"]'),
        "own.py:12: model() compiles with the metric 'acuracy', which Keras does not know (is it 'accuracy'?)",
    ),
    "no such metric, of weighted examples": (
        ONCE.replace('"mse"', '"mse", weighted_metrics=[["nothing_like_it"]]'),
        "own.py:12: model() compiles with the metric 'nothing_like_it', which Keras does not know",
    ),
    "no data set": (
        ONCE + "\ndef dataset(knobs):\n    return [1]\n",
        "own.py:18: dataset() returns a list, not a tf.data.Dataset",
    ),
    "a map raises": (
        ONCE.replace("tf.reduce_sum(x, ", "tf.reduce_summ(x, "),
        "own.py:6: AttributeError: module 'tensorflow' has no attribute 'reduce_summ'",
    ),
    "shape": (ONCE.replace("(4,), (n", "(3,), (n"), UNFIT),
    "shape of the labels": (
        ONCE.replace('"mse"', '"sparse_categorical_crossentropy"')
        .replace("keepdims=True", "keepdims=False")
        .replace(".batch(8)", ".batch(8).map(lambda x, y: (x, tf.stack([y, y], 1)))"),
        UNFIT,
    ),
    "not batched": (batched(""), UNFIT),
    "empty": (
        ONCE.replace("range(100)", "range(0)").replace("shuffle(100", "shuffle(1"),
        "own.py:8: dataset() returns no batch: the data set is empty",
    ),
    "empty, as it proves": (batched(".filter(lambda x, y: False).batch(8)"), "the data set is empty: it gave no batch"),
    "infinite": (
        batched(".repeat().batch(8)"),
        "own.py:8: dataset() returns an infinite data set: set the length of the training with --steps",
    ),
    "batches of batches": (
        IMPORTS
        + EXAMPLE
        + LIVE.replace("return source.map(", "return source.batch(2).map(")
        .replace("if ", "if not ")
        .replace("example, ns", "lambda n: example(n[0]), ns")
        + MODEL,
        "own.py:11: pipeline() returns 7 batches for the 13 of source(): batch in source()",
    ),
    "ragged": (
        batched(".batch(8).map(lambda x, y: (tf.RaggedTensor.from_tensor(x), y))"),
        "own.py:8: dataset() returns a RaggedTensor: only plain tensors are supported",
    ),
    "asserted": (
        IMPORTS
        + EXAMPLE
        + LIVE.replace(".batch(8)\n", ".batch(8).apply(tf.data.experimental.assert_cardinality(13))\n")
        + MODEL,
        "own.py:11: pipeline() asserts its number of batches: do that in source()",
    ),
    "on a device": (
        batched('.batch(8).apply(tf.data.experimental.copy_to_device("/cpu:0"))'),
        "own.py:8: dataset() returns batches on a device: remove prefetch_to_device",
    ),
    "spread": (
        IMPORTS + EXAMPLE + DATASET + SPREAD + MODEL.replace("keras.Sequential", "Spread"),
        "own.py:17: model() returns a model on 2 devices: train it in a script with Watch()",
    ),
    "validation": (
        ONCE + "\ndef validation(): return 5\n",
        "own.py:18: validation() returns an int, not a tf.data.Dataset",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), WRONG.values(), ids=WRONG)
def test_an_error_before_training_is_bad_input(
    text: str, sentence: str, written: Callable[[str], str], tmp_path: Path
) -> None:
    run, outcome = train(written(text), tmp_path)
    assert outcome.cause == "bad-input", outcome
    assert outcome.message.startswith(sentence)
    assert "\n" not in outcome.message
    assert len(run.steps) == 0


ROWS = """
def rows():
    for n in range(100):
        yield [1.0] * (4 if n < 20 else 5), [1.0]

def dataset(knobs):
    spec = tf.TensorSpec((None,)), tf.TensorSpec((1,))
    return tf.data.Dataset.from_generator(rows, output_signature=spec).batch(8)
"""


CHANGING = {
    "between batches": (
        RAGGED_LENGTHS + MODEL,
        "own.py:8: dataset() returns a batch of shape (2, 5), but model() takes (None, 4)",
    ),
    "in a batch": (
        ROWS + MODEL,
        (
            "own.py:8: a batch of dataset(): InvalidArgumentError: Cannot batch tensors with different shapes in "
            "component 0. First element had shape [4] and element 4 had shape [5]."
        ),
    ),
    "against its signature": (
        ROWS.replace("(None,)", "(4,)") + MODEL,
        (
            "own.py:8: a batch of dataset(): TypeError: `generator` yielded an element of shape (5,) where an element "
            "of shape (4,) was expected."
        ),
    ),
}


@pytest.mark.parametrize(("text", "sentence"), CHANGING.values(), ids=CHANGING)
def test_changing_shapes_fail_with_the_line(
    text: str, sentence: str, written: Callable[[str], str], tmp_path: Path
) -> None:
    run, outcome = train(written(IMPORTS + text), tmp_path)
    assert (outcome.cause, outcome.message) == ("failed", sentence)
    assert events_of(run, TrainingFailed)[0].error == sentence
    assert len(run.steps) == 2


def test_a_failing_generator_fails_with_its_line(written: Callable[[str], str], tmp_path: Path) -> None:
    text = RAGGED_LENGTHS.replace("for size in (4, 4, 5)", "for size in (4, 4, 4)").replace(
        "* 2\n", "* 2\n    1 / 0\n", 1
    )
    _, outcome = train(written(IMPORTS + text + MODEL), tmp_path)
    assert (outcome.cause, outcome.message) == ("failed", "own.py:7: ZeroDivisionError: division by zero")
