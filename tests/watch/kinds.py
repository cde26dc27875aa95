"""The kinds of `fit` under test: data, model and options."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

EXAMPLES, BATCH, EPOCHS = 100, 8, 2
STEPS = -(-EXAMPLES // BATCH)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(EXAMPLES, 6)).astype("float32"), RNG.integers(0, 4, EXAMPLES)
#: Time series of one channel, images, and rows of words of which 0 is padding.
SERIES = np.linspace(-1, 1, EXAMPLES * 12, dtype="float32").reshape(EXAMPLES, 12, 1)
IMAGES = RNG.normal(size=(EXAMPLES, 6, 6, 4)).astype("float32")
WORDS = RNG.integers(0, 20, (EXAMPLES, 10))


# -- data ------------------------------------------------------------------------------------------


def known(x: Any = X) -> Any:
    """The last of its batches is ragged."""
    return tf.data.Dataset.from_tensor_slices((x, Y)).shuffle(50, seed=1).batch(BATCH)


def whole(x: Any = X) -> Any:
    """Without the ragged batch, for which XLA compiles again."""
    return known(x).take(STEPS - 1)


def unknown(x: Any = X) -> Any:
    return known(x).filter(lambda x, y: True)


def endless() -> Any:
    return known().repeat()


def from_generator(x: Any = X) -> Any:
    signature = (tf.TensorSpec((None, *x.shape[1:]), x.dtype), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(
        lambda: python_generator(x, rounds=1), output_signature=signature
    )


def python_generator(x: Any = X, rounds: int = 1000) -> Iterator[Any]:
    for _ in range(rounds):
        for at in range(0, EXAMPLES, BATCH):
            yield x[at : at + BATCH], Y[at : at + BATCH]


def py_dataset(**workers: int) -> Any:
    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return STEPS

        def __getitem__(self, n: int) -> Any:
            return X[n * BATCH : (n + 1) * BATCH], Y[n * BATCH : (n + 1) * BATCH]

    return Batches(**workers)


def of_dicts() -> Any:
    return known().map(lambda x, y: ({"left": x[:, :3], "right": x[:, 3:]}, y))


def arrays(x: Any = X) -> Any:
    return x, Y


# -- models ----------------------------------------------------------------------------------------


def body(x: Any) -> Any:
    """Return a model with batch norm and dropout, whose weights differ first when a step
    differs."""
    x = keras.layers.Dropout(0.2)(keras.layers.BatchNormalization()(x))
    return keras.layers.Dense(1, dtype="float32")(x)


def plain() -> Any:
    x = keras.Input((6,))
    return keras.Model(x, body(x))


def two_inputs() -> Any:
    sides = {name: keras.Input((3,), name=name) for name in ("left", "right")}
    return keras.Model(sides, body(keras.layers.Concatenate()([sides["left"], sides["right"]])))


def mixed(make: Callable[[], Any] = plain) -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return make()
    finally:
        keras.config.set_dtype_policy(before)


def attention() -> Any:
    """A transformer's block over one channel: grappler rewrites its sums by the shapes that it
    knows."""
    x = keras.Input((12, 1))
    seen = keras.layers.MultiHeadAttention(num_heads=2, key_dim=8)(x, x)
    seen = keras.layers.LayerNormalization()(seen) + x
    pooled = keras.layers.GlobalAveragePooling1D(data_format="channels_first")(seen)
    return keras.Model(x, keras.layers.Dense(1)(pooled))


def recurrent() -> Any:
    x = keras.Input((12, 1))
    return keras.Model(x, body(keras.layers.LSTM(3, dropout=0.1)(keras.layers.Masking(-1.0)(x))))


def normalising() -> Any:
    x = keras.Input((6, 6, 4))
    out = keras.layers.SpectralNormalization(keras.layers.Conv2D(4, 3))(x)
    out = keras.layers.GroupNormalization(2)(out)
    if hasattr(keras.layers, "RMSNormalization"):  # Keras 3.8 has none
        out = keras.layers.RMSNormalization()(out)
    out = keras.layers.LayerNormalization()(out)
    return keras.Model(x, body(keras.layers.UnitNormalization()(keras.layers.Flatten()(out))))


def embedding() -> Any:
    """Its gradients are `IndexedSlices`."""
    x = keras.Input((10,), dtype="int64")
    words = keras.layers.Embedding(20, 4, mask_zero=True)(x)
    return keras.Model(x, body(keras.layers.GlobalAveragePooling1D()(words)))


def grouped() -> Any:
    """A CPU has the gradient of a convolution in groups with XLA only."""
    x = keras.Input((6, 6, 4))
    out = keras.layers.DepthwiseConv2D(2)(keras.layers.Conv2D(8, 3, groups=4, activation="relu")(x))
    return keras.Model(x, body(keras.layers.GlobalMaxPooling2D()(out)))


def own_step() -> Any:
    """Return a model with its own `train_step`: another loss, a clipped gradient, and a metric
    outside Keras."""

    class Model(keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                predicted = self(x, training=True)
                loss = self.compute_loss(x=x, y=y, y_pred=predicted) + 0.1
            weights = self.trainable_variables
            gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, weights), 0.5)
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return {**self.compute_metrics(x, y, predicted), "loss": loss, "norm": norm}

    x = keras.Input((6,))
    return Model(x, body(x))


def unbuilt() -> Any:
    """Return a model whose first step creates its weights."""
    layers = keras.layers
    hidden = [layers.Dense(8, activation="relu"), layers.BatchNormalization(), layers.Dropout(0.2)]
    return keras.Sequential([*hidden, layers.Dense(1, dtype="float32")])


# -- ways of fit -----------------------------------------------------------------------------------


def once(model: Any, data: Any, options: dict[str, Any], callbacks: list[Any]) -> Any:
    data = data if isinstance(data, tuple) else (data,)
    return model.fit(*data, verbose=0, callbacks=callbacks, **{"epochs": EPOCHS, **options})


def again_and_again(model: Any, data: Any, options: dict[str, Any], callbacks: list[Any]) -> Any:
    for _ in range(options.get("epochs", EPOCHS)):
        history = once(model, data, {**options, "epochs": 1}, callbacks)
    return history


def compiled_in_between(
    model: Any, data: Any, options: dict[str, Any], callbacks: list[Any]
) -> Any:
    once(model, data, options, callbacks)
    model.compile("sgd", "mse", steps_per_execution=2)
    return once(model, data, options, callbacks)


def raised_in_between(model: Any, data: Any, options: dict[str, Any], callbacks: list[Any]) -> Any:
    """Raise in the first epoch, or the last of so many; then call `fit` again without callbacks."""
    at = itertools.count(1)
    last = STEPS * (options.get("epochs", 1) - 1) + 6

    def fail(batch: int, logs: Any) -> None:
        if next(at) == last:
            raise RuntimeError("a callback of the user's")

    failing = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
    with pytest.raises(RuntimeError, match="a callback"):
        once(model, data, options, [*callbacks, failing])
    return once(model, data, options, [])


def early_stopping(patience: int = 1) -> list[Any]:
    stopping = partial(keras.callbacks.EarlyStopping, "loss", min_delta=10)
    return [stopping(patience=patience, restore_best_weights=True)]


def several() -> list[Any]:
    return [
        keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, min_delta=10, patience=1),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        keras.callbacks.TerminateOnNaN(),
    ]


@dataclass(frozen=True)
class Kind:
    """A kind of `fit`.

    split: Watch's. steps: of the last recorded run. rows: the run's description of their timing.
    deterministic: TensorFlow's determinism is on; then nothing
    is compiled by XLA, and no graph may read TensorFlow's clock. built: the optimizer and the
    metric have their variables; else the first step makes them, and TensorFlow traces it twice.
    optimizer: SGD, which has least to trace; RMSprop where the first step makes variables, or
    gradients are of another kind.
    """

    name: str
    data: Callable[[], Any] = known
    options: dict[str, Any] = field(default_factory=dict)
    model: Callable[[], Any] = plain
    compile: dict[str, Any] = field(default_factory=dict)
    fit: Callable[..., Any] = once
    callbacks: Callable[[], list[Any]] = list
    steps: int = EPOCHS * STEPS
    rows: str = "exact"
    deterministic: bool = True
    built: bool = True
    optimizer: str = "sgd"


def in_graph(steps: int, **options: Any) -> dict[str, Any]:
    compiled = {"steps_per_execution": steps, **options}
    return {"compile": compiled, "rows": f"in-graph timestamps, steps_per_execution={steps}"}


def one_by_one(steps: int, **options: Any) -> dict[str, Any]:
    compiled = {"steps_per_execution": steps, **options}
    return {
        "compile": compiled,
        "rows": f"exact, steps_per_execution={steps} one by one",
    }


BY_STEPS: dict[str, Any] = {"steps_per_epoch": STEPS}
#: Arrays of which the last fifth are for validation.
SPLIT_ARRAYS: dict[str, Any] = {"batch_size": BATCH, "validation_split": 0.2}
SPLIT_STEPS = 10
JIT: dict[str, Any] = {"compile": {"jit_compile": True}, "deterministic": False}
UNBUILT: dict[str, Any] = {"built": False, "optimizer": "rmsprop"}
KINDS = [
    Kind("unknown cardinality", unknown),
    Kind("steps_per_epoch", endless, {"steps_per_epoch": 10}, steps=EPOCHS * 10),
    Kind("PyDataset", py_dataset),
    Kind("PyDataset with workers", partial(py_dataset, workers=2)),
    Kind(
        "dict inputs, early stopping",
        of_dicts,
        {"epochs": 4},
        two_inputs,
        callbacks=early_stopping,
        steps=2 * STEPS,
    ),
    Kind(
        "known cardinality, ragged last batch, class_weight, validation data, several callbacks",
        options={"class_weight": {0: 1.0, 1: 2.0, 2: 1.0, 3: 0.5}, "validation_data": (X, Y)},
        callbacks=several,
    ),
    Kind("overridden train_step", model=own_step, **UNBUILT),
    Kind("mixed precision, unbuilt model", model=partial(mixed, unbuilt), **UNBUILT),
    Kind(
        "attention, arrays",
        partial(arrays, SERIES),
        SPLIT_ARRAYS,
        model=attention,
        steps=EPOCHS * SPLIT_STEPS,
    ),
    Kind("attention, generator", partial(python_generator, SERIES), BY_STEPS, model=attention),
    Kind("recurrent, data set from a generator", partial(from_generator, SERIES), model=recurrent),
    Kind("normalising", partial(unknown, IMAGES), model=normalising),
    Kind(
        "embedding, sample_weight",
        partial(arrays, WORDS),
        {"batch_size": BATCH, "sample_weight": np.linspace(0.5, 2, EXAMPLES)},
        model=embedding,
        optimizer="rmsprop",
    ),
    Kind(
        "grouped convolution, jit_compile",
        partial(whole, IMAGES),
        model=grouped,
        steps=EPOCHS * (STEPS - 1),
        **JIT,
    ),
    Kind(
        "mixed precision, unbuilt model, ragged last batch, jit_compile",
        arrays,
        {"batch_size": BATCH},
        partial(mixed, unbuilt),
        **JIT,
        **UNBUILT,
    ),
    Kind("run_eagerly", compile={"run_eagerly": True}, **UNBUILT),
    Kind("fit again and again", fit=again_and_again, steps=STEPS),
    Kind(
        "compile in between",
        fit=compiled_in_between,
        optimizer="rmsprop",
        steps=2 * STEPS,
        rows=in_graph(2)["rows"],
    ),
    Kind(
        "an exception in mid-epoch and a bare fit after it",
        fit=raised_in_between,
        steps=6,
    ),
    Kind("steps_per_execution 3", **in_graph(3), deterministic=False, **UNBUILT),
    Kind(
        "steps_per_execution 3, unknown cardinality, overridden train_step",
        unknown,
        model=own_step,
        **in_graph(3),
    ),
    Kind(
        "steps_per_execution 3, mixed precision, unbuilt model",
        model=partial(mixed, unbuilt),
        **in_graph(3),
        **UNBUILT,
    ),
    Kind(
        "steps_per_execution 3, attention, arrays",
        partial(arrays, SERIES),
        SPLIT_ARRAYS,
        model=attention,
        steps=EPOCHS * SPLIT_STEPS,
        **in_graph(3),
    ),
    Kind(
        "steps_per_execution 3, embedding",
        partial(from_generator, WORDS),
        model=embedding,
        **in_graph(3),
    ),
    Kind("steps_per_execution 10", **in_graph(10)),
    Kind(
        "steps_per_execution 10, steps_per_epoch",
        endless,
        {"steps_per_epoch": 20},
        steps=EPOCHS * 20,
        **in_graph(10),
    ),
    Kind(
        "steps_per_execution 10, jit_compile",
        whole,
        steps=EPOCHS * (STEPS - 1),
        deterministic=False,
        **in_graph(10, jit_compile=True),
    ),
    Kind("steps_per_execution 3, run_eagerly", **one_by_one(3, run_eagerly=True)),
]
