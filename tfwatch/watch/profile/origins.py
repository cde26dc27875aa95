"""The origin of an operation: its layer, metric or optimizer, by its path in the graph and by the
Python that made it."""

from __future__ import annotations

import gc
import inspect
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tfwatch.core.errors import fails_open
from tfwatch.sensors.running_code import users_place
from tfwatch.tfdata.stage_names import is_random
from tfwatch.watch.profile.recorded import COPY
from tfwatch.watch.profile.updates import Updates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: The file, the line and the function of a frame.
_Frame: TypeAlias = tuple[str, int, str]


class _Added(NamedTuple):
    """A piece that TensorFlow adds to the path of an operation.

    mark: stands in each path that has it. Most have none, and the pattern takes a microsecond.
    """

    mark: str
    pattern: re.Pattern[str]

    def cut(self, path: str) -> str:
        """Return a path without it."""
        return self.pattern.sub("", path) if self.mark in path else path


#: Calls of functions with the loops around them, and the replica of a strategy.
_CALLS = _Added("PartitionedCall", re.compile(r"^.*\b(?:Stateful)?PartitionedCall(?:_\d+)?/"))
#: A branch of a condition, in which names start again, and what TensorFlow's optimizer of graphs
#: puts before the name of an operation that it has replaced.
_BRANCH = _Added("/_", re.compile(r"^.*\b(?:then|else)/_\d+/"))
_REPLACED = _Added("ArithmeticOptimizer/", re.compile(r"ArithmeticOptimizer/[A-Za-z]+_"))
#: Keras' scaling of losses updates the variables under a condition: that all gradients are finite.
_CONDITION = _Added("cond", re.compile(r"^cond(?:_\d+)?/(?=.)"))
_REPLICA = _Added("replica_", re.compile(r"(?:^|(?<=gradient_tape/))replica_\d+/"))
_NUMBERED = re.compile(r"_\d+$")
_LOOP, _WHILE = "/while", ("While", "StatelessWhile")
#: The step of a ResNet50 has 15 300 operations, that of six dense layers 700.
_MANY = 4000
_IF, _BRANCHES = ("If", "StatelessIf"), ("then_branch", "else_branch")
_BACKWARD = "gradient_tape"
_LOSS = "compile_loss"
_COLLECTIVE = re.compile(r"Collective|[nN]ccl|AllReduce")
_METRICS = os.path.join("keras", "src", "metrics", "")
#: Keras' own step, which calls the model.
_STEP = os.path.join("tensorflow", "trainer.py")
_OPTIMIZERS = os.path.join("keras", "src", "optimizers", "")
_LOSSES = os.path.join("keras", "src", "losses", "")
#: Looking up where an operation was made takes 0.3 ms: so many of a profile are.
_MOST_LOOKED_UP = 40


@dataclass(frozen=True)
class Origin:
    """The part of a step that an operation belongs to, as `core.events.OperationTime` has it. Two
    places are one part."""

    role: str
    name: str = ""
    kind: str = ""
    place: str = field(default="", compare=False)
    in_loop: bool = False
    variable: str = ""


