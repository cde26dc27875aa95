"""The maps directly before a batch of a user's pipeline, vectorised: the batch comes first, each map takes it whole.

`tf.vectorized_map` converts the traced function operation by operation, so it needs no Python source and traces no code
of the user's. An operation that it cannot convert is refused: its fallback, a loop over the examples, is slower.
"""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import reason
from tfwatch.tfdata.rebuilding.pipeline_tree import (
    BATCHES,
    MAPS,
    CannotRebuildError,
    Tree,
    kind_of,
    label_of,
)
from tfwatch.tfdata.stages.stage_names import inputs_of

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator, Sequence

#: The kinds of batches that stack elements of one shape.
_STACKS = ("Batch", "ParallelBatch")
_NO_CONVERTER = re.compile(r"No pfor vectorization defined for (?P<operation>\w+)")
#: Operations that give each element the same bits whatever the size of the batch: they move and compare values, and
#: compute what IEEE 754 rounds correctly. Any other may use another instruction, or sum in another order.
_EXACT = {
    "Abs",
    "Add",
    "AddV2",
    "All",
    "Any",
    "Assert",
    "BatchToSpaceND",
    "BiasAdd",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "BroadcastTo",
    "Bucketize",
    "Case",
    "Cast",
    "Ceil",
    "ClipByValue",
    "ConcatV2",
    "DecodeCSV",
    "DepthToSpace",
    "Div",
    "DivNoNan",
    "EnsureShape",
    "Equal",
    "ExpandDims",
    "Fill",
    "Floor",
    "Gather",
    "GatherNd",
    "GatherV2",
    "Greater",
    "GreaterEqual",
    "Identity",
    "IdentityN",
    "If",
    "Invert",
    "IsFinite",
    "IsInf",
    "IsNan",
    "LeftShift",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "LogicalXor",
    "MatrixDiagV3",
    "Max",
    "Maximum",
    "Min",
    "Minimum",
    "Mul",
    "MulNoNan",
    "Neg",
    "NotEqual",
    "OneHot",
    "OnesLike",
    "Pack",
    "Pad",
    "PadV2",
    "ParseExampleV2",
    "ParseSingleExample",
    "PartitionedCall",
    "Rank",
    "RealDiv",
    "Relu",
    "Relu6",
    "Reshape",
    "ReverseV2",
    "RightShift",
    "Rint",
    "Roll",
    "Round",
    "Select",
    "SelectV2",
    "Shape",
    "ShapeN",
    "Sign",
    "Size",
    "Slice",
    "SpaceToBatchND",
    "SpaceToDepth",
    "Split",
    "SplitV",
    "Square",
    "SquaredDifference",
    "Squeeze",
    "StatefulPartitionedCall",
    "StatelessIf",
    "StopGradient",
    "StridedSlice",
    "Sub",
    "Tile",
    "Transpose",
    "Unpack",
    "ZerosLike",
}
#: Those that are exact in whole numbers.
_EXACT_IN_INTEGERS = {
    "AddN",
    "Cumsum",
    "FloorDiv",
    "FloorMod",
    "Mod",
    "Prod",
    "Sum",
    "TruncateDiv",
    "TruncateMod",
}


@dataclass(frozen=True, slots=True)
class Group:
    """The maps that are vectorised, in the order of the pipeline, and the batch that follows them."""

    maps: tuple[Any, ...]
    batch: Any


@dataclass(frozen=True, slots=True)
class VectorisedMaps:
    """The groups of a pipeline with their traced maps: `maps` has those of each group, over its batches."""

    groups: tuple[Group, ...]
    maps: tuple[tuple[Any, ...], ...]

    def reorder(self, stages: Sequence[Any]) -> list[Any]:
        """Return the maps and batches of a pipeline with each group's batch before its maps."""
        kept = [
            node
            for node in stages
            if not any(node is one for group in self.groups for one in group.maps)
        ]
        found: list[Any] = []
        for node in kept:
            at = next((n for n, group in enumerate(self.groups) if group.batch is node), None)
            found += [node] if at is None else [node, *self.maps[at]]
        return found


def find_groups(tree: Tree) -> tuple[Group, ...]:
    """Return the maps that can be vectorised, by the batch that follows them.

    Raises:
        CannotRebuildError: there are none; the reason is that of the last one.
    """
    groups: list[Group] = []
    refused: list[str] = []
    maps: list[Any] = []
    for node in tree.chain:
        if kind_of(node) in MAPS:
            maps.append(node)
        elif kind_of(node) in BATCHES and maps:
            kept, why = _convertible(maps, node)
            groups += [Group(tuple(kept), node)] if kept else []
            refused += [why] if why else []
        if kind_of(node) == "Prefetch" and maps:
            refused.append(f"{label_of(node)} stands between {label_of(maps[-1])} and what follows")
        if kind_of(node) in (*BATCHES, "Prefetch"):
            maps = []
    if not groups:
        raise CannotRebuildError(
            (refused or tree.left_out or ("no map stands directly before a batch",))[-1]
        )
    return tuple(groups)


