"""What the stages of a tf.data pipeline are called in the code that made it, and what their functions do."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Operations by which a function goes back to Python, and those by which it reads files.
_PYTHON = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset"}
_FILES = {"ReadFile", "WholeFileReaderV2", "SleepDataset"}
#: Readers of files among the stages themselves.
READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV", "LMDB", "Load", "Snapshot")
#: TensorFlow's own variants of one stage of the code: they compute the same.
_VARIANT = re.compile(r"^(?:Parallel|Legacy|Private|Finite|Forever|Memory|File|Experimental)+(?=[A-Z])|(?:Impl)?V?\d*$")
_FUSED = {"MapAndBatch": ("Map", "Batch"), "ShuffleAndRepeat": ("Shuffle", "Repeat")}
_ALIKE = {"FromTensor": "Tensor", "InterleaveMany": "Interleave", "ExperimentalScan": "Scan"}
#: Python's own steps on the way that are no stages.
_NO_STAGES = {"Options", "Restructured", "Variant", "DenseToRagged"}
#: Stages that tell nothing where all are told in one breath.
_SILENT = {"Tensor", "Random", "Take", "Zip", "AssertCardinality"}
_PLAIN = {
    "Tensor": "from_tensors",
    "TensorSlice": "from_tensor_slices",
    "TFRecord": "TFRecordDataset",
    "TextLine": "TextLineDataset",
    "FixedLengthRecord": "FixedLengthRecordDataset",
    "CSV": "CsvDataset",
    "DirectedInterleave": "sample_from_datasets",
}
#: The attribute by which tfwatch's own gate is known: nobody wrote it, nor does what is below it belong here.
GATE = "tfwatch_gate"
#: The attribute by which the stage is known that lets a pipeline begin anew: nobody wrote that either.
LASTING = "tfwatch_lasting"
_GENERATOR = "from_generator"
#: What `fit` was given where a function of these modules of Keras' makes a data set of it.
_GIVEN = {"py_dataset_adapter": "PyDataset", "generator_data_adapter": "generator", "array_data_adapter": "arrays"}


@dataclass(frozen=True, slots=True)
class Written:
    """A stage as its author wrote it.

    normal: its kind without TensorFlow's variants, e.g. `Map`. label: e.g. `map(decode)`. buffer_size: elements; NaN
    where it has none or TensorFlow chooses it. python: its function goes back to Python. files: it reads files.
    given: what `fit` was given where Keras made the stage of it, `PyDataset`, `generator` or `arrays`. hidden: nobody
    wrote it; another stage needs it.
    """

    normal: str
    label: str
    buffer_size: float = math.nan
    python: bool = False
    files: bool = False
    given: str = ""
    hidden: bool = False


def normal(kind: str) -> tuple[str, ...]:
    """The stages of the code that a node of tf.data's model stands for: one, or two where they were fused."""
    name = _VARIANT.sub("", kind) or kind
    return _FUSED.get(name, (_ALIKE.get(name, name),))


def plain_label(kind: str) -> str:
    """A stage of which only the kind is known: `interleave` for `ParallelInterleaveV4`."""
    return ", ".join(_PLAIN.get(part, _snake(part)) for part in normal(kind))


def whole_label(stages: Sequence[Written]) -> str:
    """A name for all stages together: `range, shuffle(1000), batch(32)`."""
    told = [stage.label for stage in stages if not stage.hidden and stage.normal not in _SILENT]
    return ", ".join(told) or "source"


def written(dataset: Any) -> list[Written]:
    """The stages of a data set in the order of the code; those of tfwatch's gate, and what is below it, left out."""
    stages = list(_walk(dataset))
    for n, stage in enumerate(stages[1:]):
        if stage.python and stage.normal == "FlatMap":  # one element, of which the generator's data set is made
            stages[n] = replace(stages[n], hidden=True)
    return stages


def aligned(kinds: Sequence[str], stages: Sequence[Written]) -> list[tuple[Written, ...]]:
    """The stages of the code that each node of tf.data's model stands for; none where TensorFlow added it.

    The longest common subsequence of both: TensorFlow leaves stages out, fuses and adds some.
    """
    parts = [(n, part) for n, kind in enumerate(kinds) for part in normal(kind)]
    best = [[0] * (len(stages) + 1) for _ in range(len(parts) + 1)]
    for i in range(len(parts) - 1, -1, -1):
        for j in range(len(stages) - 1, -1, -1):
            same = parts[i][1] == stages[j].normal
            best[i][j] = max(best[i + 1][j], best[i][j + 1], same and best[i + 1][j + 1] + 1)
    found: list[tuple[Written, ...]] = [()] * len(kinds)
    i = j = 0
    while i < len(parts) and j < len(stages):
        n, part = parts[i]
        if part == stages[j].normal and best[i][j] == best[i + 1][j + 1] + 1:
            found[n] = (*found[n], stages[j])
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def inputs_of(dataset: Any) -> list[Any]:
    """The data sets that a data set was made of; none where TensorFlow does not tell."""
    try:
        return list(dataset._inputs())
    except (AttributeError, TypeError, NotImplementedError):
        return []


