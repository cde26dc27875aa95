"""How long TensorFlow's operations take of a step that runs op by op on the CPU: the rest of it is Python's."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch.runs.writer import RunWriter

#: What TensorFlow's Python calls to run one operation, by the module's attribute: no public name.
_CALLS = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")


class Calls:
    """What TensorFlow's Python runs operations with: while any thread times its own, timed calls stand in its place.

    They are put in once however many threads time, and taken out with the last; each thread has its own account.

    Raises:
        AttributeError: the module has none of it.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._bare = self._found()
        self._lock = threading.Lock()
        self._timing = 0
        self._accounts: dict[int, Operations] = {}

    @contextmanager
    def timed_by(self, account: Operations) -> Iterator[None]:
        """Within, the operations of the calling thread are on this account; one within another is on both."""
        thread = threading.get_ident()
        outer = self._accounts.get(thread)
        self._accounts[thread] = account
        self._begin()
        try:
            yield
        finally:
            self._end()
            if outer:
                self._accounts[thread] = outer
                outer.took_ns += account.took_ns
            else:
                del self._accounts[thread]

    def _begin(self) -> None:
        with self._lock:
            self._timing += 1
            if self._timing == 1:
                self._bare = self._found()
                vars(self._module).update({name: self._time(call) for name, call in self._bare.items()})

    def _end(self) -> None:
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
            if account is None:  # of a thread that times nothing, e.g. a map's Python function
                return call(*arguments)
            begin_ns = account.now_ns()
            result = call(*arguments)
            account.took_ns += account.now_ns() - begin_ns
            return result

        return timed


class Operations:
    """Times the operations of what it calls, in the calling thread: 0.2 us an operation, and nothing in between.

    took_ns: of all operations of the last call, each from Python's call to its return. Looking up its kernel is part
    of it, and where operations run on the CPU so is computing.
    """

    def __init__(self, calls: Calls, clock: Clock = SYSTEM) -> None:
        self.took_ns = 0
        self.now_ns = clock.now_ns
        self._calls = calls

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function of one argument, and time its operations."""
        self.took_ns = 0
        with self._calls.timed_by(self):
            return function(argument)


@cache
def _tensorflow_calls() -> Calls:
    from tensorflow.python import pywrap_tfe

    return Calls(pywrap_tfe)


def op_by_op(writer: RunWriter) -> Operations | None:
    """Say in the run that its steps run op by op, and give what times the operations.

    None beside an accelerator, where an operation's call only launches it, and where they cannot be timed: then a note
    says so, and nothing is said of launching.
    """
    if writer.manifest().accelerated:
        writer.describe(op_by_op=True)
        return None
    try:
        found = Operations(_tensorflow_calls())
    except (ImportError, AttributeError) as error:  # no public names: another TensorFlow may lack them
        writer.note(f"what Python takes between operations is not told: they cannot be timed ({error})")
        return None
    writer.describe(op_by_op=True)
    return found
