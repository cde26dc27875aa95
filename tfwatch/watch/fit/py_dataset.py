"""The workers of a `PyDataset` in a `fit`, threads or processes, which change between two epochs.

Keras' own enqueuer makes the batches with the new settings, as with those in the script: in order,
each once.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras

from tfwatch.core.knobs import (
    AS_WRITTEN,
    AUTO,
    LARGEST,
    MULTIPROCESSING,
    OFF,
    ON,
    WORKERS,
    Knobs,
    number_of,
)

if TYPE_CHECKING:
    from tfwatch.runs.requests import SwitchRequest

#: The batches that each worker may keep ready, at least: with fewer some workers wait.
_QUEUED = 2
#: The workers of `auto` on a machine with fewer cores: threads mostly wait for their files.
_LEAST_AUTO = 4
_PARTIAL_EPOCHS = "steps_per_epoch: an epoch does not begin the PyDataset again"
_ENDLESS = "its PyDataset has no length, so that no epoch begins it again"
_OWN_BEGIN = "its on_epoch_begin changes the PyDataset, and workers begin before it is called"
_NOT_FORKED = (
    "processes begin by {}, and need a PyDataset that can be pickled: set use_multiprocessing in"
    " the script"
)


class PyDatasetSettings:
    """The settings of the `PyDataset` that the epochs of a `fit` read.

    written: the knobs with the settings that the script gave.
    """

    def __init__(self, epochs: Any) -> None:
        self._epochs = weakref.ref(epochs)
        dataset = epochs.data_adapter.py_dataset
        self._workers, has_processes = int(dataset.workers), bool(dataset.use_multiprocessing)
        self.written = replace(
            AS_WRITTEN,
            workers=str(min(self._workers, LARGEST)) if self._workers > 1 else OFF,
            multiprocessing=ON if has_processes and self._workers > 0 else OFF,
        )
        self._why_not = _find_obstacle(epochs, dataset)

    def reasons(self) -> dict[str, str]:
        """Return why each knob cannot be switched; empty where it can."""
        return {WORKERS: self._why_not, MULTIPROCESSING: self._why_not or self._why_no_processes()}

    def refusal(self, request: SwitchRequest) -> str:
        """Return the reason to refuse a request; empty if there is none."""
        return self._why_not if request.value == OFF else self.reasons()[request.knob]

    def _why_no_processes(self) -> str:
        method = (
            multiprocessing.get_start_method(allow_none=True)
            or multiprocessing.get_all_start_methods()[0]
        )
        is_forked = self.written.multiprocessing == ON or method == "fork"
        return "" if is_forked else _NOT_FORKED.format(method)

    def apply(self, knobs: Knobs) -> None:
        """Have the next epoch read with these settings, as Keras does where the script gives them.

        Call it between two epochs.

        Raises:
            Exception: Keras' or the `PyDataset`'s own; the settings stay as they were.
        """
        epochs = self._epochs()
        if epochs is None:
            return
        adapter = epochs.data_adapter
        before = adapter.enqueuer
        try:
            adapter.enqueuer = self._make_enqueuer(adapter, knobs)
            epochs._distributed_dataset = adapter.get_tf_dataset()
        except BaseException:
            adapter.enqueuer = before
            raise

    def _make_enqueuer(self, adapter: Any, knobs: Knobs) -> Any:
        workers, has_processes = self._count_workers(knobs.workers), knobs.multiprocessing == ON
        if workers <= 1 and not has_processes:
            return None
        make = sys.modules[type(adapter).__module__].OrderedEnqueuer
        return make(
            adapter.py_dataset,
            workers=workers,
            use_multiprocessing=has_processes,
            max_queue_size=max(int(adapter.py_dataset.max_queue_size), _QUEUED * workers),
            shuffle=adapter.shuffle,
        )

    def _count_workers(self, value: str) -> int:
        if value == AUTO:
            return max(os.cpu_count() or 1, _LEAST_AUTO)
        return 1 if value == OFF else number_of(value) or max(self._workers, 1)


def _find_obstacle(epochs: Any, dataset: Any) -> str:
    """Return the reason why no epoch can read the `PyDataset` in another way; empty if it can."""
    if dataset.num_batches is None:
        return _ENDLESS
    if epochs.steps_per_epoch:
        return _PARTIAL_EPOCHS
    own = getattr(type(dataset), "on_epoch_begin", None)
    return "" if own is getattr(keras.utils.PyDataset, "on_epoch_begin", None) else _OWN_BEGIN
