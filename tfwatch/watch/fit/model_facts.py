"""The facts of a model that cost or save time, read once as its first `fit` begins: a
millisecond, and nothing of the model changes; and frozen layers that still train."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import keras

from tfwatch.core.events import MOST_NAMES, TrainableIgnored
from tfwatch.runs.format import (
    LONGEST_NAME,
    MOST_LAYERS,
    Embedding,
    Layer,
    ModelFacts,
    RecurrentLayer,
    ThresholdMetric,
)
from tfwatch.watch.fit.stepping.kept_traces import find_kept, keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tfwatch.runs.writer import RunWriter

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
        without_cudnn=[*_without_cudnn(layers)][:MOST_LAYERS],
        float16_convolutions=_those(layers, _is_float16_convolution),
        preprocessing=_those(layers, _preprocesses_images),
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
    found = [layer for layer in layers if isinstance(layer, keras.layers.Embedding)]
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


def _is_float16_convolution(layer: Any) -> bool:
    return isinstance(layer, _CONVOLUTIONS) and layer.compute_dtype == "float16"


def _preprocesses_images(layer: Any) -> bool:
    return any(kind.__name__ == "BaseImagePreprocessingLayer" for kind in type(layer).__mro__)


def _threshold_metrics(model: Any) -> Iterator[ThresholdMetric]:
    """Yield the metrics with thresholds that are not evenly spaced: Keras counts evenly spaced ones
    in buckets (`update_confusion_matrix_variables`, keras/src/metrics/metrics_utils.py)."""
    for metric in _metrics_given(model):
        if not getattr(metric, "_thresholds_distributed_evenly", True):
            yield ThresholdMetric(*_named(str(metric.name), metric), len(metric.thresholds))


def _metrics_given(model: Any) -> list[Any]:
    """Return the metrics that `compile` was given: `model.metrics` has them from the first step on
    only."""
    given = getattr(model, "_compile_metrics", None)
    both = [getattr(given, name, None) for name in ("_user_metrics", "_user_weighted_metrics")]
    return [one for one in keras.tree.flatten(both) if isinstance(one, keras.metrics.Metric)]


# -- recurrent layers ------------------------------------------------------------------------------


def _without_cudnn(layers: dict[str, Any]) -> Iterator[RecurrentLayer]:
    """Yield the recurrent layers that cuDNN cannot compute."""
    for path, layer in layers.items():
        if against := _against_cudnn(layer):
            yield RecurrentLayer(*_named(path, layer), against)


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


# -- layers whose `trainable` changed since the step was traced ------------------------------------
#
# Keras reads it in the trace of its `train_step` alone: until `compile` a frozen layer still
# trains, and one that is no longer frozen does not ("Recommended workflow when changing trainable
# variables", `Trainer.compile` of Keras 3.15).


class TrainedVariables:
    """The variables that a trace trains, and all of its model."""

    def __init__(self, model: Any) -> None:
        self._trained = {id(one) for one in model.trainable_variables}
        self._all = {id(one) for one in model.variables}

    def changed_since(self, model: Any) -> tuple[list[str], list[str]]:
        """Return the layers that the trace trains and that are not trainable now, and those that
        are trainable now and that the trace does not train."""
        now = {id(one): one for one in model.trainable_variables}
        if now.keys() == self._trained:
            return [], []
        frozen, unfrozen = self._trained - now.keys(), self._all - self._trained
        return (
            _layers_of(one for one in model.variables if id(one) in frozen),
            _layers_of(one for key, one in now.items() if key in unfrozen),
        )


def _layers_of(variables: Iterable[Any]) -> list[str]:
    paths = (str(one.path).rpartition("/")[0] for one in variables)
    return list(dict.fromkeys(paths))[:MOST_NAMES]


def note_trained(
    model: Any, function: Callable[[Any], Any], spec: object, writer: RunWriter, *, is_traced: bool
) -> None:
    """Keep with a train function what its trace trains, and report what changed since.

    is_traced: an earlier `fit` traced the step for this structure of batches. A `train_step` of the
    script's own may freeze layers by itself.
    """
    if type(model).train_step is not keras.Model.train_step:
        return
    known = find_kept(function, TrainedVariables, spec) if is_traced else None
    if known is None:
        keep(function, TrainedVariables(model), spec)
        return
    frozen, unfrozen = known.changed_since(model)
    if frozen or unfrozen:
        writer.event(TrainableIgnored(writer.now_ns(), frozen, unfrozen))
