"""tf.data's own model of a pipeline (`ModelProto`), node by node, in the order of the code.

Whether a long wait went to filling a shuffle buffer: what tf.data's own model of the pipeline says.
"""

from __future__ import annotations

import math
import sys
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tfwatch.tfdata.stage_names import READERS, inputs_of, normal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Nodes whose further inputs are the data sets that their function makes, one after another.
_NESTING = {"FlatMap", "Interleave"}
#: Nodes that hold elements; a parallel one holds as many as it works ahead.
_HOLDING = {"Shuffle", "Prefetch", "Cache"}
#: Nodes of TensorFlow's own, whose work belongs to the node above.
_PARTS = {"MemoryCacheImpl"}
#: By which a pipeline over tfwatch's gate begins anew, and which nothing else over it can be.
LASTS = "ForeverRepeat"
_OLD = "tf.data's model can be read from TensorFlow 2.17 on"
_UPGRADE = "install a newer TensorFlow"
_UNTUNED = "the pipeline is not autotuned (options.autotune.enabled is off), and then tf.data keeps no model of it"
TUNE = "leave options.autotune.enabled on"
_SPREAD = "the batches are spread over several devices, and a DistributedIterator has no model"
_ON_DEVICE = "the batches come from an iterator on the GPU (prefetch_to_device), which has no model"
NOT_TFDATA = "the batches come from no tf.data iterator"


class NoModelError(Exception):
    """A pipeline cannot be read: why, and what helps."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Inner:
    """A data set that a stage's function made: the work in all of it, and what it handed to the stage."""

    time_ns: int
    elements: int


@dataclass(frozen=True, slots=True)
class Node:
    """One stage as the model has it, totals since its iterator began.

    number: the node's; another one in the same place began anew. time_ns: processing time, summed over workers.
    per_batch: elements that it gives for a batch of the pipeline. parallelism: NaN where it has no thread's work of
    its own. inner: by the number of the node. waiting: elements that it took in and has not given out; NaN unknown.
    takes: how many of them one of its own is made of. cut_off: its input is gone, as at the end of the data.
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


def model_of(iterator: Any) -> Any:
    """tf.data's model of an iterator.

    Raises:
        NoModelError: it has none.
    """
    if "tensorflow" not in sys.modules:
        raise NoModelError(NOT_TFDATA)
    import tensorflow as tf

    if isinstance(iterator, tf.distribute.DistributedIterator):
        raise NoModelError(_SPREAD)
    if not isinstance(iterator, tf.data.Iterator):
        raise NoModelError(NOT_TFDATA)
    if "GPU" in str(getattr(getattr(iterator, "_iterator_resource", None), "device", "")).upper():
        raise NoModelError(_ON_DEVICE)
    get_model = getattr(tf.data.experimental, "get_model_proto", None)
    if get_model is None:
        raise NoModelError(_OLD, _UPGRADE)
    try:
        return get_model(iterator)
    except tf.errors.NotFoundError:
        raise NoModelError(_UNTUNED, TUNE) from None


def nodes_of(model: Any) -> tuple[list[Node], int]:
    """The stages of a `ModelProto`, source first, and how many elements its iterator gave."""
    nodes = model.nodes
    root = nodes[model.output]
    found: list[Node] = []
    top = nodes[root.inputs[0]] if root.name == "Root" and root.inputs else root
    _add(found, nodes, top, 1.0)
    return found, int(root.num_elements)


def _add(found: list[Node], nodes: Mapping[int, Any], node: Any, per_batch: float) -> None:
    inputs = [nodes[number] for number in node.inputs if number in nodes]
    nesting = normal(node.name)[0] in _NESTING
    own, nested = (inputs[:1], inputs[1:]) if nesting else (inputs, [])
    for source in own:
        _add(found, nodes, source, per_batch * _ratio(node, source))
    made = _node(nodes, node, nested, per_batch, own)
    found.append(_with(found.pop(), made) if own and own[0].name in _PARTS else made)


def _with(part: Node, node: Node) -> Node:
    """A node, and what TensorFlow keeps in a node of its own below it."""
    return replace(
        node,
        time_ns=node.time_ns + part.time_ns,
        buffered=part.buffered,
        buffered_bytes=part.buffered_bytes,
        waiting=part.waiting,
    )


def _ratio(node: Any, source: Any) -> float:
    """Elements of `source` for one of `node`."""
    if node.ratio > 0:
        return float(node.ratio)
    return source.num_elements / node.num_elements if node.num_elements else math.nan


def _node(nodes: Mapping[int, Any], node: Any, nested: Sequence[Any], per_batch: float, own: Sequence[Any]) -> Node:
    settings = {p.name: float(p.state_value if p.state_value > 0 else p.value) for p in node.parameters}
    kinds = set(normal(node.name))
    holds = bool(kinds & _HOLDING) or node.name in _PARTS or "parallelism" in settings
    below = {int(one.id): _inner(nodes, one) for one in nested}
    inner_kinds = {part for one in nested for part in _kinds(nodes, one)}
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
        inner=below,
        waiting=_waiting(node, own),
        takes=max(1.0, float(node.ratio)),
        cut_off=node.ratio > 0 and not own and "Cache" not in kinds,
        reads_files=bool((kinds | inner_kinds) & set(READERS)),
    )


def _inner(nodes: Mapping[int, Any], node: Any) -> Inner:
    return Inner(sum(int(one.processing_time) for one in tree(nodes, node)), int(node.num_elements))


def _kinds(nodes: Mapping[int, Any], node: Any) -> set[str]:
    return {part for one in tree(nodes, node) for part in normal(one.name)}


def tree(nodes: Mapping[int, Any], node: Any) -> list[Any]:
    """A node of a `ModelProto`, and all that it takes from."""
    return [node, *(one for at in node.inputs if at in nodes for one in tree(nodes, nodes[at]))]


def _waiting(node: Any, own: Sequence[Any]) -> float:
    """Elements taken from the input that were neither given out nor are held ready."""
    if node.ratio <= 0 or len(own) != 1:
        return math.nan
    return float(own[0].num_elements - node.num_elements * node.ratio - node.buffered_elements * node.ratio)


def spent(before: Node | None, now: Node) -> tuple[float, int]:
    """Nanoseconds of work, and elements given, since the reading before; of a node that is new, since it began.

    A stage's inner data sets go one after another, and their figures with them: what those that are left show of an
    element stands for all.
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


