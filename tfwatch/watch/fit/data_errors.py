"""Raise an error of the data as Keras' own train function does, which fetches inside the graph of
its step.

There an error of the fetch ends a step of which the operations that need no batch may have run: on
a CPU, the optimizer has counted it. So Keras' function runs once on an iterator that has nothing to
give, and fails at it as it would have failed at the data. The error that is raised is that of the
fetch, in its own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_DATA = "the iterator has not been initialized"


def fail_in_graph(original: Callable[[Any], Any], iterator: Any) -> None:
    """Run Keras' function as far as the fetch that raised.

    Raises:
        Exception: of the step's Python, if no batch came before: Keras traces the step before it
        fetches.
    """
    empty: list[Any] = []
    # Without a stand-in the error keeps its own words, and the caller raises it.
    with fails_open(lambda _: None):
        empty.append(_without_data(iterator))
    try:
        for stand_in in empty:
            original(stand_in)
    except tf.errors.FailedPreconditionError as failed:
        if _NO_DATA not in failed.message:
            raise


def _without_data(iterator: tf.data.Iterator) -> tf.data.Iterator:
    """Return an iterator of the same elements, so that no function is traced for it, over no data
    set."""
    shapes = iterator._flat_output_shapes
    with tf.device("/CPU:0"):
        resource = tf.raw_ops.AnonymousIteratorV3(
            output_types=iterator._flat_output_types, output_shapes=shapes
        )
    return type(iterator)(components=[resource], element_spec=iterator.element_spec)
