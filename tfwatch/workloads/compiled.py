"""Losses and metrics by their names, as a file's `compile()` gives them: Keras looks them up with the first batch."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras

#: What Keras takes beside the names in its table, in any case: which of several is meant, the shapes tell.
_BY_SHAPE = {"loss": ("crossentropy", "ce"), "metric": ("accuracy", "acc")}


def unknown_name(model: keras.Model) -> str:
    """`loss 'mean_sqared_error', which is no loss of Keras' (is it 'mean_squared_error'?)`: the first name that a
    compiled model gives and Keras does not know; empty without one.

    Keras knows no custom object here, registered or not: such a loss or metric is given itself, not its name.
    """
    import keras

    metrics = getattr(model, "_compile_metrics", None)
    given = [getattr(metrics, name, None) for name in ("_user_metrics", "_user_weighted_metrics")]
    return _unknown("loss", model.loss, keras.losses.get) or _unknown("metric", given, keras.metrics.get)


def _unknown(kind: str, given: Any, get: Any) -> str:
    """given: an object, its name, or a structure of them. get: Keras' way to look one up, which would also make it."""
    import keras

    table = getattr(sys.modules[get.__module__], "ALL_OBJECTS_DICT", {})
    for name in keras.tree.flatten(given) if table else ():
        if isinstance(name, str) and name not in table and name.lower() not in _BY_SHAPE[kind]:
            near = difflib.get_close_matches(name, table, n=1)
            return f"{kind} {name!r}, which is no {kind} of Keras'{f' (is it {near[0]!r}?)' if near else ''}"
    return ""
