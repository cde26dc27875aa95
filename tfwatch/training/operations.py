"""How long TensorFlow's operations take of a step that runs op by op on the CPU: the rest of it is Python's."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter

#: What TensorFlow's Python calls to run one operation, by the module's attribute: no public name.
_CALLS = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")


class Operations:
    """Times the operations of what it calls, in the calling thread: 0.2 us an operation, and nothing in between.

    took_ns: of all operations of the last call, each from Python's call to its return. Looking up its kernel is part
    of it, and where operations run on the CPU so is computing.
    """

    def __init__(self, module: Any, clock: Clock = SYSTEM) -> None:
        self.took_ns = 0
        self._now_ns = clock.now_ns
        self._module = module
        self._bare = {name: getattr(module, name) for name in _CALLS}
        self._thread = 0
        self._timed = {name: self._time(call) for name, call in self._bare.items()}

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function of one argument, and time its operations."""
        self.took_ns, self._thread = 0, get_ident()
        vars(self._module).update(self._timed)
        try:
            return function(argument)
        finally:
            vars(self._module).update(self._bare)

    def _time(self, call: Callable[..., Any]) -> Callable[..., Any]:
        now_ns = self._now_ns

        def timed(*arguments: Any) -> Any:
            if get_ident() != self._thread:  # another thread's, e.g. a map's Python function
                return call(*arguments)
            begin_ns = now_ns()
            result = call(*arguments)
            self.took_ns += now_ns() - begin_ns
            return result

        return timed


def op_by_op(writer: RunWriter) -> Operations | None:
    """Say in the run that its steps run op by op, and give what times the operations.

    None beside an accelerator, where an operation's call only launches it, and where they cannot be timed: then a note
    says so, and nothing is said of launching.
    """
    if writer.manifest().accelerated:
        writer.describe(op_by_op=True)
        return None
    try:
        from tensorflow.python import pywrap_tfe

        found = Operations(pywrap_tfe)
    except Exception as error:  # noqa: BLE001  no public names: another TensorFlow may lack them
        writer.note(f"what Python takes between operations is not told: they cannot be timed ({error})")
        return None
    writer.describe(op_by_op=True)
    return found
