"""Python within the graph of a step: a `py_function` or a `numpy_function` of a layer or a loss.

Remedy: operations of TensorFlow or `keras.ops` in place of Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.compute import compute_loss

if TYPE_CHECKING:
    from tfwatch.core.events import OperationTime
    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation

#: TensorFlow's operations that call Python: `tf.py_function`, and `tf.numpy_function`.
CALLS = ("EagerPyFunc", "PyFunc", "PyFuncStateless")
_ADVICE = "TensorFlow's or keras.ops' operations in place of Python: they run in the graph"


def find(now: Situation) -> Finding | None:
    """Find the calls of Python, by a profile of the step; on a GPU they are the time for which it
    waits for them. They gave back more than their own time: while Python runs, other operations
    wait."""
    operations = now.profile.operations if now.profile else ()
    # What a metric takes is a finding of its own.
    calls = [one for one in operations if one.op in CALLS and one.role != "metric"]
    if not calls:
        return None
    took_ms = sum(one.took_ms for one in calls)
    share = took_ms / sum(part.took_ms for part in now.parts)
    brief = f"Python within the step takes {units.percent(share)} of compute"
    return compute_loss(
        now,
        "python-in-step",
        share,
        brief,
        f": py_function or numpy_function, {_where(calls[0])}",
        advice=_ADVICE,
        where=calls[0].place,
    )


def _where(longest: OperationTime) -> str:
    """Return the line of the user's, else the layer or the part of the step."""
    if longest.place:
        return f"most of it at {longest.place}"
    is_layer = longest.role in ("forward", "backward") and longest.name
    words = "other operations" if longest.role == "other" else f"the {longest.role}"
    return f"most of it in {longest.name if is_layer else words}"
