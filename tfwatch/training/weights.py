"""The weights that a restart keeps: Keras' own file of weights, and the optimizer's state where it is the same one."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import TYPE_CHECKING, Any

import h5py
import keras
import tensorflow as tf

from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from pathlib import Path

#: An attribute of the file: the optimizer's class, and that of the one inside it.
_OPTIMIZER = "tfwatch_optimizer"
#: Characters of what Keras says of a file that does not fit.
_LONGEST = 300


def save(model: Any, path: Path) -> None:
    """Write a model's weights and its optimizer's state; a file that is there is replaced once this one is whole.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f"part-{os.getpid()}.weights.h5")
    try:
        model.save_weights(part, overwrite=True)
        with h5py.File(part, "a") as file:
            file.attrs[_OPTIMIZER] = _named(model.optimizer)
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def restore(model: Any, path: Path, spec: Any) -> str:
    """Give a compiled model what `save` wrote; the learning rate stays as the model was compiled. Returns a sentence.

    spec: what its batches look like, for a model that is built by its first one.

    Raises:
        BadInputError: the file cannot be read, or is of another model.
    """
    optimizer = model.optimizer
    try:
        _build(model, spec)
        with h5py.File(path) as file:
            is_same = file.attrs.get(_OPTIMIZER) == _named(optimizer)
        if is_same:
            optimizer.build(model.trainable_variables)
        before = [keras.ops.convert_to_numpy(variable) for variable in optimizer.variables]
        rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the state of another optimizer is skipped is told in a sentence
            model.load_weights(path)
    except Exception as error:  # layers load themselves, the user's too, and from any file
        name = os.path.join(*path.parts[-2:])
        raise BadInputError(f"{name} holds no weights of this model: {_said(error)}") from error
    if not is_same:
        for variable, value in zip(optimizer.variables, before, strict=True):
            variable.assign(value)
        return (
            f"begins with the weights of {path.parent.name or path.name}; the optimizer begins anew: it is another one"
        )
    with contextlib.suppress(TypeError):  # a schedule goes on where it was
        optimizer.learning_rate = rate
    return f"begins with the weights of {path.parent.name or path.name}, and with its optimizer's state"


def _build(model: Any, spec: Any) -> None:
    if not model.built:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(spec)
        model(tf.nest.map_structure(lambda leaf: tf.zeros([n or 1 for n in leaf.shape], leaf.dtype), x), training=False)


def _named(optimizer: Any) -> str:
    inner = getattr(optimizer, "inner_optimizer", None)
    return f"{type(optimizer).__name__}/{type(inner).__name__}" if inner is not None else type(optimizer).__name__


def _said(error: Exception) -> str:
    """What was raised, in one line; Keras lists every layer after its example."""
    words = " ".join(str(error).partition("List of objects")[0].split())
    return words[:_LONGEST] or type(error).__name__