class Origins:
    """Finds the origin of operations of one model.

    model: None where it is unknown, as in a loop of the script's own: then each model of the
    process may be it. graph: of the function that holds the step; None where unknown: then metrics
    and lines are. paths: of all operations.
    """

    def __init__(self, model: Any, graph: Any, paths: Iterable[str]) -> None:
        self._model = model
        found = _all_of_keras() if model is None else [[model], _optimizers_of(model), []]
        self._models, optimizers, losses = found
        self._optimizers = _by_name(optimizers)
        #: Those of Keras' functions too: a script may make one within its step.
        functions = getattr(sys.modules.get("keras"), "losses", None)
        self._losses = {*dir(functions), *(getattr(one, "name", "") for one in losses)}
        self._metrics = _metrics_of(model)
        self._operations = _operations_of(graph)
        self._parts = {path: _parts(path) for path in (*self._operations, *paths)}
        self._scopes = _scopes_of(parts for parts, _ in self._parts.values())
        self._left = _MOST_LOOKED_UP
        self._updates: dict[str, Updates] = {}
        self._known: dict[tuple[str, bool], Origin] = {}
        #: The user's line of a layer, by its role and its name.
        self._places: dict[tuple[str, str], str] = {}
        #: The layers of a layer by their names, by its `id`; a model has hundreds.
        self._inner: dict[int, dict[str, Any]] = {}

    def has(self, path: str) -> bool:
        """Return False for an operation of another function, e.g. of a map of the input pipeline;
        where no model is known there may be several functions."""
        return self._model is None or not path or _CALLS.cut(path) != path

    def of(self, path: str, op: str) -> Origin:
        """Return the origin of an operation."""
        key = path, bool(COPY.search(op))  # an operation copies what it works on too
        if key not in self._known:
            found = self._find(path, op)
            in_loop = found.name in self._loops or _LOOP in _CALLS.cut(path)
            self._known[key] = replace(found, in_loop=True) if in_loop else found
        return self._known[key]

    def dtype_of(self, path: str) -> str:
        """Return the dtype that an operation computes or writes, e.g. `float32`; empty where it is
        not known."""
        with fails_open(lambda _: None):
            if made := self._operations.get(_name_of(path)):
                return str([*made.inputs, *made.outputs][-1].dtype.name)
        return ""

    def _find(self, path: str, op: str) -> Origin:
        parts, is_backward = self._parts[path]
        if _COLLECTIVE.search(op) or _COLLECTIVE.search(parts[-1]):
            return Origin("collective")
        if COPY.search(op) or COPY.search(parts[0]):
            return Origin("copy")
        if parts[0].startswith(_LOSS):
            return Origin("loss", kind=parts[1] if len(parts) > 2 else "")
        if (optimizer := self._optimizer(parts)) is not None:
            name, updates = _name_of(path), self._updates_of(optimizer)
            if updates.is_clipping(name):
                return Origin("clipping")
            of_it = str(optimizer.name), type(optimizer).__name__
            return Origin("optimizer", *of_it, variable=updates.variable_of(name))
        if layer := self._layer(parts):
            role = "backward" if is_backward else "forward"
            return Origin(role, *layer, self._place_of(role, layer[0], path))
        if loss := self._loss(parts[0]):
            return Origin("loss", kind=loss)
        return self._made_by(path, is_backward)

    def _layer(self, parts: Sequence[str]) -> tuple[str, str] | None:
        """Return the innermost layer of a path and its class; None where it begins with none."""
        for model in self._models:
            if _is_scope(parts[0], model.name):
                return self._below(model, parts, 1) or ("", type(model).__name__)
        if self._model is not None:
            return self._below(self._model, parts, 0)
        # Without Keras a scope is what the script has named.
        is_named = len(parts) > 2 and not self._loss(parts[0])
        return ("/".join(parts[:-1]), "") if is_named else None

    def _loss(self, scope: str) -> str:
        """Return the name of the loss function that a scope is of; empty where it is of none."""
        return next((one for one in (scope, _NUMBERED.sub("", scope)) if one in self._losses), "")

    def _below(self, model: Any, parts: Sequence[str], begin: int) -> tuple[str, str] | None:
        """Return the path and the class of the innermost layer along the parts of a path."""
        layer, names = model, []
        for at in range(begin, len(parts) - 1):
            layers = self._layers_in(layer)
            inner = layers.get(_layer_name(parts[at], layers, self._scopes[tuple(parts[:at])]))
            if inner is None:
                break
            layer = inner
            names.append(layer.name)
        return ("/".join(names), type(layer).__name__) if names else None

    def _layers_in(self, layer: Any) -> dict[str, Any]:
        """Return the layers of a layer by their names."""
        if id(layer) not in self._inner:
            inner = layer._flatten_layers(include_self=False, recursive=False)
            self._inner[id(layer)] = {one.name: one for one in inner}
        return self._inner[id(layer)]

    def _optimizer(self, parts: Sequence[str]) -> Any:
        """Return the optimizer that a path begins with; None where it is none."""
        return self._optimizers.get(_layer_name(parts[0], self._optimizers, self._scopes[()]))

    def _updates_of(self, optimizer: Any) -> Updates:
        if optimizer.name not in self._updates:
            every = self._operations.items()
            own = [one for path, one in every if self._optimizer(self._parts[path][0]) is optimizer]
            self._updates[optimizer.name] = Updates(optimizer, own)
        return self._updates[optimizer.name]

    @cached_property
    def _loops(self) -> set[str]:
        """The layers with a loop in the graph: most of its operations are too small to be
        recorded."""
        loops = (name for name, one in self._operations.items() if one.type in _WHILE)
        layers = (self._layer(self._parts[name][0]) for name in loops)
        return {layer[0] for layer in layers if layer and layer[0]}

    # -- by the Python that made it ---------------------------------------------------------------

    def _made_by(self, path: str, is_backward: bool) -> Origin:
        frames = self._frames(path)
        files = [file for file, _, _ in frames]
        metric = self._metric_of(frames)
        if metric[0] or any(_METRICS in file for file in files):
            return Origin("metric", *metric)
        if any(_OPTIMIZERS in file for file in files) and self._optimizers:
            return Origin("optimizer", *self._optimizer_in(frames))
        if any(_LOSSES in file for file in files):
            return Origin("loss")
        return Origin("backward" if is_backward else "other", place=_users_line(frames))

    def _place_of(self, role: str, layer: str, path: str) -> str:
        """Return the user's line of a layer, by the first operation of it that is in the graph:
        TensorFlow's optimizer of graphs makes operations of its own."""
        if (role, layer) not in self._places and (frames := self._frames(path)):
            self._places[role, layer] = _users_line(frames)
        return self._places.get((role, layer), "")

    def _frames(self, path: str) -> list[_Frame]:
        """Return the file, line and function of each frame that made an operation, outermost
        first."""
        made = self._operations.get(_name_of(path))
        if made is None or self._left <= 0:
            return []
        self._left -= 1
        found: list[_Frame] = []
        with fails_open(lambda _: None):
            found = [(frame.filename, frame.lineno, frame.name) for frame in made.traceback or ()]
        return found

    def _metric_of(self, frames: Sequence[_Frame]) -> tuple[str, str]:
        """Return the names of the metrics whose code made an operation, and their classes."""
        # The outermost one: a metric may call those of other metrics, as of its base class.
        each = ([one for one in self._metrics if _is_in(one.lines, [frame])] for frame in frames)
        found = next(filter(None, each), [])
        # Keras' wrapper of functions is the class of many metrics.
        found = [one for one in found if _is_in(one.function, frames)] or found
        kinds = dict.fromkeys(one.kind for one in found)
        return ", ".join(one.name for one in found), ", ".join(kinds)

    def _optimizer_in(self, frames: Sequence[_Frame]) -> tuple[str, str]:
        """Return the name and the class of the optimizer whose code made an operation; where
        several have this code, the class alone."""
        found = [*self._optimizers.values()]
        if len(found) > 1:
            found = [
                one for one in found if _is_in(_lines_of(getattr(one, "update_step", None)), frames)
            ]
        names = [str(one.name) for one in found]
        kinds = {type(one).__name__ for one in found}
        return names[0] if len(names) == 1 else "", kinds.pop() if len(kinds) == 1 else ""


