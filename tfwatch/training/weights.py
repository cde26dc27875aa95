"""Save and restore weights for a restart: Keras' weights file, and the optimizer's state if it is the same one."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import TYPE_CHECKING, Any

import h5py
import keras

from tfwatch.core.errors import BadInputError

if TYPE_CHECKING:
    from pathlib import Path

#: An attribute of the file: the classes of the optimizer and of its inner optimizer.
_OPTIMIZER = "tfwatch_optimizer"
#: The largest number of characters of Keras' error message.
_MAX_CHARACTERS = 300


def save(model: Any, path: Path) -> None:
    """Save a model's weights and its optimizer's state; an existing file is replaced once the new one is complete.

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


def restore(model: Any, path: Path) -> str:
    """Restore what `save` wrote into a compiled model, except its learning rate. Return a sentence for the user.

    Raises:
        BadInputError: the file cannot be read, or belongs to another model.
    """
    optimizer = model.optimizer
    try:
        with h5py.File(path) as file:
            is_same = file.attrs.get(_OPTIMIZER) == _named(optimizer)
        if is_same:
            optimizer.build(model.trainable_variables)
        before = [keras.ops.convert_to_numpy(variable) for variable in optimizer.variables]
        rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # the returned sentence reports a skipped optimizer state
            model.load_weights(path)
    except Exception as error:  # layers load themselves, from any file
        name = os.path.join(*path.parts[-2:])
        raise BadInputError(f"{name} does not fit this model: {_one_line(error)}") from error
    if not is_same:
        for variable, value in zip(optimizer.variables, before, strict=True):
            variable.assign(value)
        return f"starts with the weights of {path.parent.name or path.name}; the optimizer is another one and is reset"
    optimizer.learning_rate = rate
    return f"starts with the weights and the optimizer state of {path.parent.name or path.name}"


def _named(optimizer: Any) -> str:
    inner = getattr(optimizer, "inner_optimizer", None)
    return (
        f"{type(optimizer).__name__}/{type(inner).__name__}"
        if inner is not None
        else type(optimizer).__name__
    )


def _one_line(error: Exception) -> str:
    """Return an error in one line, without the layers that Keras lists after its example."""
    words = " ".join(str(error).partition("List of objects")[0].split())
    return words[:_MAX_CHARACTERS] or type(error).__name__
