"""tf.data's own model of a pipeline (`ModelProto`): its stages."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tfwatch.tfdata.stage_names import READERS, code_kinds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Nodes whose second and later inputs are the data sets that their function makes, one after
#: another.
_NESTING = {"FlatMap", "Interleave"}
#: Nodes that hold elements; a parallel node also holds the elements that it makes ahead.
_HOLDING = {"Shuffle", "Prefetch", "Cache"}
#: They go on when their input is gone: a buffer of the whole data, as of `shuffle(len(files))`, has
#: taken all of it before the first step of an epoch.
_KEEPS_ON = {"Shuffle", "Cache"}
#: Nodes that TensorFlow adds, whose work belongs to the node above.
_PARTS = {"MemoryCacheImpl"}
#: The node that restarts a pipeline over tfwatch's gate; no other stage over the gate can be of
#: this kind.
RESTART_KIND = "ForeverRepeat"
_OLD = "this TensorFlow cannot report tf.data's model, which it does from 2.17 on"
_UPGRADE = "install a newer TensorFlow"
_NOT_AUTOTUNED = (
    "tf.data keeps no model of a pipeline that is not autotuned (options.autotune.enabled is off)"
)
AUTOTUNE_FIX = "turn options.autotune.enabled on"
_DISTRIBUTED = (
    "the iterator of a strategy has no model: only the stages of the code are known, without"
    " figures"
)
_DISTRIBUTED_FIX = (
    "a first switch by key gives it figures; else measure the data set by itself: for batch in"
    " tfwatch.track(dataset)"
)
ON_DEVICE = "the batches come from an iterator on the GPU (prefetch_to_device), which has no model"
NOT_TFDATA = "the batches do not come from a tf.data iterator"


class NoModelError(Exception):
    """There is no model of a pipeline: the reason, and a fix."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Inner:
    """A data set that a stage's function made: its total work, and the elements that it gave to the
    stage."""

    time_ns: int
    elements: int


@dataclass(frozen=True, slots=True)
class Node:
    """One stage of the model, with totals since its iterator began.

    number: the node's; a new number in the same place means that the stage was restarted. time_ns:
    processing time, summed over workers. per_batch: elements that it outputs for one batch of the
    pipeline. parallelism: NaN if no worker thread is its own. inner: by the node's number. waiting:
    elements that it took in and has not output; NaN if unknown. takes: input elements for one
    output. cut_off: its input is gone, as at the end of the data.
    """

    number: int
    kind: str
    time_ns: int
    elements: int
    per_batch: float
    parallelism: float
    buffered: float
    buffer_size: float
    buffered_bytes: float
    inner: Mapping[int, Inner]
    waiting: float
    takes: float = 1.0
    cut_off: bool = False
    reads_files: bool = False


def read_model(iterator: Any) -> Any:
    """Return tf.data's model of an iterator.

    Raises:
        NoModelError: there is none.
    """
    if "tensorflow" not in sys.modules:
        raise NoModelError(NOT_TFDATA)
    import tensorflow as tf

    if isinstance(iterator, tf.distribute.DistributedIterator):
        raise NoModelError(_DISTRIBUTED, _DISTRIBUTED_FIX)
    if not isinstance(iterator, tf.data.Iterator):
        raise NoModelError(NOT_TFDATA)
    if "GPU" in str(getattr(getattr(iterator, "_iterator_resource", None), "device", "")).upper():
        raise NoModelError(ON_DEVICE)
    get_model = getattr(tf.data.experimental, "get_model_proto", None)
    if get_model is None:
        raise NoModelError(_OLD, _UPGRADE)
    dataset = getattr(iterator, "_dataset", None)
    if dataset is not None and dataset.options().autotune.enabled is False:
        # TensorFlow logs a warning each time that it is asked for such a model.
        raise NoModelError(_NOT_AUTOTUNED, AUTOTUNE_FIX)
    try:
        return get_model(iterator)
    except tf.errors.NotFoundError:
        raise NoModelError(_NOT_AUTOTUNED, AUTOTUNE_FIX) from None


def read_nodes(model: Any) -> tuple[list[Node], int]:
    """Return the stages of a `ModelProto`, source first, and the number of elements that its
    iterator gave."""
    nodes = model.nodes
    root = nodes[model.output]
    nodes_read: list[Node] = []
    top = nodes[root.inputs[0]] if root.name == "Root" and root.inputs else root
    _add(nodes_read, nodes, top, 1.0)
    return nodes_read, int(root.num_elements)


