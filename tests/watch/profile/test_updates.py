"""The variables behind the operations of an optimizer, in graphs that Keras makes."""

from collections.abc import Sequence
from typing import Any

import keras
import pytest
import tensorflow as tf

from tfwatch.watch.profile.origins import Origins, _operations_of
from tfwatch.watch.profile.recorded import CALL

pytestmark = pytest.mark.tensorflow

_KERNEL, _BIAS = "net/dense/kernel", "net/dense/bias"


def origins_of(
    optimizer: str, policy: str = "float32", recorded: Sequence[str] = (), **options: Any
) -> tuple[Origins, Any]:
    """Return the origins of a model's step, and its graph. recorded: paths beside those of its
    optimizer."""
    layers = [keras.Input((3,)), keras.layers.Dense(2, name="dense", dtype=policy)]
    model = keras.Sequential(layers, name="net")
    made = keras.optimizers.get({"class_name": optimizer, "config": {"name": "opt", **options}})
    if policy == "mixed_float16":
        made = keras.optimizers.LossScaleOptimizer(made)
    model.compile(made, "mse")
    made.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return model.train_step((x, y))

    graph = step.get_concrete_function(tf.ones((4, 3)), tf.ones((4, 2))).graph
    paths = [f"{CALL}/{name}" for name in operations(graph)]
    return Origins(model, graph, [*paths, *recorded]), graph


def operations(graph: Any) -> list[str]:
    kinds = ("Const", "Placeholder", "NoOp")
    every = _operations_of(graph).items()
    return [name for name, one in every if "opt" in name.split("/") and one.type not in kinds]


@pytest.mark.parametrize(
    ("optimizer", "options", "clips"),
    [
        ("Adam", {}, False),
        ("SGD", {"momentum": 0.9}, False),
        ("RMSprop", {"use_ema": True}, False),
        ("AdamW", {"clipnorm": 1.0}, True),
        ("Adam", {"global_clipnorm": 1.0}, True),
        ("SGD", {"momentum": 0.9, "clipvalue": 0.5}, True),
    ],
)
def test_each_operation_belongs_to_a_variable_or_clips(
    optimizer: str, options: dict[str, Any], clips: bool
) -> None:
    origins, graph = origins_of(optimizer, **options)
    names = operations(graph)
    found = [origins.of(f"{CALL}/{name}", "") for name in names]
    assert {one.role for one in found} == ({"optimizer", "clipping"} if clips else {"optimizer"})
    writes = [one for name, one in zip(names, found, strict=True) if "Assign" in name]
    assert {one.variable for one in writes} >= {_KERNEL, _BIAS}
    unplaced = [one for one in found if one.role == "optimizer" and not one.variable]
    assert len(unplaced) <= 3  # those that count its iterations, or pass all gradients on


def test_clipping_by_the_norm_of_all_gradients_begins_and_ends_at_the_gradients() -> None:
    origins, graph = origins_of("SGD", global_clipnorm=1.0)
    of_role = {name: origins.of(f"{CALL}/{name}", "").role for name in operations(graph)}
    clipping = {name for name, role in of_role.items() if role == "clipping"}
    kinds = {graph.get_operation_by_name(name).type for name in clipping}
    assert {"Square", "Sum", "Sqrt", "Mul"} <= kinds
    assert not any(kind.startswith("Assign") for kind in kinds)


def test_the_update_of_scaled_losses_is_found_below_its_condition() -> None:
    """In mixed float16 the gradients are applied where all of them are finite."""
    branch = f"{CALL}/cond/then/_22/cond/opt"
    writes = f"{branch}/AssignSubVariableOp"
    squares = f"{branch}/clip_by_norm/ArithmeticOptimizer/ReplaceMulWithSquare_mul"
    origins, _ = origins_of("Adam", "mixed_float16", [writes, squares], clipnorm=1.0)
    update = origins.of(writes, "AssignSubVariableOp")
    assert (update.role, update.name, update.kind) == ("optimizer", "opt", "Adam")
    assert update.variable in (_KERNEL, _BIAS)
    assert origins.of(squares, "Square").role == "clipping"


class _Doubling(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return x + x


def test_a_layer_has_its_line_where_its_longest_operation_is_of_tensorflows_own() -> None:
    layers = [keras.Input((3,)), _Doubling(name="twice"), keras.layers.Dense(2)]
    model = keras.Sequential(layers, name="net")
    model.compile("sgd", "mse")
    step = tf.function(lambda x, y: model.train_step((x, y)))
    graph = step.get_concrete_function(tf.ones((4, 3)), tf.ones((4, 2))).graph
    (known,) = (name for name in _operations_of(graph) if name.endswith("/add") and "twice" in name)
    fused = known.removesuffix("/add") + "/fused"
    paths = [f"{CALL}/{fused}", f"{CALL}/{known}"]
    origins = Origins(model, graph, paths)

    places = [origins.of(path, "AddV2").place for path in paths]

    assert places[0] == ""
    assert places[1].startswith("test_updates.py:")
