"""Names of tf.data stages as the code spells them, and what their functions do: Python, files."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Operations with which a function calls Python, and those with which it reads files.
PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_FILES = {"ReadFile", "WholeFileReaderV2", "SleepDataset"}
#: Operations that draw random numbers, and are stateful but for those that begin with `Stateless`.
RANDOM = re.compile(
    r"Random|Multinomial|Rng|TruncatedNormal|SampleDistortedBoundingBox|CandidateSampler"
    r"|Fractional(Max|Avg)Pool"
)
#: The kind of a write to the state of Keras' random numbers, which `RandomFlip` in a map makes, and
#: a part of that variable's name.
_DRAW, _SEED_STATE = "RandomSeedState", "seed_generator_state"
#: Stages that read files themselves.
READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV", "LMDB", "Load", "Snapshot")
#: Data sets in Python that are no stages.
_NO_STAGES = {"Options", "Restructured", "Variant", "DenseToRagged"}
_PLAIN = {
    "Tensor": "from_tensors",
    "TensorSlice": "from_tensor_slices",
    "TFRecord": "TFRecordDataset",
    "TextLine": "TextLineDataset",
    "FixedLengthRecord": "FixedLengthRecordDataset",
    "CSV": "CsvDataset",
    "DirectedInterleave": "sample_from_datasets",
}
#: An attribute that marks tfwatch's gate: it and the stages below it are not part of the user's
#: pipeline.
GATE = "tfwatch_gate"
#: An attribute that marks a stage of tfwatch's that is not shown: it restarts a pipeline, or stamps
#: its batches.
OWN = "tfwatch_own"
#: An attribute that marks a stage of tfwatch's own in a script's pipeline.
HIDDEN = "tfwatch_hidden"
_GENERATOR = "from_generator"
#: TensorFlow's variants of one stage of the code: they compute the same.
_VARIANT = re.compile(
    r"^(?:Parallel|Legacy|Private|Finite|Forever|Memory|File|Experimental)+(?=[A-Z])|(?:Impl)?V?\d*$"
)
_FUSED = {"MapAndBatch": ("Map", "Batch"), "ShuffleAndRepeat": ("Shuffle", "Repeat")}
_ALIKE = {"FromTensor": "Tensor", "InterleaveMany": "Interleave", "ExperimentalScan": "Scan"}
#: The argument of `fit` that a function of these modules of Keras turns into a data set.
_GIVEN = {
    "py_dataset_adapter": "PyDataset",
    "generator_data_adapter": "generator",
    "array_data_adapter": "arrays",
}


def is_random(operation: str) -> bool:
    """Return whether an operation draws random numbers of a state of its own."""
    return RANDOM.search(operation) is not None and "Stateless" not in operation


@dataclass(frozen=True, slots=True)
class CodeStage:
    """A stage as its author wrote it.

    kind: without TensorFlow's variants, e.g. `Map`. label: e.g. `map(decode)`. buffer_size: in
    elements; NaN if it has none or TensorFlow chooses it. python: its function calls Python. files:
    it reads files. random: it draws random numbers that depend on state. given: the argument of
    `fit` that Keras made the stage of, `PyDataset`, `generator` or `arrays`. hidden: another stage
    needs it, and it is not in the code.
    """

    kind: str
    label: str
    buffer_size: float = math.nan
    python: bool = False
    files: bool = False
    random: bool = False
    given: str = ""
    hidden: bool = False


def code_kinds(kind: str) -> tuple[str, ...]:
    """Return the kinds of the stages that a node of tf.data's model stands for: one, or two if they
    were fused."""
    name = _VARIANT.sub("", kind) or kind
    return _FUSED.get(name, (_ALIKE.get(name, name),))


def label_of_kind(kind: str) -> str:
    """Return the label of a stage of which only the kind is known: `interleave` for
    `ParallelInterleaveV4`."""
    return ", ".join(_PLAIN.get(part, _snake(part)) for part in code_kinds(kind))


def find_code_stages(dataset: Any) -> list[CodeStage]:
    """Return the stages of a data set in the order of the code, without tfwatch's gate and what is
    below it."""
    stages = [
        replace(_describe(node), hidden=getattr(node, HIDDEN, False)) for node in _own(dataset)
    ]
    for n, stage in enumerate(stages[1:]):
        # One element, from which the generator's data set is made.
        if stage.python and stage.kind == "FlatMap":
            stages[n] = replace(stages[n], hidden=True)
    return stages


def align(kinds: Sequence[str], stages: Sequence[CodeStage]) -> list[tuple[CodeStage, ...]]:
    """Return the stages of the code that each node of tf.data's model stands for; none if
    TensorFlow added the node.

    TensorFlow leaves out, fuses and adds stages, and keeps their order.
    """
    parts = [(n, part) for n, kind in enumerate(kinds) for part in code_kinds(kind)]
    found = [part for _, part in parts]
    matcher = SequenceMatcher(None, found, [stage.kind for stage in stages], autojunk=False)
    aligned: list[tuple[CodeStage, ...]] = [()] * len(kinds)
    for at, stage, length in matcher.get_matching_blocks():
        for more in range(length):
            n = parts[at + more][0]
            aligned[n] = (*aligned[n], stages[stage + more])
    return aligned


def inputs_of(dataset: Any) -> list[Any]:
    """Return the input data sets of a data set; empty if TensorFlow does not give them."""
    try:
        return list(dataset._inputs())
    except (AttributeError, TypeError, NotImplementedError):
        return []


def nodes_of(dataset: Any) -> Iterator[Any]:
    """Yield a data set and all its inputs, the last stage first."""
    yield dataset
    for source in inputs_of(dataset):
        yield from nodes_of(source)


def spine_of(dataset: Any) -> list[Any]:
    """Return the stages from the top down to the source, or to the first stage over several data
    sets."""
    spine = [dataset]
    while len(inputs := inputs_of(spine[-1])) == 1:
        spine.append(inputs[0])
    return spine


def kind_of(dataset: Any) -> str:
    """Return the kind of a stage: `ParallelMap` of a `_ParallelMapDataset`."""
    return re.sub(r"Dataset(V\d+)?$", "", type(dataset).__name__.lstrip("_"))


def label_of(dataset: Any) -> str:
    """Return a stage as the code has it: `map(decode)`."""
    return next((_describe(node).label for node in reversed(list(_own(dataset)))), kind_of(dataset))


def _own(dataset: Any) -> Iterator[Any]:
    """Yield the stages over tfwatch's gate, the source first."""
    if getattr(dataset, GATE, False):
        return
    for source in inputs_of(dataset):
        yield from _own(source)
    if code_kinds(kind_of(dataset))[0] not in _NO_STAGES and not getattr(dataset, OWN, False):
        yield dataset


