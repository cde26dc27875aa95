"""The facts of a model, against what Keras itself does with it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import keras
import numpy as np
import pytest

from tfwatch.runs.format import Embedding, Layer, ThresholdMetric
from tfwatch.watch.fit.model_facts import read_model

pytestmark = pytest.mark.tensorflow

_LAYERS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "plain LSTM": (lambda layers: layers.LSTM(3), []),
    "dropout": (lambda layers: layers.LSTM(3, dropout=0.2, go_backwards=True), []),
    "recurrent dropout": (
        lambda layers: layers.LSTM(3, recurrent_dropout=0.2),
        ["recurrent_dropout=0.2"],
    ),
    "another activation": (lambda layers: layers.GRU(3, activation="relu"), ["activation=relu"]),
    "another gate": (
        lambda layers: layers.LSTM(3, recurrent_activation="hard_sigmoid", unroll=True),
        ["recurrent_activation=hard_sigmoid", "unroll=True"],
    ),
    "no bias": (lambda layers: layers.GRU(3, use_bias=False), ["use_bias=False"]),
    "plain GRU": (lambda layers: layers.GRU(3), []),
    "half precision": (lambda layers: layers.GRU(3, dtype="mixed_float16"), []),
    "reset before": (lambda layers: layers.GRU(3, reset_after=False), ["reset_after=False"]),
    "switched off": (lambda layers: layers.LSTM(3, use_cudnn=False), ["use_cudnn=False"]),
    "base class": (lambda layers: layers.RNN(layers.LSTMCell(3)), ["RNN(LSTMCell)"]),
}


@pytest.mark.parametrize(("make", "against"), [*_LAYERS.values()], ids=[*_LAYERS])
def test_keras_leaves_cudnn_out_by_the_arguments_that_are_named(
    make: Callable[[Any], Any], against: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rnn = import_module("keras.src.backend.tensorflow.rnn")
    asked: list[str] = []

    def on_cudnn(*_: object) -> None:
        asked.append("cuDNN")
        raise NotImplementedError

    monkeypatch.setattr(rnn, "_is_gpu_available", lambda: True)
    monkeypatch.setattr(rnn, "_cudnn_lstm", on_cudnn)
    monkeypatch.setattr(rnn, "_cudnn_gru", on_cudnn)
    model = keras.Sequential([keras.Input((4, 2)), make(keras.layers)])
    model.compile("sgd", "mse")
    asked.clear()
    model(np.zeros((1, 4, 2)), training=True)
    named = [one.against for one in read_model(model).without_cudnn]

    assert named == ([against] if against else [])
    assert asked == ([] if against else ["cuDNN"])


def test_a_layer_has_its_path_in_the_model() -> None:
    lstm = keras.layers.LSTM(2, unroll=True, name="lstm")
    encoder = keras.Sequential(
        [keras.Input((4, 2)), keras.layers.Bidirectional(lstm, name="both")], name="encoder"
    )
    model = keras.Sequential([keras.Input((4, 2)), encoder, keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    names = [one.name for one in read_model(model).without_cudnn]
    assert names == ["encoder/both/forward_lstm", "encoder/both/backward_lstm"]


def test_convolutions_that_compute_in_float16_are_named() -> None:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(2, 3, name="half", dtype="mixed_float16"),
            layers.SeparableConv2D(2, 3, name="whole", dtype="float16"),
            layers.Conv2D(2, 3, dtype="mixed_bfloat16"),
            layers.Conv2D(2, 3),
            layers.Dense(1, dtype="mixed_float16"),
        ]
    )
    model.compile("sgd", "mse")

    found = read_model(model).float16_convolutions
    assert found == [Layer("half", "Conv2D"), Layer("whole", "SeparableConv2D")]


def test_preprocessing_layers_and_metrics_of_uneven_thresholds_are_named() -> None:
    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Rescaling(2.0),
            layers.RandomFlip(name="flip"),
            layers.Flatten(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    uneven = keras.metrics.AUC(thresholds=[0.1, 0.7], name="uneven")
    model.compile("sgd", "mse", metrics=[keras.metrics.AUC(name="even"), "mae", uneven])
    facts = read_model(model)

    assert facts.preprocessing == [Layer("flip", "RandomFlip")]
    assert facts.threshold_metrics == [ThresholdMetric("uneven", "AUC", 4)]


def test_only_a_table_that_is_trained_is_named() -> None:
    """No update of an optimizer touches a frozen one."""
    layers = keras.layers
    frozen, small = layers.Embedding(900, 8, trainable=False), layers.Embedding(30, 8, name="small")
    inputs = keras.Input((4,), dtype="int32")
    tables = layers.Add()([frozen(inputs), small(inputs)])
    model = keras.Model(inputs, layers.Dense(1)(layers.Flatten()(tables)))
    model.compile("adam", "mse")

    assert read_model(model).largest_embedding == Embedding("small", 30, 8)
    small.trainable = False
    assert read_model(model).largest_embedding is None