def _walk(dataset: Any) -> Iterator[Written]:
    if getattr(dataset, GATE, False):
        return
    for source in inputs_of(dataset):
        yield from _walk(source)
    name = type(dataset).__name__.lstrip("_")
    (kind, *_) = normal(re.sub(r"Dataset(V\d+)?$", "", name))
    if kind not in _NO_STAGES and not getattr(dataset, LASTING, False):
        yield _describe(kind, dataset)


def _describe(kind: str, dataset: Any) -> Written:
    wrapper = next((vars(dataset).get(name) for name in _FUNCTIONS if name in vars(dataset)), None)
    function = getattr(wrapper, "_func", None)
    if _GENERATOR in getattr(function, "__qualname__", ""):
        label, given = _generator(function)
        return Written(kind, label, python=True, given=given)
    name = function_name(function)
    label = _PLAIN.get(kind, _snake(kind))
    argument = name or _number(dataset, _ARGUMENTS.get(kind, ""))
    operations = _operations(wrapper)
    module = getattr(function, "__module__", "") or ""
    ours = kind == "FlatMap" and module.startswith("tfwatch.")  # a shuffle that can be turned is no plain one
    return Written(
        kind,
        name if ours else f"{label}({argument})" if argument else label,
        _size(dataset) if kind in ("Shuffle", "Prefetch") else math.nan,
        python=bool(operations & _PYTHON),
        files=bool(operations & _FILES) or kind in READERS,
        given=_given(function),
    )


#: Calls of functions within functions that are followed.
_DEEPEST = 4
_FUNCTIONS = ("_map_func", "_predicate", "_scan_func", "_reduce_func")
_ARGUMENTS = {"Batch": "_batch_size", "PaddedBatch": "_batch_size", "Shuffle": "_buffer_size", "Take": "_count"}


def function_name(function: Any) -> str:
    """What a function is called; empty where it has no name, as a lambda, or is TensorFlow's or Keras' own."""
    for _ in range(4):  # partial of a tf.function of a method
        inner = getattr(function, "func", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    name = getattr(function, "__name__", "") or ("" if function is None else type(function).__name__)
    inside = (getattr(function, "__module__", "") or "").startswith(("tensorflow.", "keras."))
    return "" if inside or not isinstance(name, str) or not name.isidentifier() else name.lstrip("_")


def _given(function: Any) -> str:
    """What `fit` was given, by the module of a function of Keras' own; empty for any other."""
    module = getattr(function, "__module__", "") or ""
    return _GIVEN.get(module.rpartition(".")[2], "") if module.startswith("keras.") else ""


def _generator(function: Any) -> tuple[str, str]:
    """`from_generator(rows)`, and what Keras made it of: its wrappers hold the Python function in their closures."""
    seen: list[Any] = [function]
    for wrapped in seen[:]:
        seen += _held(wrapped)
    for held in [thing for wrapped in seen for thing in (wrapped, *_held(wrapped))]:
        generator = getattr(held, "_generator", None)
        if generator is not None:
            name = function_name(generator)
            given = _given(generator)
            return given or (f"{_GENERATOR}({name})" if name else _GENERATOR), given
    return _GENERATOR, ""


def _held(function: Any) -> list[Any]:
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_filled(cell)]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _operations(wrapper: Any) -> set[str]:
    """The kinds of operations in a stage's function, and in the functions that it calls.

    Read one by one: a graph's own description holds its constants, and making it took 0.5 s for one of 40 MB.
    """
    try:
        return set(_kinds(wrapper.function.graph, _DEEPEST))
    except (AttributeError, RuntimeError):  # without a function, or another thread adds functions to its graph
        return set()


def _kinds(graph: Any, depth: int) -> Iterator[str]:
    for operation in graph.get_operations():
        yield operation.type
    for function in list(getattr(graph, "_functions", {}).values()) if depth else []:
        if hasattr(function, "graph"):
            yield from _kinds(function.graph, depth - 1)


def _size(dataset: Any) -> float:
    size = _number(dataset, "_buffer_size")
    return float(size) if size else math.nan


def _number(dataset: Any, name: str) -> str:
    """An argument that is a whole number, in digits; empty where there is none or TensorFlow chooses it."""
    try:
        number = int(getattr(dataset, name))
    except (AttributeError, TypeError, ValueError, OverflowError):  # none, a graph's tensor, text, infinite
        return ""
    return str(number) if number > 0 else ""


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
