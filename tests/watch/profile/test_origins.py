"""The metric, the optimizer or the loss of an operation, in graphs that Keras makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfwatch.watch.profile.origins import Origins, _operations_of
from tfwatch.watch.profile.recorded import CALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.watch.profile.origins import Origin

pytestmark = pytest.mark.tensorflow


class Counted(keras.metrics.Metric):
    """Its lines are in the file of the training. It makes an operation of its own, and those of
    another metric's class."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.n = self.add_weight(name="n", initializer="zeros")
        self.mean = keras.metrics.Mean(name="inner")

    def update_state(self, y: Any, p: Any, sample_weight: Any = None) -> None:
        self.n.assign_add(keras.ops.sum(keras.ops.erf(p)))
        self.mean.update_state(p)

    def result(self) -> Any:
        return self.n + 0.0


class Adversarial(keras.Model):
    """As keras.io's DCGAN: compiled without an optimizer, with two of its own."""

    def __init__(self) -> None:
        super().__init__(name="both")
        self.one = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="one")

    def compile(self, **optimizers: Any) -> None:
        super().compile()
        self.d_optimizer, self.g_optimizer = optimizers["d"], optimizers["g"]
        self.loss_fn = keras.losses.BinaryCrossentropy()

    def train_step(self, data: Any) -> Any:
        for optimizer in (self.d_optimizer, self.g_optimizer):
            with tf.GradientTape() as tape:
                loss = self.loss_fn(data[1], self.one(data[0]))
            weights = self.one.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


def origins_in(step: Any, model: Any, *, has_graph: bool = True) -> dict[str, Origin]:
    """Return the origin of each operation of a step that computes, by its name."""
    train = tf.function(step, autograph=False)
    graph = train.get_concrete_function(tf.ones((4, 3)), tf.ones((4, 2))).graph
    kinds = ("Const", "Placeholder", "NoOp", "ReadVariableOp", "Identity")
    names = [name for name, one in _operations_of(graph).items() if one.type not in kinds]
    origins = Origins(model, graph if has_graph else None, [f"{CALL}/{name}" for name in names])
    origins._left = len(names)
    return {name: origins.of(f"{CALL}/{name}", "") for name in names}


def parts_in(found: Sequence[Origin], role: str) -> set[tuple[str, str]]:
    return {(one.name, one.kind) for one in found if one.role == role}


def test_metrics_whose_code_is_in_one_file_are_apart() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="net")
    fine = keras.metrics.AUC(name="fine", thresholds=list(np.linspace(0, 1, 50) ** 2))
    positives = keras.metrics.FalsePositives(name="fp")
    given = [positives, fine, Counted("own"), "mae", "cosine_similarity"]
    model.compile("adam", "mse", metrics=given)

    def step(x: Any, y: Any) -> Any:
        return model.train_step((x, y))

    step(tf.ones((4, 3)), tf.ones((4, 2)))
    found = origins_in(step, model)

    assert {
        ("fp", "FalsePositives"),
        ("fine", "AUC"),
        ("own", "Counted"),
        ("mae", "mean_absolute_error"),
        ("cosine_similarity", "cosine_similarity"),
    } <= parts_in([*found.values()], "metric")
    erf = [one for name, one in found.items() if name.startswith("Erf")]
    assert parts_in(erf, "metric") == {("own", "Counted")}
    together = [name for name, _ in parts_in([*found.values()], "metric") if "own" in name]
    assert together == ["own"]


def test_each_optimizer_of_a_model_has_its_own_operations() -> None:
    model = Adversarial()
    adam = keras.optimizers.Adam
    optimizers = {"d": adam(name="d_adam"), "g": keras.optimizers.AdamW(name="g_adam")}
    model.compile(**optimizers)
    for one in optimizers.values():
        one.build(model.one.trainable_weights)

    found = origins_in(lambda x, y: model.train_step((x, y)), model)

    of_scope = {name: one for name, one in found.items() if "adam" in name.partition("/")[0]}
    parts = parts_in([*of_scope.values()], "optimizer")
    assert parts == {("d_adam", "Adam"), ("g_adam", "AdamW")}
    written = {one.variable for one in of_scope.values()} - {""}
    assert written == {one.path for one in model.one.trainable_weights}
    assert parts_in([*found.values()], "loss") >= {("", "binary_crossentropy")}
    assert "rm_sprop" not in {one.name for one in found.values()}


@pytest.mark.parametrize("has_graph", [True, False])
def test_a_loop_of_ones_own_has_an_optimizer_and_a_loss(has_graph: bool) -> None:
    """Where no model is known the optimizers and losses of the process are looked at."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="looped")
    optimizer = keras.optimizers.Adam(name="own_adam")
    optimizer.build(model.trainable_weights)
    loss_fn = keras.losses.CategoricalCrossentropy(from_logits=True, name="own_loss")

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            predicted = model(x)
            inline = keras.losses.BinaryCrossentropy(from_logits=True)(y, predicted)
            loss = loss_fn(y, predicted) + inline
        weights = model.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    found = origins_in(step, None, has_graph=has_graph)

    of_adam = {one for name, one in found.items() if name.startswith("own_adam")}
    assert parts_in([*of_adam], "optimizer") == {("own_adam", "Adam")}
    assert {one.role for one in of_adam} == {"optimizer"}
    losses = {("", "own_loss"), ("", "binary_crossentropy")}
    assert parts_in([*found.values()], "loss") >= losses
    layers = {one.name for one in found.values() if one.role in ("forward", "backward")}
    assert layers <= {"", "dense"} | {layer.name for layer in model.layers}


def test_the_code_of_several_optimizers_names_their_class_alone() -> None:
    """An operation without the scope of one."""
    model = Adversarial()
    adam = keras.optimizers.Adam
    model.compile(d=adam(name="first"), g=adam(name="second"))
    variable = model.one.trainable_weights[0]
    for one in (model.d_optimizer, model.g_optimizer):
        one.build([variable])

    def step(x: Any, y: Any) -> Any:
        model.d_optimizer.update_step(tf.ones((3, 2)), variable, 0.1)
        return x

    found = origins_in(step, model)

    assert parts_in([*found.values()], "optimizer") == {("", "Adam")}
