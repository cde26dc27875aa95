"""A tracked loop inside a `tf.function`: AutoGraph makes a loop of the graph's of it, which calls no Python.

AutoGraph knows such loops by the type of what is looped over, a data set above all, and unrolls any other: without an
end, for in a graph an iterator is never exhausted. So it is told to look at what is tracked.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Built-in functions that AutoGraph has forms of its own of, for a data set.
_BUILT_IN = ("len", "enumerate", "zip", "map", "filter", "any", "all")


def in_function() -> bool:
    """Whether a function is being traced here: what runs now runs once, and its loops run in a graph later."""
    inside = getattr(sys.modules.get("tensorflow"), "inside_function", None)  # another thread may be importing it
    return inside is not None and bool(inside())


@cache
def seen_through(kind: type, inner: Callable[[Any], Any]) -> bool:
    """Have AutoGraph take what `inner` gives in the place of anything of this kind. False where it cannot be told."""
    try:
        from tensorflow.python.autograph.operators import control_flow, py_builtins

        def loop(iterable: Any, *rest: Any) -> None:
            control_flow.for_stmt(inner(iterable), *rest)

        def call(function: Callable[..., Any], *values: Any, **options: Any) -> Any:
            return function(*(inner(value) if isinstance(value, kind) else value for value in values), **options)

        control_flow.for_loop_registry.register(kind, loop)
        for name in _BUILT_IN:
            form = partial(call, getattr(py_builtins, f"{name}_"))
            getattr(py_builtins, f"{name}_registry").register(kind, form)
    except (ImportError, AttributeError, TypeError, LookupError):  # another TensorFlow, or the kind is registered
        return False
    return True
