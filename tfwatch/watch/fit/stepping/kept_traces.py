"""Keep with a model's train function what was traced for it, as Keras keeps that function from one
`fit` to the next.

`compile` and `make_train_function(force=True)` make another train function, and with the old one
the traces go. Nothing else references them, so the model can be collected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tensorflow.python.framework import config

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_NAME = "tfwatch_traces"


def find_kept(original: Callable[[Any], Any], kind: type[_T], spec: object) -> _T | None:
    """Return what was kept for a structure of batches; None if there is nothing, or only for
    another context."""
    wanted = kind, _key(spec)
    return next((trace for key, trace in getattr(original, _NAME, ()) if key == wanted), None)


def keep(original: Callable[[Any], Any], trace: object, spec: object) -> None:
    """Keep what was traced for a structure of batches in the present context."""
    wanted = type(trace), _key(spec)
    others = [(key, other) for key, other in getattr(original, _NAME, ()) if key != wanted]
    setattr(original, _NAME, [*others, (wanted, trace)])


def _key(spec: object) -> tuple[object, ...]:
    return spec, _context(), config.is_op_determinism_enabled()


def _context() -> object:
    """Return the context that TensorFlow traces a function for: device, distribution strategy, and
    others.

    Without that private name, two contexts are never the same, and every `fit` traces.
    """
    try:
        from tensorflow.python.eager.polymorphic_function.function_context import (
            make_function_context,
        )

        return make_function_context()
    except (ImportError, AttributeError, TypeError):
        return object()
