"""Raise an error of the data as Keras' own train function does, which fetches inside the graph of
its step.

There an error of the fetch ends a step of which the operations that need no batch may have run: on
a CPU, the optimizer has counted it. So Keras' function runs once on an iterator that has nothing to
give, and fails at it as it would have failed at the data; its error also says how TensorFlow words
one of that graph.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_DATA = "the iterator has not been initialized"
#: A graph on a GPU lists two errors, each with its code: that of the fetch, and that of the batch's
#: copy, which waits.
_NO_DATA_ERROR = re.compile(rf"(?P<code>[A-Z_]+:  )?GetNext\(\) failed because {_NO_DATA}.*")
_ERRORS = re.compile(rf"^(?:\d+ root error\(s\) found\.|.*{_NO_DATA})", re.MULTILINE)
_TITLE = "Graph execution error:"
_GRAPH_OPERATION = re.compile(r"\[\[\{\{node (?P<name>.*)\}\}\]\]")
_EAGER_OPERATION = re.compile(r"\s*\[Op:\w+\](?: name:.*)?\s*$")
_FUNCTION = re.compile(r"\{\{function_node .*?\}\} ?")
_NODE = re.compile(r"\{\{node (.*?)\}\}")
_IN_MAP = r"Error in user-defined function passed to \w+:\d+ transformation with iterator: "
#: The words that tfwatch's gate puts before an error of the data below it, and its place (see
#: `live_switch`).
_GATE = re.compile(_IN_MAP + r"Iterator::Root::[\w:\[\]]*Map::TakeWhile::Map: ")
_GATE_PLACE = "\n\t [[IteratorGetNextAsOptional]]"
_WRAPPED = re.compile(r"\{\{function_node __wrapped__\w+[^}]*\}\}")


def fail_in_graph(original: Callable[[Any], Any], iterator: Any, error: tf.errors.OpError) -> None:
    """Run Keras' function as far as the fetch that raised, and word its error as there.

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
        with fails_open(lambda _: None):  # the error keeps its own words
            error._message = _as_in_graph(error.message, _code_of(error), failed.message)


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


def _code_of(error: tf.errors.OpError) -> str:
    names: dict[object, str] = {
        code: name for name, code in vars(tf.errors).items() if name.isupper()
    }
    return names[error.error_code]


def _as_in_graph(message: str, code: str, failed: str) -> str:
    """Return the message of a fetch in the words of the graph that failed, or of its operation.

    code: the name of the error's code.
    """
    operation = _GRAPH_OPERATION.search(failed)
    if not operation:
        return _as_eager(message, failed)
    text = _FUNCTION.sub("", _EAGER_OPERATION.sub("", message)).strip()
    worded, errors = _NO_DATA_ERROR.subn(
        lambda error: f"{code}:  {text}" if error["code"] else text, failed
    )
    nodes = _NODE.findall(text)
    begin = _ERRORS.search(failed)
    if not nodes or not begin:
        return worded
    places = [
        f"Detected at node {node} defined at (most recent call last):\n<stack traces unavailable>"
        for node in nodes
    ]
    body = worded[begin.start() :].replace(operation[0], f"[[{operation['name']}]]")
    return "\n".join([_TITLE, "", *places * errors, body])


def _as_eager(message: str, failed: str) -> str:
    """Return the message with the operation of one that failed op by op: Keras fetches with another
    one."""
    wrapped, operation = _WRAPPED.search(failed), _EAGER_OPERATION.search(failed)
    if not wrapped or not operation:
        return message
    named = _WRAPPED.sub(lambda _: wrapped[0], message, count=1)
    return _EAGER_OPERATION.sub(lambda _: operation[0], named)
