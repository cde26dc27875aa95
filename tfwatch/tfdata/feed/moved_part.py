"""The part of a pipeline that moves to the workers of the tf.data service: all below its last batch.

The batch stays with the training: the number of steps and the sizes of batches remain those of the script. The sharding
is dynamic (`distributed_epoch`): each worker takes other elements of the source, so that an epoch holds each of them
once, in another order. With `parallel_epochs` every worker would give the whole data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.tfdata.pipeline_rebuild import rebuild
from tfwatch.tfdata.pipeline_tree import BATCHES, MAPS, CannotRebuildError, kind_of, label_of
from tfwatch.tfdata.stages.stage_names import inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The sentence on what changes in what is trained.
CHANGES = (
    "each element comes once an epoch, in another order than without workers and from run to run; "
    "elements that a lost worker held are missing from that epoch"
)
_STAYS = (*BATCHES, "Prefetch", "Options", "Repeat")
#: Stages of which each worker would run its own, over its part of the elements.
_WHOLE = {
    "Take": "each worker would take as many",
    "Skip": "each worker would skip as many",
    "Shard": "each worker would take its own share of its share",
    "Cache": "each worker would keep another part in each epoch",
    "Repeat": "epochs would run into one another",
}
_KNOWN = (
    *MAPS, *BATCHES, "Shuffle", "Filter", "FlatMap", "Interleave", "ParallelInterleave", "TFRecord", "TextLine",
    "Unbatch", "Prefetch", "Options", "TensorSlice", "Tensor", "Range", "Zip",
)  # fmt: skip
_FUNCTIONS = ("_map_func", "_predicate")
_PYTHON = ("EagerPyFunc", "PyFunc", "PyFuncStateless")
#: A graph, with the arrays of `from_tensor_slices` in it, is one message of protobuf.
MOST_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class MovedPart:
    """A pipeline, split for the service. below: what moves; above: what stays, from the bottom up; top: the whole."""

    top: Any
    below: Any
    above: tuple[Any, ...]

    def through(self, service: str, *, is_local: bool) -> Any:
        """Return the pipeline with its lower part in the workers of a service."""
        import tensorflow as tf

        data = self.below.apply(
            tf.data.experimental.service.distribute(
                "distributed_epoch", f"grpc://{service}", compression=None if is_local else "AUTO"
            )
        )
        for node in self.above:
            data = rebuild(node, data, {})
        return _with_length(data, int(self.top.cardinality()))


def find_moved_part(dataset: Any) -> MovedPart:
    """Split a pipeline below its last batch.

    Raises:
        CannotRebuildError: a stage cannot run in another process, or would give other elements there.
    """
    above: list[Any] = []
    node = dataset
    while kind_of(node) in _STAYS:
        above.append(node)
        node = inputs_of(node)[0]
    if not any(kind_of(one) in BATCHES for one in above):
        raise CannotRebuildError(f"{label_of(node)} comes after the last batch, and only what is below it moves")
    while above and kind_of(above[-1]) not in BATCHES:
        node = above.pop()
    nodes = list(_nodes(node))
    if not any(kind_of(one) in MAPS for one in nodes):
        raise CannotRebuildError("no map is below the last batch")
    if why := next(filter(None, map(_why_not, nodes)), ""):
        raise CannotRebuildError(why)
    return MovedPart(dataset, node, tuple(reversed(above)))


def _with_length(data: Any, batches: int) -> Any:
    """Let Keras know the number of batches where it was known: else it warns when the first epoch ends.

    `assert_cardinality` would end the training with an error once a lost worker's elements are missing.
    """
    import tensorflow as tf

    if batches >= 0:
        data.cardinality = lambda: tf.constant(batches, tf.int64)
    return data


def _nodes(dataset: Any) -> Iterator[Any]:
    yield dataset
    for source in inputs_of(dataset):
        yield from _nodes(source)


def _why_not(node: Any) -> str:
    kind = kind_of(node)
    if kind in _WHOLE:
        return f"{label_of(node)} cannot move: {_WHOLE[kind]}"
    if kind in ("TensorSlice", "Tensor") and _bytes_of(node) >= MOST_BYTES:
        return f"{label_of(node)} holds 2 GiB or more, which the service cannot send"
    for name in _FUNCTIONS:
        if (wrapper := getattr(node, name, None)) is not None and (why := _why_function_stays(wrapper.function)):
            return f"{label_of(node)} {why}"
    return "" if kind in _KNOWN else f"{label_of(node)} is not known to give the same elements in a worker"


def _bytes_of(node: Any) -> int:
    return sum(int(tensor.shape.num_elements() or 0) * tensor.dtype.size for tensor in node._tensors)


def _why_function_stays(function: Any) -> str:
    captured = [
        tensor.dtype.name for tensor in function.captured_inputs if tensor.dtype.name in ("resource", "variant")
    ]
    if captured:
        return "uses a variable, a table or a data set of this process, which the workers do not have"
    if any(kind in _PYTHON for kind in _operations(function.graph)):
        return "calls Python of this process, which the workers cannot"
    return ""


def _operations(graph: Any) -> Iterator[str]:
    for definition in (graph.as_graph_def(),):
        yield from (node.op for node in definition.node)
        yield from (node.op for function in definition.library.function for node in function.node_def)
