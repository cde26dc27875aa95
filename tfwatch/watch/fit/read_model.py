"""Read the facts of a model that `fit` begins to train."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import keras

from tfwatch.core.model_facts import LONGEST_NAME, MOST_CLASSES, Embedding, ModelFacts

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_model(model: Any) -> ModelFacts:
    """Return the facts of a model.

    Raises:
        Exception: an attribute of the model is missing, or its own code raises.
    """
    layers = list(model._flatten_layers(include_self=False))
    optimizer = getattr(model, "optimizer", None)
    return ModelFacts(
        optimizer=_class_of(optimizer) if optimizer is not None else "",
        jit_compile=bool(model.jit_compile),
        run_eagerly=bool(model.run_eagerly),
        steps_per_execution=int(model.steps_per_execution or 1),
        dtype_policy=str(model.dtype_policy.name)[:LONGEST_NAME],
        parameters=_count_parameters(model) if model.built else None,
        largest_embedding=_largest_embedding(layers),
        layers=dict(Counter(map(_class_of, layers)).most_common(MOST_CLASSES)),
        metrics=_metrics_of(model),
    )


def _class_of(value: object) -> str:
    return type(value).__name__[:LONGEST_NAME]


def _count_parameters(model: Any) -> int:
    return sum(math.prod(variable.shape) for variable in model.variables)


def _largest_embedding(layers: Iterable[Any]) -> Embedding | None:
    found = [layer for layer in layers if isinstance(layer, keras.layers.Embedding)]
    if not found:
        return None
    largest = max(found, key=lambda layer: layer.input_dim * layer.output_dim)
    name = str(largest.name)[:LONGEST_NAME]
    return Embedding(name, int(largest.input_dim), int(largest.output_dim))


def _metrics_of(model: Any) -> list[str]:
    """Return the metrics that `compile` was given: classes, or names as they were given."""
    compiled = getattr(model, "_compile_metrics", None)
    given = keras.tree.flatten(compiled._user_metrics) if compiled else []
    names = (one if isinstance(one, str) else _class_of(one) for one in given if one is not None)
    return [name[:LONGEST_NAME] for name in names][:MOST_CLASSES]