def without_gate(nodes: Sequence[Node]) -> tuple[Node | None, list[Node]]:
    """A pipeline over tfwatch's gate: the node that takes from the source, whose work is the source's, and the stages.

    See `pipelines`: a counter, take_while, map (it takes), take_while, map; at the end a repeat by which it lasts.
    """
    if nodes and nodes[-1].kind == LASTS:
        nodes = nodes[:-1]
    whiles = [n for n, node in enumerate(nodes) if node.kind == "TakeWhile"]
    if len(whiles) < 2 or whiles[1] - whiles[0] != 2:
        return None, list(nodes)  # a Python generator stands on it: it is no part of this model
    return nodes[whiles[0] + 1], list(nodes[whiles[1] + 2 :])


def stuck(nodes: Sequence[Node]) -> int | None:
    """Where a pipeline that gives nothing stands: looking from its end, the first stage that holds an element in work.

    A stage that holds none waits for the one before it, and so does a batch that is not complete.
    """
    for n in range(len(nodes) - 1, -1, -1):
        node = nodes[n]
        if node.inner or n == 0:
            return n
        if node.waiting >= node.takes:
            return n
    return None


#: Shorter waits are no spikes, and nothing is asked.
LATE_NS = 15_000_000
#: Of a wait, and of the pipeline's work, the filling is this much or it is not what was waited for.
_MOST = 0.5
#: A buffer that is filled anew in mid-run took no longer than so many times the wait. In a model, what ran before
#: cannot be told from what ran in the wait otherwise.
_ANEW = 2.0
#: A wait that may have been a filling in mid-run is so many times as long as late ones usually are, the last few of
#: them: where every batch is late, not every batch is asked about.
_LONGER = 2.0
_FEW = 8


class Filling:
    """The shuffle buffers of one iterator.

    tf.data fills one before it hands out its first element: at the start of each epoch, and behind a `repeat` each
    time that the data begins anew. Asking costs 0.2 ms, 5 ms the first time in a process.
    """

    def __init__(self, iterator: Any) -> None:
        # An iterator that goes with its last handle holds up whoever lets go of it (see `disposal`).
        self._iterator = (lambda: None) if iterator is None else weakref.ref(iterator)
        self._begun = False
        self._refills = _refills(getattr(iterator, "_dataset", None))
        self._usual_ns = 0.0

    def explains(self, wait_ns: float) -> bool:
        """Whether the wait that has just ended was spent on it, most of all. False for good where there is no model."""
        iterator, begun, self._begun = self._iterator(), self._begun, True
        found = iterator is not None and (not begun or self._may_refill(wait_ns)) and self._asked(wait_ns, begun)
        if not found:
            self._usual_ns += (wait_ns - self._usual_ns) / _FEW if begun else 0.0
        return found

    def _may_refill(self, wait_ns: float) -> bool:
        return self._refills and wait_ns > _LONGER * self._usual_ns

    def _asked(self, wait_ns: float, begun: bool) -> bool:
        try:
            return explained(model_of(self._iterator()).nodes, wait_ns, begun=begun)
        except NoModelError:
            self._iterator = lambda: None
            return False


def explained(nodes: Mapping[int, Any], wait_ns: float, *, begun: bool) -> bool:
    """Whether filling took most of a wait, by tf.data's model: processing time, elements out and elements held.

    begun: the iterator had given batches before.
    """
    filling_ns = sum(_filling_ns(nodes, node) for node in nodes.values() if node.name.startswith("Shuffle"))
    if filling_ns < _MOST * wait_ns:
        return False
    if begun:
        return filling_ns <= _ANEW * wait_ns
    return filling_ns >= _MOST * sum(float(node.processing_time) for node in nodes.values())


def _filling_ns(nodes: Mapping[int, Any], shuffle: Any) -> float:
    """What making the elements took that a shuffle holds and has not handed out."""
    made = shuffle.buffered_elements + shuffle.num_elements
    work_ns = sum(float(node.processing_time) for node in tree(nodes, shuffle))
    return work_ns * shuffle.buffered_elements / made if made else 0.0


def _refills(dataset: Any) -> bool:
    """Whether a pipeline repeats a shuffle: then its buffer is filled anew in mid-run."""
    if dataset is None:
        return False
    if type(dataset).__name__ == "_RepeatDataset" and _has_shuffle(dataset):
        return True
    return any(_refills(source) for source in inputs_of(dataset))


def _has_shuffle(dataset: Any) -> bool:
    return type(dataset).__name__ == "_ShuffleDataset" or any(_has_shuffle(source) for source in inputs_of(dataset))
