"""A tf.data service that runs already feeds a `fit`: all below the last batch moves to its workers.

The batch stays with the training: the number of steps and the sizes of batches remain those of the
script. The sharding is dynamic (`distributed_epoch`): each worker takes other elements of the
source, so that an epoch holds each of them once, in another order. With `parallel_epochs` every
worker would give the whole data set.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from itertools import takewhile
from typing import Any

from tfwatch.tfdata.pipeline_rebuild import rebuild, with_seeds
from tfwatch.tfdata.pipeline_tree import MAPS, CannotRebuildError, reshuffles
from tfwatch.tfdata.stage_names import (
    PYTHON,
    code_kinds,
    function_of,
    kind_of,
    label_of,
    nodes_of,
    operations_of,
    spine_of,
)

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
_MOVES = {
    *("Map", *_BATCHES, "Shuffle", "Filter", "FlatMap", "Interleave", "TFRecord", "TextLine"),
    *("Unbatch", "Restructured", "Prefetch", "Options", "TensorSlice", "Tensor", "Range", "Zip"),
}


def feed(dataset: Any, address: str) -> tuple[Any, str]:
    """Return the data set with its lower part in the workers, and a sentence on what changes.

    address: the dispatcher's HOST:PORT.

    Raises:
        CannotRebuildError: a stage cannot run in another process, or nothing listens there.
    """
    import tensorflow as tf

    if isinstance(dataset, tf.distribute.DistributedDataset):
        raise CannotRebuildError(
            "a strategy has distributed the data set already: give fit the data set itself"
        )
    if not hasattr(dataset, "element_spec"):
        raise CannotRebuildError("its data is not a tf.data.Dataset")
    below, above = _split(dataset)
    _require_listener(address)
    service = tf.data.experimental.service.distribute("distributed_epoch", f"grpc://{address}")
    data = below.apply(service)
    for node in above:
        data = rebuild(node, data)
    if (batches := dataset.cardinality()) >= 0:
        # Else Keras warns after an epoch. `assert_cardinality` would end the training with an error
        # once a lost worker's elements miss.
        data.cardinality = lambda: batches
    moved = f"feed: all up to {label_of(below)} runs in the workers of the tf.data service"
    return data, f"{moved}: {CHANGES}"


def _require_listener(address: str) -> None:
    """Raise where nothing listens: TensorFlow itself would ask for an hour."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except OSError as error:
        why = error.strerror or error
        raise CannotRebuildError(f"no tf.data service responds at {address}: {why}") from error


def _split(dataset: Any) -> tuple[Any, list[Any]]:
    """Split a pipeline below its last batch: return what moves, and the stages that stay, from the
    bottom up.

    Raises:
        CannotRebuildError: a stage cannot run elsewhere, or would give other elements there.
    """
    spine = spine_of(dataset)
    # Of a fused stage the first kind counts: a map that is fused with the batch does not stay.
    first_kinds = (code_kinds(kind_of(node))[0] for node in spine)
    kinds = [*takewhile(_STAYS.__contains__, first_kinds)]
    moving = max((n for n, kind in enumerate(kinds, 1) if kind in _BATCHES), default=0)
    if not moving:
        raise CannotRebuildError(_why_no_batch_stays(spine[len(kinds)]))
    below = spine[moving]
    nodes = list(nodes_of(below))
    has_map = any(kind_of(one) in MAPS for one in nodes)
    why = next(filter(None, map(_why_not, nodes)), "")
    if why or not has_map:
        raise CannotRebuildError(why if has_map else "no map is below the last batch")
    # Its shuffles draw new seeds: a worker repeats the order of a given seed. A part that cannot be
    # built again stays as it is.
    with suppress(CannotRebuildError):
        below = with_seeds(below, {id(node): (0, 0) for node in nodes if reshuffles(node)})
    # Options stand at the top of a pipeline and hold for all of it; they do not reach a worker.
    return below.with_options(dataset.options()), spine[:moving][::-1]


def _why_no_batch_stays(top: Any) -> str:
    """Return why no batch stays with the training. top: the first stage that cannot stay."""
    if code_kinds(kind_of(top)) == ("Map", "Batch"):
        return "map_and_batch is one stage: no map moves without its batch; use map, then batch"
    return f"{label_of(top)} comes after the last batch, and only what is below it moves"


def _why_not(node: Any) -> str:
    if kind_of(node) in ("TensorSlice", "Tensor"):
        sizes = (int(one.shape.num_elements() or 0) * one.dtype.size for one in node._tensors)
        if sum(sizes) >= MOST_BYTES:
            return f"{label_of(node)} holds 2 GiB or more, which the service cannot send"
    wrapper = function_of(node)
    why = _why_function_stays(wrapper.function) if wrapper is not None else ""
    if not why and not _MOVES.issuperset(code_kinds(kind_of(node))):
        why = "is not known to give the same elements in a worker"
    return f"{label_of(node)} {why}" if why else ""


def _why_function_stays(function: Any) -> str:
    if any(one.dtype.name in ("resource", "variant") for one in function.captured_inputs):
        return (
            "uses a variable, a table or a data set of this process, which the workers do not have"
        )
    if any(operation.type in PYTHON for operation in operations_of(function.graph)):
        return "calls Python of this process, which the workers cannot"
    return ""
