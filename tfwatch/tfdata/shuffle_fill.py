"""The waits of a training that filled a shuffle buffer.

tf.data fills a buffer before it outputs the first element: at the start of each epoch, and before a
`repeat` each time that the data restarts. Its model says what that took while the data lasts. It
forgets an input that is exhausted, and with it the work for a buffer that took all elements: such a
fill is the part of a wait that no other stage worked.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tfwatch.tfdata.pipeline_tree import BATCHES, MAPS, NEUTRAL, ORDERS
from tfwatch.tfdata.stage_model import NoModelError, read_model, subtree
from tfwatch.tfdata.stage_names import (
    dataset_of,
    inputs_of,
    kind_of,
    label_of,
    nodes_of,
    spine_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.runs.writer import RunWriter

#: Shorter waits are no spikes, and the model is not read for them.
LATE_NS = 15_000_000
#: A shorter wait, before which a buffer took all elements, may be the start of the other stages.
_LATE_WITH_ALL_NS = 50_000_000
#: Filling is the cause of a wait if it is at least this share of it, and of the pipeline's work.
_FILL_SHARE = 0.5
#: A refill in mid-run takes at most so many times the wait; else the model's figures include work
#: from before it.
_REFILL_FACTOR = 2.0
#: A wait may be a refill in mid-run if it is so many times as long as the average of the last late
#: waits: if every batch is late, the model is not read for every batch.
_LATE_FACTOR = 2.0
_AVERAGED = 8
_SHUFFLE = "Shuffle"
#: Stages that hand on what is there already, and sources in memory: a buffer over them is filled at
#: once.
_CHEAP = (
    *(*BATCHES, *ORDERS, *NEUTRAL, "AssertCardinality", "Concatenate"),
    *("Range", "Tensor", "TensorSlice", "Zip"),
)
_CACHE = "Cache"


class ShuffleFill:
    """The shuffle buffers of one iterator. Reading the model costs 0.2 ms, 5 ms the first time in a
    process."""

    def __init__(self, iterator: Any) -> None:
        # Deleting an iterator blocks the thread that drops its last reference (see `disposal`).
        self._iterator = (lambda: None) if iterator is None else weakref.ref(iterator)
        self._begun = False
        self._refills = _refills(dataset_of(iterator))
        self._usual_ns = 0.0
        self._worked_ns: dict[int, float] = {}

    def is_cause_of(self, wait_ns: float) -> bool:
        """Return whether the wait that has just ended mostly filled a buffer; always False without
        a model."""
        iterator, begun, self._begun = self._iterator(), self._begun, True
        may_fill = not begun or (self._refills and wait_ns > _LATE_FACTOR * self._usual_ns)
        is_fill = iterator is not None and may_fill and self._read(iterator, wait_ns, begun)
        if not is_fill:
            self._usual_ns += (wait_ns - self._usual_ns) / _AVERAGED if begun else 0.0
        return is_fill

    def describe_in(self, writer: RunWriter) -> None:
        """Name the shuffle, and the map that it can come before, in run.json."""
        shuffle, below = find_filled_shuffle(dataset_of(self._iterator()))
        writer.describe(filled_shuffle=shuffle, map_below_shuffle=below)

    def _read(self, iterator: Any, wait_ns: float, begun: bool) -> bool:
        try:
            nodes = read_model(iterator).nodes
        except NoModelError:
            self._iterator = lambda: None
            return False
        before = self._worked_ns
        self._worked_ns = {at: float(node.processing_time) for at, node in nodes.items()}
        if is_shuffle_fill(nodes, wait_ns, begun=begun):
            return True
        shuffles = _shuffles_in(dataset_of(iterator))
        return is_fill_with_all(nodes, wait_ns, before) and any(map(_is_over_work, shuffles))


def is_shuffle_fill(nodes: Mapping[int, Any], wait_ns: float, *, begun: bool) -> bool:
    """Return whether filling took most of a wait, by the model's processing times, outputs and
    buffered elements.

    begun: the iterator gave batches before the wait.
    """
    filling_ns = sum(
        _filling_ns(nodes, node) for node in nodes.values() if node.name.startswith(_SHUFFLE)
    )
    if filling_ns < _FILL_SHARE * wait_ns:
        return False
    if begun:
        return filling_ns <= _REFILL_FACTOR * wait_ns
    return filling_ns >= _FILL_SHARE * sum(float(node.processing_time) for node in nodes.values())


def is_fill_with_all(
    nodes: Mapping[int, Any], wait_ns: float, worked_ns: Mapping[int, float]
) -> bool:
    """Return whether a buffer took all elements in most of a wait: the other stages worked for less
    than the rest.

    worked_ns: the work of each node at the last reading; a shuffle that was there then was filled
    before.
    """
    new = [
        at
        for at, node in nodes.items()
        if node.name.startswith(_SHUFFLE) and not node.inputs and node.buffered_elements > 0
    ]
    if wait_ns < _LATE_WITH_ALL_NS or not any(at not in worked_ns for at in new):
        return False
    others_ns = sum(
        float(node.processing_time) - worked_ns.get(at, 0.0)
        for at, node in nodes.items()
        if at not in new
    )
    return wait_ns - others_ns >= _FILL_SHARE * wait_ns


def _filling_ns(nodes: Mapping[int, Any], shuffle: Any) -> float:
    """Return the nanoseconds of work for the elements that a shuffle holds and has not output."""
    made = shuffle.buffered_elements + shuffle.num_elements
    work_ns = sum(float(node.processing_time) for node in subtree(nodes, shuffle))
    return work_ns * shuffle.buffered_elements / made if made else 0.0


def find_filled_shuffle(dataset: Any) -> tuple[str, str]:
    """Return the last shuffle, if possible over stages that work, and the lowest map below it.

    The shuffle can come before that map: neither a cache nor a stage that makes other elements
    stands between them. Both as the code has them, `shuffle(1000)` and `map(decode)`; each is empty
    where there is none.
    """
    shuffles = _shuffles_in(dataset)
    if not shuffles:
        return "", ""
    shuffle = next(filter(_is_over_work, shuffles), shuffles[0])
    lowest = _lowest_map(shuffle)
    return label_of(shuffle), label_of(lowest) if lowest is not None else ""


def _shuffles_in(dataset: Any) -> list[Any]:
    return [node for node in nodes_of(dataset) if kind_of(node) == _SHUFFLE]


def _is_over_work(shuffle: Any) -> bool:
    """Return whether a stage below a shuffle does more than hand on what is in memory."""
    return any(
        kind_of(below) not in _CHEAP for node in inputs_of(shuffle) for below in nodes_of(node)
    )


def _lowest_map(shuffle: Any) -> Any | None:
    lowest = None
    for node in spine_of(shuffle)[1:]:
        if kind_of(node) == _CACHE:
            return None
        if kind_of(node) not in (*MAPS, *_CHEAP):
            return lowest
        lowest = node if kind_of(node) in MAPS else lowest
    return lowest


def _refills(dataset: Any) -> bool:
    """Return whether a pipeline repeats a shuffle, so that its buffer is refilled in mid-run."""
    repeats = [node for node in nodes_of(dataset) if kind_of(node) == "Repeat"]
    return any(map(_shuffles_in, repeats))