def _add(nodes_read: list[Node], nodes: Mapping[int, Any], node: Any, per_batch: float) -> None:
    inputs = [nodes[number] for number in node.inputs if number in nodes]
    nesting = code_kinds(node.name)[0] in _NESTING
    own, nested = (inputs[:1], inputs[1:]) if nesting else (inputs, [])
    for source in own:
        ratio = float(node.ratio)
        if ratio <= 0:
            ratio = source.num_elements / node.num_elements if node.num_elements else math.nan
        _add(nodes_read, nodes, source, per_batch * ratio)
    stage = _node(nodes, node, nested, per_batch, own)
    if own and own[0].name in _PARTS:  # the work and the buffer are those of the part
        part = nodes_read.pop()
        stage = replace(
            stage,
            time_ns=stage.time_ns + part.time_ns,
            buffered=part.buffered,
            buffered_bytes=part.buffered_bytes,
            waiting=part.waiting,
        )
    nodes_read.append(stage)


def _node(
    nodes: Mapping[int, Any], node: Any, nested: Sequence[Any], per_batch: float, own: Sequence[Any]
) -> Node:
    settings = {
        p.name: float(p.state_value if p.state_value > 0 else p.value) for p in node.parameters
    }
    kinds = set(code_kinds(node.name))
    holds = bool(kinds & _HOLDING) or node.name in _PARTS or "parallelism" in settings
    inner, inner_kinds = {}, set[str]()
    for one in nested:
        parts = subtree(nodes, one)
        work_ns = sum(int(part.processing_time) for part in parts)
        inner[int(one.id)] = Inner(work_ns, int(one.num_elements))
        inner_kinds.update(kind for part in parts for kind in code_kinds(part.name))
    return Node(
        number=int(node.id),
        kind=str(node.name),
        time_ns=int(node.processing_time),
        elements=int(node.num_elements),
        per_batch=per_batch,
        parallelism=math.nan if "Prefetch" in kinds else settings.get("parallelism", 1.0),
        buffered=float(node.buffered_elements) if holds else math.nan,
        buffer_size=settings.get("buffer_size", math.nan),
        buffered_bytes=float(node.buffered_bytes) if holds else math.nan,
        inner=inner,
        waiting=_waiting(node, own),
        takes=max(1.0, float(node.ratio)),
        cut_off=node.ratio > 0 and not own and not kinds & _KEEPS_ON,
        reads_files=bool((kinds | inner_kinds) & set(READERS)),
    )


def subtree(nodes: Mapping[int, Any], node: Any) -> list[Any]:
    """Return a node of a `ModelProto`, and all nodes below it."""
    return [node, *(one for at in node.inputs if at in nodes for one in subtree(nodes, nodes[at]))]


def _waiting(node: Any, own: Sequence[Any]) -> float:
    """Return the elements taken from the input that are neither output nor ready in a buffer."""
    if node.ratio <= 0 or len(own) != 1:
        return math.nan
    return float(
        own[0].num_elements - node.num_elements * node.ratio - node.buffered_elements * node.ratio
    )


def work_since(before: Node | None, now: Node) -> tuple[float, int]:
    """Return nanoseconds of work and elements output since the last reading, or since a new node
    began.

    A stage's inner data sets vanish one after another with their figures, so the time per element
    of the remaining ones is applied to all elements.
    """
    if before is None or before.number != now.number or now.elements < before.elements:
        before = None
    elements = now.elements - (before.elements if before else 0)
    time_ns = float(now.time_ns - (before.time_ns if before else 0))
    inner_ns = inner_elements = 0
    for number, one in now.inner.items():
        was = before.inner.get(number) if before else None
        inner_ns += one.time_ns - (was.time_ns if was else 0)
        inner_elements += one.elements - (was.elements if was else 0)
    share = max(1.0, elements / inner_elements) if inner_elements else 1.0
    return time_ns + inner_ns * share, elements


def without_gate(nodes: Sequence[Node]) -> list[Node]:
    """Return the stages above tfwatch's gate; all where there is none.

    See `live_switch`: the gate is a range, take_while, map (it takes), take_while, map; a repeat at
    the end restarts.
    """
    if nodes and nodes[-1].kind == RESTART_KIND:
        nodes = nodes[:-1]
    whiles = [n for n, node in enumerate(nodes) if node.kind == "TakeWhile"]
    is_gated = len(whiles) > 1 and whiles[1] - whiles[0] == 2
    # A Python generator on the gate hides it from this model.
    return list(nodes[whiles[1] + 2 :] if is_gated else nodes)


def find_stuck_stage(nodes: Sequence[Node]) -> int | None:
    """Return the stage that holds a stalled pipeline up: from its end, the first with an element in
    work.

    A stage without one waits for the stage before it, and so does an incomplete batch.
    """
    for n in range(len(nodes) - 1, -1, -1):
        if nodes[n].inner or n == 0 or nodes[n].waiting >= nodes[n].takes:
            return n
    return None
