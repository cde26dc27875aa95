"""The facts of a `fit` that begins: its model, and the data that it was given."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import keras

from tfwatch.core.model_facts import LONGEST_NAME, MOST_CLASSES, Embedding, ModelFacts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

#: Frames between a callback and the `fit` that calls it; Keras and tfwatch have a few each.
_MOST_FRAMES = 20
_PY_DATASET = "PyDataset"
#: The kinds of data by the module of Keras' adapter.
_KINDS = {
    "array_data_adapter": "arrays",
    "generator_data_adapter": "generator",
    "py_dataset_adapter": _PY_DATASET,
    "tf_dataset_adapter": "tf.data",
}


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


def describe_data(frame: FrameType | None) -> dict[str, Any]:
    """Return the entries of the manifest for the data of the `fit` that calls this frame."""
    epochs = _find_epochs(frame)
    adapter = getattr(epochs, "data_adapter", None)
    kind = _KINDS.get(type(adapter).__module__.rpartition(".")[2], "")
    entries: dict[str, Any] = {"data": kind, "py_workers": None, "py_processes": False}
    if adapter is not None and kind == _PY_DATASET:
        dataset = adapter.py_dataset
        entries["py_workers"] = int(dataset.workers)
        entries["py_processes"] = bool(dataset.use_multiprocessing)
    return entries


def _find_epochs(frame: FrameType | None) -> Any | None:
    """Return Keras' epochs of the `fit` that calls; None where it is another's."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_name == "fit" and "epoch_iterator" in frame.f_code.co_varnames:
            return frame.f_locals.get("epoch_iterator")
        frame = frame.f_back
    return None
