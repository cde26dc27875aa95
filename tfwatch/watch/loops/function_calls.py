"""The time that a loop of the user's own spends in calls of `tf.function`, and whether they fetch
batches themselves.

While a run needs it, `tf.function`'s own call is wrapped in two clock readings: the rest of a
step's body is Python. On a CPU such a call ends with its work; a GPU works on after it, so there
the time of the calls says nothing. The data wait of a call that fetches a batch inside its graph is
a part of the call.
"""

from __future__ import annotations

import threading
import time
import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, warn_once

if TYPE_CHECKING:
    from collections.abc import Callable


#: Operations of a graph that take an element of a data set.
_FETCHES = frozenset(
    {"IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional", "ReduceDataset"}
)


class _FunctionCallsOfThread(threading.local):
    """The calls of one thread: `spent_ns` so far, in `is_inside` one; `fetching` of them have
    fetched batches."""

    def __init__(self) -> None:
        self.spent_ns = self.fetching = 0
        self.is_inside = False


class FunctionCalls:
    """Times the outermost calls of `tf.function` in each thread, between `begin` and the `end` of
    the last run."""

    def __init__(self) -> None:
        self._own = _FunctionCallsOfThread()
        self._lock = threading.Lock()
        self._runs = 0
        self._note: Callable[[str], None] = warn_once
        self._unseen = fails_open(
            lambda why: self._note(f"batches that a tf.function fetches are not seen: {why}")
        )
        self._do_fetch: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._original: Callable[..., Any] | None = None
        self._wrapped: Callable[..., Any] | None = None

    def begin(self, note: Callable[[str], None]) -> bool:
        """Time the calls for one more run; return False, with a note, where TensorFlow has no such
        function."""
        with self._lock:
            if not self._runs and not self._wrap(note):
                return False
            self._runs += 1
            self._note = note
            return True

    def end(self) -> None:
        """Time the calls for one run less."""
        with self._lock:
            self._runs -= 1
            if not self._runs:
                self._unwrap()

    def spent_ns(self) -> int:
        """Return the time that this thread has spent in calls so far."""
        return self._own.spent_ns

    def fetching(self) -> int:
        """Return the number of this thread's calls so far whose graph fetched batches."""
        return self._own.fetching

    def _wrap(self, note: Callable[[str], None]) -> bool:
        try:
            function = _function_class()
            original = function.__call__
        except (ImportError, AttributeError) as error:  # a private name, which may change
            note(f"host time is part of compute: calls of tf.function cannot be timed ({error})")
            return False
        self._original, self._wrapped = original, self._timed(original)
        function.__call__ = self._wrapped
        return True

    def _unwrap(self) -> None:
        """Put TensorFlow's own method back, unless somebody else has wrapped this one."""
        function = _function_class()
        if function.__call__ is self._wrapped:
            function.__call__ = self._original

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        own, now_ns = self._own, time.perf_counter_ns

        @wraps(original)
        def call(function: Any, *args: Any, **kwargs: Any) -> Any:
            if own.is_inside:
                return original(function, *args, **kwargs)
            own.is_inside, start_ns = True, now_ns()
            try:
                result = original(function, *args, **kwargs)
            finally:
                own.is_inside = False
                own.spent_ns += now_ns() - start_ns
            with (
                self._unseen
            ):  # private names, which may change: then it counts as one that fetches nothing
                own.fetching += self._does_fetch(function)
            return result

        return call

    def _does_fetch(self, function: Any) -> bool:
        """Return whether a function that was called fetches batches, as its first graphs do."""
        does_fetch = self._do_fetch.get(function)
        if does_fetch is None:
            self._do_fetch[function] = (
                False  # also where the next line raises: it is not asked again
            )
            self._do_fetch[function] = does_fetch = _fetches(function)
        return does_fetch


def _fetches(function: Any) -> bool:
    """Return whether a graph of a function, or one that it calls, takes elements of a data set."""
    graphs = [concrete.graph for concrete in function._function_cache.values()]  # traces nothing
    seen: set[str] = set()
    while graphs:
        graph = graphs.pop()
        if any(operation.type in _FETCHES for operation in graph.get_operations()):
            return True
        inner = {name: called for name, called in graph._functions.items() if name not in seen}
        seen.update(inner)
        graphs += [
            called.graph for called in inner.values() if getattr(called, "graph", None) is not None
        ]
    return False


def _function_class() -> Any:
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    return polymorphic_function.Function


function_calls = FunctionCalls()