def _convertible(maps: Sequence[Any], batch: Any) -> tuple[list[Any], str]:
    """Return the last of these maps, as many as can be vectorised, and the reason of the one before them."""
    if kind_of(batch) not in _STACKS:
        return (
            [],
            f"{label_of(batch)} pads elements of several shapes, which no batch before {label_of(maps[-1])} can",
        )
    kept: list[Any] = []
    for node in reversed(maps):
        if why := why_not_converted(node):
            return kept, why
        kept.insert(0, node)
    return kept, ""


def why_not_converted(node: Any) -> str:
    """Return the reason why a map cannot take whole batches, as far as its operations show; empty if it may."""
    from tensorflow.python.ops.parallel_for import pfor

    kinds = {operation.type for operation in _varying_operations(node._map_func.function)}
    if lacking := sorted(kinds - pfor._pfor_converter_registry.keys()):
        return _no_converter(node, lacking[0])
    specs = tf.nest.flatten((inputs_of(node)[0].element_spec, node.element_spec))
    return (
        ""
        if all(map(_is_fixed, specs))
        else f"the elements around {label_of(node)} have no fixed shape"
    )


def _no_converter(node: Any, operation: str) -> str:
    return f"TensorFlow cannot vectorise {operation} of {label_of(node)}"


def _is_fixed(spec: Any) -> bool:
    return type(spec) is tf.TensorSpec and bool(spec.shape.is_fully_defined())


def inexact_operation(node: Any) -> str:
    """Return an operation of a map whose last bits may depend on the number of examples; empty if it has none."""
    found = {
        operation.type
        for operation in _varying_operations(node._map_func.function)
        if not _is_exact(operation)
    }
    return min(found, default="")


def _is_exact(operation: Any) -> bool:
    if operation.type in _EXACT_IN_INTEGERS:
        return all(output.dtype.is_integer for output in operation.outputs)
    return operation.type in _EXACT


def _varying_operations(function: Any) -> Iterator[Any]:
    """Yield the operations of a map's function whose results differ between examples, also in functions it calls."""
    graph = function.graph
    captured = {id(tensor.op) for tensor in graph.internal_captures}
    yield from _operations_after(
        graph, [tensor.op for tensor in graph.inputs if id(tensor.op) not in captured]
    )


def _operations_after(graph: Any, inputs: Sequence[Any]) -> Iterator[Any]:
    """Yield the operations of a graph that depend on these ones; operations stand in the order of their making."""
    varying = {operation.name for operation in inputs}
    for operation in graph.get_operations():
        if operation.name in varying or not any(
            tensor.op.name in varying for tensor in operation.inputs
        ):
            continue
        varying.add(operation.name)
        yield operation
        for called in _called(operation, graph):
            yield from _operations_after(called, [tensor.op for tensor in called.inputs])


def _called(operation: Any, graph: Any) -> Iterator[Any]:
    """Yield the graphs of the functions that an operation calls."""
    for attribute in operation.op_def.attr:
        if attribute.type in ("func", "list(func)"):
            functions = operation.get_attr(attribute.name)
            for function in functions if isinstance(functions, list) else [functions]:
                yield graph._get_function(function.name).graph


# -- tracing --------------------------------------------------------------------------------------


def vectorise(node: Any, batches: tf.data.Dataset) -> tf.data.Dataset:
    """Return a map over batches of its elements, which is traced here: 30 to 250 ms.

    Raises:
        CannotRebuildError: TensorFlow cannot convert it.
    """
    calls = (
        {}
        if kind_of(node) == "Map"
        else {"num_parallel_calls": node._num_parallel_calls, "deterministic": True}
    )
    try:
        with _quiet():
            return batches.map(_whole(node, batches.element_spec), **calls)
    except CannotRebuildError:
        raise
    except Exception as error:
        found = _NO_CONVERTER.search(str(error))
        why = _no_converter(node, found["operation"]) if found else _cannot(node, error)
        raise CannotRebuildError(why) from error


def _cannot(node: Any, error: Exception) -> str:
    return f"TensorFlow cannot vectorise {label_of(node)} ({reason(error)})"


def _whole(node: Any, spec: Any) -> Callable[..., Any]:
    """Return the function of a map for whole batches, under the name of the user's function."""
    function, size = node._map_func.function, tf.nest.flatten(spec)[0].shape[0]

    def call(*batch: Any) -> Any:
        parts = tf.vectorized_map(
            lambda example: tuple(function(*example)),
            tuple(tf.nest.flatten(batch)),
            fallback_to_while_loop=False,
        )
        leaves = tf.nest.flatten(node.element_spec)
        shaped = [
            tf.ensure_shape(part, [size, *one.shape])
            for part, one in zip(parts, leaves, strict=True)
        ]
        return tf.nest.pack_sequence_as(node.element_spec, shaped)

    call.__name__ = getattr(getattr(node._map_func, "_func", None), "__name__", "<lambda>")
    plain: Callable[..., Any] = tf.autograph.experimental.do_not_convert(call)
    return plain


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep TensorFlow's report of a failed conversion out of the script's log: the reason is tfwatch's to say."""
    logger, thread = tf.get_logger(), threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(is_of_others)
    try:
        yield
    finally:
        logger.removeFilter(is_of_others)
