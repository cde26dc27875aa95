"""The time that a loop of the user's own spends in calls of `tf.function`, why they trace, and
whether they fetch batches themselves.

While a run needs it, `tf.function`'s own call is wrapped in two clock readings: the rest of a
step's body is Python. On a CPU such a call ends with its work; a GPU works on after it, so there
the time of the calls says nothing. The data wait of a call that fetches a batch inside its graph is
a part of the call.
"""

from __future__ import annotations

import inspect
import threading
import time
import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, warn_once
from tfwatch.tfdata.stage_names import operations_of
from tfwatch.watch.tensorflow_info import find_trace_count
from tfwatch.watch.traces import Numbers, Signature, change_between, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Functions whose traces are compared.
_MOST_FUNCTIONS = 1000
#: The function itself among its arguments: another one of the same code traces again.
_FUNCTION = "function"
#: Operations of a graph that take an element of a data set.
_FETCHES = frozenset(
    {"IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional", "ReduceDataset"}
)


class _FunctionCallsOfThread(threading.local):
    """The calls of one thread: `spent_ns` so far, in `is_inside` one; `fetching` of them have
    fetched batches. traced: the time spent tracing before the last call's end. change: see
    `take_change`."""

    def __init__(self) -> None:
        self.spent_ns = self.fetching = self.traced = 0
        self.is_inside = False
        self.change = ""


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
        self._traced: Callable[[], int] = lambda: 0
        self._numbers = Numbers()
        self._signatures: dict[object, Signature] = {}
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
            function = _function_class()
            # Unless somebody else has wrapped this one.
            if not self._runs and function.__call__ is self._wrapped:
                function.__call__ = self._original

    def spent_ns(self) -> int:
        """Return the time that this thread has spent in calls so far."""
        return self._own.spent_ns

    def fetching(self) -> int:
        """Return the number of this thread's calls so far whose graph fetched batches."""
        return self._own.fetching

    def take_change(self) -> str:
        """Return what changed in the arguments of this thread's last call that traced, since the
        trace before; empty where it is not known."""
        change, self._own.change = self._own.change, ""
        return change

    def _wrap(self, note: Callable[[str], None]) -> bool:
        try:
            function = _function_class()
            original = function.__call__
        except (ImportError, AttributeError) as error:  # a private name, which may change
            note(f"host time is part of compute: calls of tf.function cannot be timed ({error})")
            return False
        self._traced = find_trace_count(lambda _: None) or self._traced
        self._original, self._wrapped = original, self._timed(original)
        function.__call__ = self._wrapped
        return True

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        own, now_ns, traced = self._own, time.perf_counter_ns, self._traced

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
            # Private names, which may change: then it counts as one that fetches nothing.
            with self._unseen:
                own.fetching += self._does_fetch(function)
                if traced() != own.traced:
                    own.traced = traced()
                    own.change = self._change_of(function, args, kwargs)
            return result

        return call

    def _change_of(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return what changed in the arguments of a function since its trace before."""
        python = function.python_function
        signature = {
            _FUNCTION: (("type", "tf.function"), ("object", str(self._numbers.of(function)))),
            **signature_of(_named(python, args, kwargs)),
        }
        code = getattr(python, "__code__", None)
        before = self._signatures.get(code)
        if len(self._signatures) < _MOST_FUNCTIONS:
            self._signatures[code] = signature
        return change_between(before, signature) if before else ""

    def _does_fetch(self, function: Any) -> bool:
        """Return whether a function that was called fetches batches, as its first graphs do."""
        does_fetch = self._do_fetch.get(function)
        if does_fetch is None:
            # Also where the next line raises: it is not asked again.
            self._do_fetch[function] = False
            traced = function._function_cache.values()  # traces nothing
            operations = (one for concrete in traced for one in operations_of(concrete.graph))
            does_fetch = any(one.type in _FETCHES for one in operations)
            self._do_fetch[function] = does_fetch
        return does_fetch


def _function_class() -> Any:
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    return polymorphic_function.Function


def _named(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by their names."""
    try:
        return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {**{f"argument {number}": value for number, value in enumerate(args)}, **kwargs}


function_calls = FunctionCalls()