def _describe(dataset: Any) -> CodeStage:
    kind, wrapper = code_kinds(kind_of(dataset))[0], function_of(dataset)
    function = getattr(wrapper, "_func", None)
    if _GENERATOR in getattr(function, "__qualname__", ""):
        label, given = _generator(function)
        return CodeStage(kind, label, python=True, given=given)
    name, label = function_name(function), _PLAIN.get(kind, _snake(kind))
    argument = name or _number(dataset, _ARGUMENTS.get(kind, ""))
    size = _number(dataset, "_buffer_size") if kind in ("Shuffle", "Prefetch") else ""
    try:  # of the function, and of the functions that it calls
        operations = {kind for _, kind in kinds_of_operations(wrapper.function.graph)}
    except (AttributeError, RuntimeError):  # no function, or another thread adds some to its graph
        operations = set()
    return CodeStage(
        kind,
        f"{label}({argument})" if argument else label,
        float(size) if size else math.nan,
        python=bool(operations & {*PYTHON, "GeneratorDataset"}),
        files=bool(operations & _FILES) or kind in READERS,
        random=any(map(is_random, operations)),
        given=_given(function),
    )


_FUNCTIONS = ("_map_func", "_predicate", "_scan_func", "_reduce_func")
_ARGUMENTS = {
    "Batch": "_batch_size",
    "PaddedBatch": "_batch_size",
    "Shuffle": "_buffer_size",
    "Take": "_count",
}


