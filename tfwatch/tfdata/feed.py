"""A tf.data service that runs already feeds a `fit`: all below the last batch moves to its workers.

The batch stays with the training: the number of steps and the sizes of batches remain those of the
script. The sharding is dynamic (`distributed_epoch`): each worker takes other elements of the
source, so that an epoch holds each of them once, in another order. With `parallel_epochs` every
worker would give the whole data set.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.tfdata.pipeline_rebuild import rebuild, with_seeds
from tfwatch.tfdata.pipeline_tree import MAPS, CannotRebuildError, reshuffles
from tfwatch.tfdata.stage_names import (
    PYTHON,
    code_kinds,
    function_of,
    inputs_of,
    kind_of,
    label_of,
    nodes_of,
    operations_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The sentence on what changes in what is trained.
CHANGES = (
    "each element comes once an epoch, in another order than without workers and from run to run; "
    "elements that a lost worker held are missing from that epoch"
)
#: A graph, with the arrays of `from_tensor_slices` in it, is one message of protobuf.
MOST_BYTES = 2**31
_CONNECT_S = 2.0
_BATCHES = ("Batch", "PaddedBatch")
#: Stages that may follow the last batch: they stay with the training.
_STAYS = (*_BATCHES, "Prefetch", "Options", "Repeat")
#: Stages that give the same elements in a worker: of `take` and `cache`, for example, each worker
#: would run its own.
_MOVES = (
    *("Map", *_BATCHES, "Shuffle", "Filter", "FlatMap", "Interleave", "TFRecord", "TextLine"),
    *("Unbatch", "Restructured", "Prefetch", "Options", "TensorSlice", "Tensor", "Range", "Zip"),
)


def feed(dataset: Any, address: str) -> tuple[Any, str]:
    """Return the data set with its lower part in the workers, and a sentence on what changes.

    address: the dispatcher's HOST:PORT.

    Raises:
        CannotRebuildError: a stage cannot run in another process, or nothing listens there.
    """
    if not hasattr(dataset, "element_spec"):
        raise CannotRebuildError("its data is not a tf.data.Dataset")
    part = find_moved_part(dataset)
    _require_listener(address)
    moved = f"feed: all up to {label_of(part.below)} runs in the workers of the tf.data service"
    return part.through(address), f"{moved}: {CHANGES}"


def _require_listener(address: str) -> None:
    """Raise where nothing listens: TensorFlow itself would ask for an hour."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except OSError as error:
        why = error.strerror or error
        raise CannotRebuildError(f"no tf.data service responds at {address}: {why}") from error


@dataclass(frozen=True, slots=True)
class MovedPart:
    """A pipeline, split for the service."""

    #: The whole pipeline.
    top: Any
    #: What moves to the workers.
    below: Any
    #: What stays with the training, from the bottom up.
    above: tuple[Any, ...]

    def through(self, address: str) -> Any:
        """Return the pipeline with its lower part in the workers of a service."""
        import tensorflow as tf

        service = tf.data.experimental.service.distribute("distributed_epoch", f"grpc://{address}")
        data = self.below.apply(service)
        for node in self.above:
            data = rebuild(node, data)
        return _with_length(data, int(self.top.cardinality()))


def find_moved_part(dataset: Any) -> MovedPart:
    """Split a pipeline below its last batch.

    Raises:
        CannotRebuildError: a stage cannot run elsewhere, or would give other elements there.
    """
    import tensorflow as tf

    if isinstance(dataset, tf.distribute.DistributedDataset):
        raise CannotRebuildError(
            "a strategy has distributed the data set already: give fit the data set itself"
        )
    chain = _chain(dataset)
    moving = _count_moving([_kinds(node) for node in chain])
    if not moving:
        top = next(node for node in reversed(chain) if kind_of(node) not in ("Prefetch", "Options"))
        raise CannotRebuildError(
            f"{label_of(top)} comes after the last batch, and only what is below it moves"
        )
    node, above = chain[moving - 1], chain[moving:]
    nodes = list(nodes_of(node))
    if not any(kind_of(one) in MAPS for one in nodes):
        raise CannotRebuildError("no map is below the last batch")
    if why := next(filter(None, map(_why_not, nodes)), ""):
        raise CannotRebuildError(why)
    # Options stand at the top of a pipeline and hold for all of it; they do not reach a worker.
    return MovedPart(dataset, _unseeded(node, nodes).with_options(dataset.options()), tuple(above))


def _unseeded(dataset: Any, nodes: list[Any]) -> Any:
    """Return the part whose shuffles draw new seeds: a worker repeats the order of a given seed.

    A part that cannot be built again stays as it is.
    """
    try:
        return with_seeds(dataset, {id(node): (0, 0) for node in nodes if reshuffles(node)})
    except CannotRebuildError:
        return dataset


def _with_length(data: Any, batches: int) -> Any:
    """Let Keras know the number of batches where it was known: else it warns after an epoch.

    `assert_cardinality` would end the training with an error once a lost worker's elements miss.
    """
    import tensorflow as tf

    if batches >= 0:
        data.cardinality = lambda: tf.constant(batches, tf.int64)
    return data


def _chain(dataset: Any) -> list[Any]:
    """Return the stages from the lowest one with a single source to the top."""
    chain = [dataset]
    while len(sources := inputs_of(chain[0])) == 1:
        chain.insert(0, sources[0])
    return chain


def _count_moving(kinds: Sequence[Sequence[str]]) -> int:
    """Return how many stages are below the last batch, which stays with the training; 0 without
    such a batch.

    kinds: those of each stage as `code_kinds` returns them, the source first. A map that is fused
    with the batch moves.
    """
    moving = 0
    for n in range(len(kinds) - 1, -1, -1):
        if any(kind in _BATCHES for kind in kinds[n]):
            moving = n + (len(kinds[n]) > 1)
        if any(kind not in _STAYS for kind in kinds[n]):
            break
    return moving


def _kinds(node: Any) -> tuple[str, ...]:
    return code_kinds(kind_of(node))


def _why_not(node: Any) -> str:
    kind = kind_of(node)
    if kind in ("TensorSlice", "Tensor") and _bytes_of(node) >= MOST_BYTES:
        return f"{label_of(node)} holds 2 GiB or more, which the service cannot send"
    wrapper = function_of(node)
    why = _why_function_stays(wrapper.function) if wrapper is not None else ""
    if not why and not all(kind in _MOVES for kind in _kinds(node)):
        why = "is not known to give the same elements in a worker"
    return f"{label_of(node)} {why}" if why else ""


def _bytes_of(node: Any) -> int:
    return sum(
        int(tensor.shape.num_elements() or 0) * tensor.dtype.size for tensor in node._tensors
    )


def _why_function_stays(function: Any) -> str:
    captured = [
        tensor.dtype.name
        for tensor in function.captured_inputs
        if tensor.dtype.name in ("resource", "variant")
    ]
    if captured:
        return (
            "uses a variable, a table or a data set of this process, which the workers do not have"
        )
    if any(operation.type in PYTHON for operation in operations_of(function.graph)):
        return "calls Python of this process, which the workers cannot"
    return ""
