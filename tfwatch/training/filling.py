"""Whether a long wait went to filling a shuffle buffer: what tf.data's own model of the pipeline says."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tfwatch.training.stage_model import NoModelError, model_of, tree
from tfwatch.training.stage_names import inputs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
