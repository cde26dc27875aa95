"""Data sets, models and steps of many kinds in the user's own file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.whole import events_of
from tests.workloads.files import DATASET, EXAMPLE, IMPORTS, MODEL, ONCE, train
from tfwatch.core.events import EpochStarted, RunEnded
from tfwatch.runs.control import Scheduled
from tfwatch.training.trainer import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("made", "asked", "steps", "epochs"),
    [
        pytest.param(".repeat().batch(8)", {"steps": 20}, 20, [(1, 20)], id="infinite"),
        pytest.param(".filter(lambda x, y: True).batch(8)", {"epochs": 2}, 26, [(2, None)] * 2, id="unknown"),
        pytest.param(".filter(lambda x, y: True).batch(8)", {"steps": 20}, 20, [(0, None)] * 2, id="unknown, steps"),
    ],
)
def test_a_data_set_of_any_length_trains(
    made: str, asked: dict[str, Any], steps: int, epochs: list[tuple[int, int | None]], written: Any, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Your input ran out of data")
        run, outcome = train(written(ONCE.replace(".batch(8)", made)), tmp_path, **asked)
    assert outcome == Outcome("finished")
    assert len(run.steps) == steps
    assert [(event.epochs, event.steps) for event in events_of(run, EpochStarted)] == epochs


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        pytest.param({}, "False float32 False 1", id="nothing"),
        pytest.param({"mode": "eager"}, "True float32 False 1", id="eager"),
        pytest.param({"mode": "jit"}, "False float32 True 1", id="jit"),
        pytest.param({"mixed_precision": True}, "False mixed_float16 False 1", id="mixed precision"),
        pytest.param({"steps_per_execution": 5}, "False float32 False 5", id="steps per execution"),
    ],
)
def test_mode_and_steps_per_execution_apply_to_a_file(
    asked: dict[str, Any], seen: str, written: Callable[[str], str], tmp_path: Path
) -> None:
    looks = """
class Looks(keras.Model):
    def build(self, shape):
        self.scale = self.add_weight(shape=())

    def call(self, x):
        with open("seen", "w") as file:
            policy = self.dtype_policy.name
            print(tf.executing_eagerly(), policy, self.jit_compile, self.steps_per_execution, file=file)
        return tf.reduce_sum(x, axis=1, keepdims=True) * self.scale

def model():
    model = Looks()
    model.compile("adam", "mse", jit_compile=False)
    return model
"""
    run, outcome = train(written(IMPORTS + EXAMPLE + DATASET + looks), tmp_path, **asked)
    assert outcome == Outcome("finished")
    assert Path("seen").read_text() == f"{seen}\n"
    assert run.manifest.op_by_op == (asked == {"mode": "eager"})


def test_an_eager_model_cannot_be_compiled(written: Callable[[str], str], tmp_path: Path) -> None:
    eager = MODEL.replace('"mse",', '"mse", run_eagerly=True,')
    _, outcome = train(written(IMPORTS + EXAMPLE + DATASET + eager), tmp_path, mode="jit")
    assert outcome.message == "own.py:12: model() compiles with run_eagerly=True: XLA cannot compile an eager step"


IMAGES = """
def images():
    for side in (40, 56, 40):
        yield tf.ones((2, side, side, 3)), tf.ones((2, 1))

def dataset(knobs):
    spec = tf.TensorSpec((None, None, None, 3)), tf.TensorSpec((None, 1))
    return tf.data.Dataset.from_generator(images, output_signature=spec)

def model():
    layers = [keras.layers.Conv2D(4, 3), keras.layers.MaxPooling2D(4), keras.layers.GlobalAveragePooling2D()]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile("adam", "mse", steps_per_execution=STEPS)
    return model
"""
NAMED = """
def named(n):
    x, y = example(n)
    return {"a": x, "b": x}, {"y": y}, {"y": 2.0}

def dataset(knobs):
    return tf.data.Dataset.range(40).map(named).batch(8)

def model():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    model = keras.Model({"a": a, "b": b}, {"y": keras.layers.Dense(1, name="y")(a + b)})
    model.compile("adam", {"y": "mse"})
    return model
"""


ODD = """
class Odd:
    def __call__(self, y, found):
        return keras.ops.mean((y - found) ** 2)
"""
SHORT = (
    IMAGES.replace("STEPS", "1")
    .replace("Dense(1)", 'Dense(1, "sigmoid")')
    .replace('"mse"', '"CE", metrics=["acc", ["AUC", "MSE"]]')
)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        pytest.param(IMAGES.replace("STEPS", "1"), 3, id="images of any size"),
        pytest.param(IMAGES.replace("STEPS", "2"), 3, id="two steps per execution"),
        pytest.param(SHORT, 3, id="names that the shapes decide, and classes by name"),
        pytest.param(EXAMPLE + NAMED, 5, id="named inputs and weights"),
        pytest.param(EXAMPLE + DATASET + ODD + MODEL.replace('"mse"', "Odd()"), 13, id="a loss that cannot be saved"),
        pytest.param(EXAMPLE + DATASET + MODEL.replace('"mse"', '"mse", run_eagerly=True'), 13, id="eager"),
    ],
)
def test_batches_and_models_of_many_kinds_train(
    text: str, steps: int, written: Callable[[str], str], tmp_path: Path
) -> None:
    run, outcome = train(written(IMPORTS + text), tmp_path, None, Scheduled(2, "prefetch", 2))
    assert outcome == Outcome("finished")
    assert len(run.steps) == steps
    assert events_of(run, RunEnded)[0].final_loss > 0