@dataclass(frozen=True)
class _Metric:
    """A metric. lines: of its class. function: those of the function that it wraps."""

    name: str
    kind: str
    lines: set[tuple[str, int]]
    function: set[tuple[str, int]]


def _lines_of(*functions: Any) -> set[tuple[str, int]]:
    """Return the file and the number of each line of functions; none of what is no Python."""
    found: set[tuple[str, int]] = set()
    for one in functions:
        if code := getattr(inspect.unwrap(one), "__code__", None):
            last = max((line for *_, line in code.co_lines() if line), default=0)
            numbers = range(code.co_firstlineno, last + 1)
            found |= {(os.path.normpath(code.co_filename), number) for number in numbers}
    return found


def _is_in(lines: set[tuple[str, int]], frames: Iterable[_Frame]) -> bool:
    return any((os.path.normpath(file), line) in lines for file, line, _ in frames)


def _name_of(path: str) -> str:
    """Return the name of an operation in its own graph."""
    return _REPLACED.cut(_BRANCH.cut(_CALLS.cut(path)))


def _parts(path: str) -> tuple[list[str], bool]:
    """Return the parts of a path from the model on, and whether it is of the backward pass."""
    parts = _REPLICA.cut(_CONDITION.cut(_name_of(path))).split("/")
    is_backward = parts[0] == _BACKWARD and len(parts) > 1
    return parts[is_backward:], is_backward


def _scopes_of(paths: Iterable[list[str]]) -> dict[tuple[str, ...], set[str]]:
    """Return the parts that follow each beginning of a path; paths are in parts."""
    scopes: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for parts in paths:
        for at in reversed(range(len(parts))):
            beside = scopes[tuple(parts[:at])]
            if parts[at] in beside:  # a path before has this beginning, and the shorter ones
                break
            beside.add(parts[at])
    return scopes


def _layer_name(scope: str, layers: Mapping[str, Any], beside: set[str]) -> str:
    """Return the name of a scope's layer: TensorFlow puts a number behind a name that it has had.

    `dense_1` is the layer `dense` where the layer `dense_1` has another scope, as `dense_1_2`.
    """
    base = _NUMBERED.sub("", scope)
    if scope not in layers:
        return base
    is_other = base in layers and base != scope
    if is_other and any(one != scope and _NUMBERED.sub("", one) == scope for one in beside):
        return base
    return scope


def _is_scope(part: str, name: str) -> bool:
    return part == name or _NUMBERED.sub("", part) == name


