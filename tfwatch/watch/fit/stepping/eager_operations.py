"""Time TensorFlow's operations in a step that runs op by op on the CPU; the rest of the step is
Python."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter

#: The private functions with which TensorFlow's Python runs one operation.
_CALLS = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")


class Calls:
    """TensorFlow's functions that run operations, replaced by timed ones while any thread times its
    operations.

    They are replaced once for all threads and restored with the last; each thread has its own
    account.

    Raises:
        AttributeError: the module lacks one of them.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._bare = self._found()
        self._lock = threading.Lock()
        self._timing = 0
        self._accounts: dict[int, Operations] = {}

    def begin(self, account: Operations) -> Operations | None:
        """Add the time of the calling thread's operations to this account; return the one that they
        went to."""
        with self._lock:
            if not self._timing:
                self._bare = self._found()
                vars(self._module).update(
                    {name: self._time(call) for name, call in self._bare.items()}
                )
            self._timing += 1
        thread = threading.get_ident()
        outer = self._accounts.get(thread)
        self._accounts[thread] = account
        return outer

    def end(self, account: Operations, outer: Operations | None) -> None:
        """Add the time of this account to the outer one, which the calling thread's operations go
        to again."""
        if outer:
            self._accounts[threading.get_ident()] = outer
            outer.took_ns += account.took_ns
        else:
            del self._accounts[threading.get_ident()]
        with self._lock:
            self._timing -= 1
            if not self._timing:
                vars(self._module).update(self._bare)

    def _found(self) -> dict[str, Callable[..., Any]]:
        return {name: getattr(self._module, name) for name in _CALLS}

    def _time(self, call: Callable[..., Any]) -> Callable[..., Any]:
        accounts, get_ident = self._accounts, threading.get_ident

        def timed(*arguments: Any) -> Any:
            account = accounts.get(get_ident())
            if account is None:  # a thread that times nothing, e.g. of a map's Python function
                return call(*arguments)
            begin_ns = account.now_ns()
            result = call(*arguments)
            account.took_ns += account.now_ns() - begin_ns
            return result

        return timed


class Operations:
    """Times the operations of a function in the calling thread, at a cost of 0.2 us per operation.

    took_ns: of all operations from `begin` to `end`, each from Python's call to its return, with
    the look-up of its kernel and, on the CPU, its computation. failure: the reason why they are not
    timed; empty where they are.
    """

    def __init__(self, calls: Calls, clock: Clock = SYSTEM) -> None:
        self.took_ns = 0
        self.failure = ""
        self.now_ns = clock.now_ns
        self._calls = calls
        self._outer: Operations | None = None
        self._is_timing = False

    def begin(self) -> None:
        """Time the operations of the calling thread."""
        self.took_ns = 0
        self._outer = self._calls.begin(self)
        self._is_timing = True

    def end(self) -> None:
        """Time them no longer, where `begin` did not fail."""
        if self._is_timing:
            self._is_timing = False
            self._calls.end(self, self._outer)


@cache
def _tensorflow_calls() -> Calls:
    from tensorflow.python import pywrap_tfe

    return Calls(pywrap_tfe)


def time_operations(writer: RunWriter) -> Operations | None:
    """Record in the run that its steps run op by op, and return the timer of their operations.

    None with a GPU, where a call only launches an operation, and, with a note, if operations cannot
    be timed; then the run does not separate launching.
    """
    if writer.manifest().accelerated:
        writer.describe(op_by_op=True)
        return None
    try:
        found = Operations(_tensorflow_calls())
    except (
        ImportError,
        AttributeError,
    ) as error:  # private names, which another TensorFlow may lack
        writer.note(
            f"Python time between operations is unknown: operations cannot be timed ({error})"
        )
        return None
    writer.describe(op_by_op=True)
    return found
