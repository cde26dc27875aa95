"""The facts of a model that cost or save time, read once as its first `fit` begins: a
millisecond, and nothing of the model changes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import keras

from tfwatch.runs.format import (
    LONGEST_NAME,
    MOST_LAYERS,
    Embedding,
    Layer,
    ModelFacts,
    RecurrentLayer,
    ThresholdMetric,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_CONVOLUTIONS = tuple(
    kind for name, kind in vars(keras.layers).items() if "Conv" in name and "LSTM" not in name
)


def read_model(model: Any) -> ModelFacts:
    """Return the facts of a model.

    Raises:
        Exception: an attribute of the model is missing, or its own code raises.
    """
    optimizer = getattr(model, "optimizer", None)
    layers = dict(_layers(model))
    return ModelFacts(
        optimizer="" if optimizer is None else type(optimizer).__name__[:LONGEST_NAME],
        jit_compile=bool(model.jit_compile),
        largest_embedding=_largest_embedding(layers.values()),
        without_cudnn=[
            RecurrentLayer(*_named(path, layer), against)
            for path, layer in layers.items()
            if (against := _against_cudnn(layer))
        ][:MOST_LAYERS],
        float16_convolutions=_those(
            layers,
            lambda one: isinstance(one, _CONVOLUTIONS) and one.compute_dtype == "float16",
        ),
        preprocessing=_those(
            layers,
            lambda one: (
                "BaseImagePreprocessingLayer" in {kind.__name__ for kind in type(one).__mro__}
            ),
        ),
        threshold_metrics=[*_threshold_metrics(model)][:MOST_LAYERS],
    )


def _layers(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield each layer with its path, e.g. `encoder/lstm`, those that hold others before them."""
    waiting, seen = deque([("", model)]), set[int]()
    while waiting:
        path, layer = waiting.popleft()
        for inner in layer._flatten_layers(include_self=False, recursive=False):
            if id(inner) not in seen:
                seen.add(id(inner))
                name = f"{path}/{inner.name}" if path else str(inner.name)
                yield name, inner
                waiting.append((name, inner))


def _largest_embedding(layers: Iterable[Any]) -> Embedding | None:
    """Return the largest one that is trained whole: no update touches a frozen table, nor one whose
    LoRA is trained."""
    found = [
        layer
        for layer in layers
        if isinstance(layer, keras.layers.Embedding)
        and layer.trainable
        and not getattr(layer, "lora_enabled", False)
    ]
    if not found:
        return None
    largest = max(found, key=lambda layer: layer.input_dim * layer.output_dim)
    name = str(largest.name)[:LONGEST_NAME]
    return Embedding(name, int(largest.input_dim), int(largest.output_dim))


def _named(path: str, layer: Any) -> tuple[str, str]:
    return path[-LONGEST_NAME:], type(layer).__name__[:LONGEST_NAME]


def _those(layers: dict[str, Any], wanted: Callable[[Any], bool]) -> list[Layer]:
    found = [Layer(*_named(path, layer)) for path, layer in layers.items() if wanted(layer)]
    return found[:MOST_LAYERS]


def _threshold_metrics(model: Any) -> Iterator[ThresholdMetric]:
    """Yield the metrics with thresholds that are not evenly spaced: Keras counts evenly spaced ones
    in buckets (`update_confusion_matrix_variables`, keras/src/metrics/metrics_utils.py)."""
    # Of those that `compile` was given: `model.metrics` has them from the first step on only.
    given = getattr(model, "_compile_metrics", None)
    both = [getattr(given, name, None) for name in ("_user_metrics", "_user_weighted_metrics")]
    for metric in keras.tree.flatten(both):
        is_even = getattr(metric, "_thresholds_distributed_evenly", True)
        if isinstance(metric, keras.metrics.Metric) and not is_even:
            yield ThresholdMetric(*_named(str(metric.name), metric), len(metric.thresholds))


# -- recurrent layers ------------------------------------------------------------------------------


def _against_cudnn(layer: Any) -> list[str]:
    """Return the arguments of a layer with which Keras leaves cuDNN out, e.g. `unroll=True`.

    By Keras 3.15: `LSTM.inner_loop` and `GRU.inner_loop` (keras/src/layers/rnn/lstm.py, gru.py) ask
    for cuDNN unless `use_cudnn` is False or there is recurrent dropout;
    `_do_lstm_arguments_support_cudnn` and `_do_gru_arguments_support_cudnn`
    (keras/src/backend/tensorflow/rnn.py) have the rest. A mask that is not padded on the right is
    an error there, and element types rule nothing out. `RNN` itself never asks.
    """
    cell: Any = getattr(layer, "cell", None)
    is_base = type(layer) is keras.layers.RNN and isinstance(
        cell, (keras.layers.LSTMCell, keras.layers.GRUCell)
    )
    if not is_base and not isinstance(layer, (keras.layers.LSTM, keras.layers.GRU)):
        return []
    rules = {
        f"RNN({type(cell).__name__})": is_base,
        "use_cudnn=False": getattr(layer, "use_cudnn", "auto") not in ("auto", True),
        f"recurrent_dropout={cell.recurrent_dropout}": cell.recurrent_dropout,
        f"activation={_name(cell.activation)}": not _is(cell.activation, "tanh"),
        f"recurrent_activation={_name(cell.recurrent_activation)}": not _is(
            cell.recurrent_activation, "sigmoid"
        ),
        "unroll=True": layer.unroll,
        "use_bias=False": not cell.use_bias,
        "reset_after=False": not getattr(cell, "reset_after", True),
    }
    return [argument[:LONGEST_NAME] for argument, holds in rules.items() if holds]


def _is(function: Any, name: str) -> bool:
    """Return whether a function is one that Keras takes for this activation of cuDNN's."""
    import tensorflow as tf

    return function in [getattr(module, name) for module in (keras.activations, tf, keras.ops)]


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