def function_name(function: Any) -> str:
    """Return a function's name; empty for a lambda, and for a function of TensorFlow's or
    Keras'."""
    for _ in range(4):  # partial of a tf.function of a method
        inner = getattr(function, "func", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    name = getattr(function, "__name__", "") or (
        "" if function is None else type(function).__name__
    )
    inside = (getattr(function, "__module__", "") or "").startswith(("tensorflow.", "keras."))
    return (
        "" if inside or not isinstance(name, str) or not name.isidentifier() else name.lstrip("_")
    )


def _given(function: Any) -> str:
    """Return the argument of `fit` that a function of Keras belongs to, by its module; empty for
    any other function."""
    module = getattr(function, "__module__", "") or ""
    return _GIVEN.get(module.rpartition(".")[2], "") if module.startswith("keras.") else ""


def _generator(function: Any) -> tuple[str, str]:
    """Return `from_generator(rows)`, and the argument of `fit`; wrappers hold the generator in
    their closures."""
    wrappers = [function, *_closure_of(function)]
    for candidate in [value for wrapper in wrappers for value in (wrapper, *_closure_of(wrapper))]:
        generator = getattr(candidate, "_generator", None)
        if generator is not None:
            name = function_name(generator)
            given = _given(generator)
            return given or (f"{_GENERATOR}({name})" if name else _GENERATOR), given
    return _GENERATOR, ""


def _closure_of(function: Any) -> list[Any]:
    """Return the values in a function's closure, empty cells left out."""
    values = []
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):
            values.append(cell.cell_contents)
    return values


def function_of(dataset: Any) -> Any:
    """Return TensorFlow's wrapper of a stage's function; None where it has none."""
    return next((vars(dataset)[name] for name in _FUNCTIONS if name in vars(dataset)), None)


def operations_of(graph: Any) -> Iterator[Any]:
    """Yield the operations of a function, and of the functions that it calls.

    They are read one by one: a `GraphDef` holds the constants too, and making one of 40 MB took 0.5
    s.
    """
    graphs, seen = [graph], {""}
    while graphs:
        graph = graphs.pop()
        yield from graph.get_operations()
        inner = {name: called for name, called in graph._functions.items() if name not in seen}
        seen.update(inner)
        graphs += [
            called.graph for called in inner.values() if getattr(called, "graph", None) is not None
        ]


def kinds_of_operations(graph: Any) -> Iterator[tuple[Any, str]]:
    """Yield the operations of `operations_of`, each with its kind: its type, but where it only
    draws random numbers as Keras' layers do."""
    states = _seed_states(graph)
    for operation in operations_of(graph):
        is_draw = operation.type == "AssignVariableOp" and operation.graph is graph
        is_draw = is_draw and operation.inputs[0].op.name in states
        yield operation, _DRAW if is_draw else operation.type


def _seed_states(graph: Any) -> set[str]:
    """Return the names under which a function has the states of Keras' random numbers."""
    handles: set[int] = set()
    with suppress(AssertionError):  # a variable of the function is gone
        handles = {id(one.handle) for one in graph.variables if _SEED_STATE in one.name}
    return {inside.op.name for outside, inside in graph.captures if id(outside) in handles}


def _number(dataset: Any, name: str) -> str:
    """Return an integer argument in digits; empty if there is none or TensorFlow chooses it."""
    try:
        number = int(getattr(dataset, name))
    except (
        AttributeError,
        TypeError,
        ValueError,
        OverflowError,
    ):  # none, a graph's tensor, text, infinite
        return ""
    return str(number) if number > 0 else ""


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


#: Stages with which TensorFlow splits the batches of a strategy, the last one first; of a strategy
#: with a single replica.
_SPLIT, _UNSPLIT = (
    ("_RebatchDataset", "_RestructuredDataset", "_MapDataset"),
    ("_AutoShardDataset",),
)


def dataset_of(iterator: Any) -> Any:
    """Return the data set of an iterator, of a strategy's as its author made it; None where it is
    unknown: the attributes are TensorFlow's own.

    `experimental_distribute_dataset` adds stages that split each batch;
    `distribute_datasets_from_function` adds none.
    """
    if (dataset := getattr(iterator, "_dataset", None)) is not None:
        return dataset
    parts = getattr(iterator, "_iterators", None) or [None]
    spine = spine_of(getattr(parts[0], "_dataset", None))
    names = [type(node).__name__ for node in spine]
    is_split = _SPLIT[0] in names
    at = names.index(_SPLIT[0]) if is_split else 0
    for name in _SPLIT if is_split else _UNSPLIT:
        if names[at] != name or at + 1 == len(spine):
            break
        at += 1
    return spine[at]
