"""The variable that an operation of the optimizer updates, by the graph of the step."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Operations that write a variable: `AssignAddVariableOp`, `ResourceScatterAdd`.
_WRITES = ("Assign", "Resource")
#: The scopes of Keras' clipping; the operations of `global_clipnorm` have none.
_CLIPPING = ("clip_by_norm", "clip_by_value")


class Updates:
    """The variables behind the operations of one optimizer.

    An operation belongs to a variable where its result is written to that variable or to one that
    the optimizer keeps for it, such as a momentum. Operations of several variables are those of
    `global_clipnorm`, which is a norm of all gradients; without it they belong to none.
    """

    def __init__(self, optimizer: Any, operations: Iterable[Any]) -> None:
        """operations: of the optimizer's scope, from the graph of the step."""
        self._operations = {one.name: one for one in operations}
        self._is_global = bool(getattr(optimizer, "global_clipnorm", None))
        self._variables: dict[str, set[str]] = defaultdict(set)
        with fails_open(lambda _: None):
            self._trace(_variables_of(optimizer))

    def variable_of(self, name: str) -> str:
        """Return the path of the variable, e.g. `dense/kernel`; empty where it is none or several.
        name: of the operation."""
        variables = self._variables.get(name, ())
        return next(iter(variables)) if len(variables) == 1 else ""

    def is_clipping(self, name: str) -> bool:
        """Return whether an operation clips gradients."""
        if any(part.startswith(_CLIPPING) for part in name.split("/")):
            return True
        operation = self._operations.get(name) if self._is_global else None
        if operation is None:
            return False
        names = (one.name for one in (operation, *_inputs(operation)))
        return any(len(self._variables.get(name, ())) > 1 for name in names)

    def _trace(self, variables: Mapping[int, str]) -> None:
        """Note for each operation the variables that its result is written to."""
        writes = [one for one in self._operations.values() if one.type.startswith(_WRITES)]
        # The tensors outside a graph by the names of those that stand for them in it.
        captured = {
            graph: {inside.name: outside for outside, inside in graph.captures}
            for graph in {one.graph for one in writes}
        }
        for one in writes:
            written = captured[one.graph].get(one.inputs[0].name)
            if variable := variables.get(id(written)):
                self._note(one, variable)

    def _note(self, operation: Any, variable: str) -> None:
        waiting = [operation]
        while waiting:
            one = waiting.pop()
            known = self._variables[one.name]
            if variable not in known and len(known) < 2:
                known.add(variable)
                waiting += [each for each in _inputs(one) if each.name in self._operations]


def _inputs(operation: Any) -> list[Any]:
    return [tensor.op for tensor in operation.inputs]


def _variables_of(optimizer: Any) -> dict[int, str]:
    """Return the path of a trained variable by the handles of it and of those that are kept for
    it: Keras' optimizers hold such variables in lists, in the order of the trained ones."""
    trained = list(optimizer._trainable_variables)
    paths = [one.path for one in trained]
    lists = [value for key, value in vars(optimizer).items() if key != "_variables"]
    found: dict[int, str] = {}
    for kept in (trained, *(one for one in lists if isinstance(one, list))):
        if len(kept) == len(trained):
            # What a graph captures of a variable; None of what is none.
            handles = (getattr(getattr(one, "value", None), "handle", None) for one in kept)
            found |= dict(zip(map(id, handles), paths, strict=True))
    found.pop(id(None), None)
    return found
