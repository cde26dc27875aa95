"""Raise an error of the data as Keras' own train function does, which fetches inside the graph of
its step.

There an error of the fetch ends a step of which the operations that need no batch may have run: on
a CPU, the optimizer has counted it. So Keras' function runs once on an iterator that has nothing to
give, and fails at it as it would have failed at the data. The error that is raised is that of the
fetch, in its own words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_DATA = "the iterator has not been initialized"
_IN_MAP = r"Error in user-defined function passed to \w+:\d+ transformation with iterator: "
#: The words that tfwatch's gate puts before an error of the data below it, and its place (see
#: `live_switch`).
_GATE = re.compile(_IN_MAP + r"Iterator::Root::[\w:\[\]]*Map::TakeWhile::Map: ")
_GATE_PLACE = "\n\t [[IteratorGetNextAsOptional]]"


def fail_in_graph(original: Callable[[Any], Any], iterator: Any, _: tf.errors.OpError) -> None:
    """Run Keras' function as far as the fetch that raised.

    Raises:
        Exception: of the step's Python, if no batch came before: Keras traces the step before it
        fetches.
    """
    empty: list[Any] = []
    with fails_open(
        lambda _: None
    ):  # without a stand-in the error keeps its own words, and the caller raises it
        empty.append(_without_data(iterator))
    try:
        for stand_in in empty:
            original(stand_in)
    except tf.errors.FailedPreconditionError as failed:
        if _NO_DATA not in failed.message:
            raise


def without_gate(message: str) -> str:
    """Return the message of a fetch through tfwatch's gate, as of the pipeline below it."""
    below, gated = _GATE.subn("", message, count=1)
    return below.replace(_GATE_PLACE, "", 1) if gated else message


def _without_data(iterator: tf.data.Iterator) -> tf.data.Iterator:
    """Return an iterator of the same elements, so that no function is traced for it, over no data
    set."""
    shapes = iterator._flat_output_shapes
    with tf.device("/CPU:0"):
        resource = tf.raw_ops.AnonymousIteratorV3(
            output_types=iterator._flat_output_types, output_shapes=shapes
        )
    return type(iterator)(components=[resource], element_spec=iterator.element_spec)
