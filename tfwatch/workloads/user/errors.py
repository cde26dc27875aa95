"""Errors in a user's file as one sentence that names the line.

What went wrong in a file of the user's own, in a sentence that names the line.

Losses and metrics by their names, as a file's `compile()` gives them: Keras looks them up with the first batch.
"""

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
#: A frame, as Python and TensorFlow print it into messages.
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
#: Lines that Keras and TensorFlow put around the sentence that says what is wrong.
_AROUND = re.compile(
    r"Exception encountered when calling|Arguments received by|in user code:|Graph execution error|Detected at node"
    r"|defined at|<stack traces|Traceback \(|File \"|\s|\[\[|\d+ root error|\(\d+\)|$"
)
_NODE = re.compile(
    r"\{\{.*?\}\}\s*|\s*\[Op:.*|Error in user-defined function passed to \S+ transformation with iterator: \S+ "
)
#: An exception's name before its message, in a message that holds another's traceback.
_RAISED = re.compile(r"^\s*([A-Za-z_.]*(?:Error|Exception|Exit|Interrupt): .+)$", re.MULTILINE)
_LONGEST = 300


class ErrorLocator:
    """Lines of a file and of others in its folder."""

    def __init__(self, file: UserFile) -> None:
        self._file = file
        self._folder = str(file.path.parent)

    def frame(self, error: BaseException) -> str:
        """The innermost of the user's own lines that an exception went through; empty where it met none."""
        found = [place for at in _frames(error) if (place := self._place(*at))]
        return found[-1] if found else ""

    def explain(self, raised: RaisedError) -> str:
        """What was raised while it trained: with a line of the user's, or the function that it is about."""
        batches = "pipeline" if self._file.live else "dataset"
        function, where = (batches, "a batch of") if raised.in_fetch else ("model", "a step of")
        error = raised.error
        at = self.frame(error)
        return f"{at}: {named(error)}" if at else f"{self._file.at(function)}: {where} {function}(): {named(error)}"

    def _place(self, path: str, line: int) -> str:
        path = os.path.realpath(path)
        if path == str(self._file.path):
            return f"{self._file.shown}:{line}"
        inner = os.path.relpath(path, self._folder)
        if inner.startswith(os.pardir) or "-packages" in inner or not os.path.isfile(path):
            return ""
        return f"{os.path.join(os.path.dirname(self._file.shown), inner)}:{line}"


def fits(shape: tuple[int, ...] | None, takes: object) -> bool:
    """Whether a batch can be the input of a model that takes such a shape, None in it being any; so if nobody knows."""
    if shape is None or not isinstance(takes, tuple) or not all(n is None or isinstance(n, int) for n in takes):
        return True
    return len(shape) == len(takes) and all(n in (None, side) for side, n in zip(shape, takes, strict=True))


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    """Files and lines, the outermost first: those of the traceback, then those that TensorFlow wrote in the message."""
    for frame in traceback.extract_tb(error.__traceback__):
        yield frame.filename, frame.lineno or 0
    for path, line in _FRAME.findall(str(error)):
        yield path, int(line)


def sentence(error: BaseException) -> str:
    """What an exception says, in a line: without colours, node names and what Keras puts around it."""
    text = _ESCAPES.sub("", str(getattr(error, "message", None) or error))
    told = [raised for raised in _RAISED.findall(text) if raised]
    lines = [line.strip() for line in text.splitlines() if not _AROUND.match(line)]
    said = told[-1] if told and 'File "' in text else lines[0] if lines else ""
    said = _NODE.sub("", said).strip().rstrip(":")
    return (said if len(said) <= _LONGEST else f"{said[:_LONGEST]}...") or type(error).__name__


def named(error: BaseException) -> str:
    """What an exception says, with its name; where it tells of another one, of that."""
    said, name = sentence(error), type(error).__name__
    return said if said == name or _RAISED.match(said) else f"{name}: {said}"


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
