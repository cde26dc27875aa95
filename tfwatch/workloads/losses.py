"""Losses by their names, as a file's `compile()` gives them: Keras looks them up with the first batch."""

from __future__ import annotations

import difflib
from typing import Any


def unknown_loss(losses: Any) -> str:
    """`'msee', which is no loss of Keras' (is it 'mse'?)`: the first name that Keras does not know; empty without one.

    losses: what `compile(loss=...)` was given: a name, a function, or a structure of them.
    """
    import keras
    import tensorflow as tf

    for name in tf.nest.flatten(losses):
        if not isinstance(name, str):
            continue
        try:
            keras.losses.get(name)
        except ValueError:
            known = [one for one in dir(keras.losses) if not one.startswith("_")]
            near = difflib.get_close_matches(name, known, n=1)
            return f"{name!r}, which is no loss of Keras'{f' (is it {near[0]!r}?)' if near else ''}"
    return ""