def _all_of_keras() -> list[list[Any]]:
    """Return the models, the optimizers and the losses of the process, which takes about 30 ms."""
    keras = sys.modules.get("keras")
    if keras is None:
        return [[], [], []]
    kinds = keras.Model, keras.optimizers.Optimizer, keras.losses.Loss
    # Not `isinstance`: it asks an object for its class, and a proxy of the user's may raise.
    found = [one for one in gc.get_objects() if issubclass(type(one), kinds)]
    return [[one for one in found if issubclass(type(one), kind)] for kind in kinds]


def _optimizers_of(model: Any) -> list[Any]:
    """Return the optimizer that a model is compiled with, and those that are attributes of it."""
    found = [getattr(model, "optimizer", None)]
    with fails_open(lambda _: None):
        kind = sys.modules["keras"].optimizers.Optimizer
        found += [one for one in vars(model).values() if issubclass(type(one), kind)]
    return found


def _by_name(optimizers: Iterable[Any]) -> dict[str, Any]:
    """Return optimizers by their names, those in Keras' scaling of losses; of one name, the one
    that has updated something."""
    inner = [getattr(one, "inner_optimizer", one) for one in optimizers]
    inner.sort(key=lambda one: bool(getattr(one, "built", False)))
    return {str(one.name): one for one in inner if getattr(one, "name", "")}


def _metrics_of(model: Any) -> list[_Metric]:
    found: list[_Metric] = []
    with fails_open(lambda _: None):
        given = [getattr(one, "metrics", None) or [one] for one in getattr(model, "metrics", ())]
        for metric in chain.from_iterable(given):
            function = getattr(metric, "_fn", None)
            kind = getattr(function, "__name__", "") or type(metric).__name__
            lines = _lines_of(metric.update_state, metric.result)
            found.append(_Metric(metric.name, kind, lines, _lines_of(function)))
    return found


def _operations_of(graph: Any) -> dict[str, Any]:
    """Return the operations of a graph, and of the functions and the branches in it, by their
    names."""
    found: dict[str, Any] = {}
    with fails_open(lambda _: None):
        for operations in _graphs_of(graph, _called):
            for operation in operations:
                found.setdefault(operation.name, operation)
    return found


def _graphs_of(graph: Any, called_by: Callable[[Any], list[str]]) -> Iterator[list[Any]]:
    """Yield the operations of a graph, then those of each function that they call."""
    graphs = [graph] if graph is not None else []
    while graphs:
        one = graphs.pop()
        operations = one.get_operations()
        yield operations
        called = [one._get_function(name) for each in operations for name in called_by(each)]
        graphs += [function.graph for function in called if function is not None]


def _called(operation: Any) -> list[str]:
    """Return the names of the functions and branches that an operation calls once."""
    called = _BRANCHES if operation.type in _IF else ("f",)
    is_call = operation.type in _IF or "PartitionedCall" in operation.type
    return [operation.get_attr(one).name for one in called] if is_call else []


def _called_at_all(operation: Any) -> list[str]:
    """Return the names of all functions that an operation calls, as loops and cases do."""
    names: list[str] = []
    for attribute, is_list in _functions_of(operation.type):
        value = operation.get_attr(attribute)
        names += [one.name for one in (value if is_list else [value])]
    return names


@cache
def _functions_of(kind: str) -> tuple[tuple[str, bool], ...]:
    """Return the attributes of a kind of operation that are functions, and whether each is a
    list."""
    from tensorflow.python.framework import op_def_registry

    types = {"func": False, "list(func)": True}
    attributes = getattr(op_def_registry.get(kind), "attr", ())
    return tuple((one.name, types[one.type]) for one in attributes if one.type in types)


def records_much(graph: Any) -> bool:
    """Return whether a profile of the graph of a step, and of the functions in it, records
    thousands of events for each step: it has a loop, or so many operations."""
    count = 0
    with fails_open(lambda _: None):
        for operations in _graphs_of(graph, _called):
            count += len(operations)
            if count > _MANY or any(one.type in _WHILE for one in operations):
                return True
    return False


def draws_random(graph: Any) -> bool:
    """Return whether the graph of a step, or a function in it, has an operation that draws random
    numbers of its own state; True where that is not known."""
    with fails_open(lambda _: None):
        graphs = _graphs_of(graph, _called_at_all)
        kinds = {one.type for operations in graphs for one in operations}
        return any(map(is_random, kinds))
    return True


def _users_line(frames: Sequence[_Frame]) -> str:
    """Return the innermost line of the user's below Keras' step: of a layer, a loss, a metric."""
    keras = [at for at, frame in enumerate(frames) if frame[0].endswith(_STEP)]
    places = (users_place(*frame) for frame in frames[keras[-1] if keras else 0 :][::-1])
    return next(filter(None, places), "")
