"""Errors in the user's own file, each as one sentence that names the line."""

from __future__ import annotations

import difflib
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import keras

    from tfwatch.workloads.user.file import UserFile
    from tfwatch.workloads.workload import RaisedError

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
#: A frame in a message of Python or TensorFlow.
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
#: Lines of Keras and TensorFlow around the sentence with the error.
_CONTEXT = re.compile(
    r"Exception encountered when calling|Arguments received by|in user code:|Graph execution error|Detected at node"
    r"|defined at|<stack traces|Traceback \(|File \"|\s|\[\[|\d+ root error|\(\d+\)|$"
)
_NODE = re.compile(
    r"\{\{.*?\}\}\s*|\s*\[Op:.*|Error in user-defined function passed to \S+ transformation with iterator: \S+ "
)
#: An exception's name and message, in a message that quotes another traceback.
_RAISED = re.compile(r"^\s*([A-Za-z_.]*(?:Error|Exception|Exit|Interrupt): .+)$", re.MULTILINE)
_LONGEST = 300


class ErrorLocator:
    """Locates errors in the user's file and in other files of its folder."""

    def __init__(self, file: UserFile) -> None:
        self._file = file
        self._folder = str(file.path.parent)

    def locate(self, error: BaseException) -> str:
        """Return the innermost line of the user's own code in an exception's traceback; empty without one."""
        found = [place for at in _frames(error) if (place := self._place(*at))]
        return found[-1] if found else ""

    def explain(self, raised: RaisedError) -> str:
        """Return the error of a training with a line of the user's code, else with the function that failed."""
        batches = "pipeline" if self._file.has_pipeline else "dataset"
        function, where = (batches, "a batch of") if raised.in_fetch else ("model", "a step of")
        error = raised.error
        at = self.locate(error)
        return (
            f"{at}: {name_error(error)}"
            if at
            else f"{self._file.at(function)}: {where} {function}(): {name_error(error)}"
        )

    def _place(self, path: str, line: int) -> str:
        path = os.path.realpath(path)
        if path == str(self._file.path):
            return f"{self._file.shown}:{line}"
        inner = os.path.relpath(path, self._folder)
        if inner.startswith(os.pardir) or "-packages" in inner or not os.path.isfile(path):
            return ""
        return f"{os.path.join(os.path.dirname(self._file.shown), inner)}:{line}"


def fits(shape: tuple[int, ...] | None, takes: object) -> bool:
    """Return True where a batch fits a model's input shape, in which None is any size, or where either is unknown."""
    if shape is None or not isinstance(takes, tuple) or not all(n is None or isinstance(n, int) for n in takes):
        return True
    return len(shape) == len(takes) and all(n in (None, side) for side, n in zip(shape, takes, strict=True))


#: What `tf.debugging.Assert` puts around its message, e.g. that no file matches the pattern of `list_files`.
_ASSERTED = re.compile(r"^Expected 'tf\.Tensor\([^']{0,80}\)' to be true\. Summarized data: b?['\"](.*)['\"]$")


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield files and lines, outermost first: those of the traceback, then those in TensorFlow's message."""
    for frame in traceback.extract_tb(error.__traceback__):
        yield frame.filename, frame.lineno or 0
    for path, line in _FRAME.findall(str(error)):
        yield path, int(line)


def sentence(error: BaseException) -> str:
    """Return an exception's message in one line, without colours, node names and Keras' context lines."""
    text = _ESCAPES.sub("", str(getattr(error, "message", None) or error))
    quoted = [message for message in _RAISED.findall(text) if message]
    lines = [line.strip() for line in text.splitlines() if not _CONTEXT.match(line)]
    message = quoted[-1] if quoted and 'File "' in text else lines[0] if lines else ""
    message = _ASSERTED.sub(r"\1", message)
    message = _NODE.sub("", message).strip().rstrip(":")
    return (message if len(message) <= _LONGEST else f"{message[:_LONGEST]}...") or type(error).__name__


def name_error(error: BaseException) -> str:
    """Return an exception's name and message; where the message quotes another exception, that one's."""
    message, name = sentence(error), type(error).__name__
    return message if message == name or _RAISED.match(message) else f"{name}: {message}"


#: Names that Keras takes besides those in its table, in upper or lower case: the shapes select one of several.
_BY_SHAPE = {"loss": ("crossentropy", "ce"), "metric": ("accuracy", "acc")}


def unknown_name(model: keras.Model) -> str:
    """Return the first loss or metric of a compiled model whose name Keras does not know; empty without one.

    For example: `loss 'mean_sqared_error', which Keras does not know (is it 'mean_squared_error'?)`. Keras looks names
    up only with the first batch. It knows no custom object by name; such a loss or metric is passed as the object.
    """
    import keras

    metrics = getattr(model, "_compile_metrics", None)
    given = [getattr(metrics, name, None) for name in ("_user_metrics", "_user_weighted_metrics")]
    return _unknown("loss", model.loss, keras.losses.get) or _unknown("metric", given, keras.metrics.get)


def _unknown(kind: str, given: Any, get: Any) -> str:
    """Find an unknown name in `given`: an object, its name, or a structure of them. get: Keras' lookup function."""
    import keras

    table = getattr(sys.modules[get.__module__], "ALL_OBJECTS_DICT", {})
    for name in keras.tree.flatten(given) if table else ():
        if isinstance(name, str) and name not in table and name.lower() not in _BY_SHAPE[kind]:
            near = difflib.get_close_matches(name, table, n=1)
            return f"{kind} {name!r}, which Keras does not know{f' (is it {near[0]!r}?)' if near else ''}"
    return ""
