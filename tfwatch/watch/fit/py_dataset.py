"""The parallel settings of a `PyDataset` in a `fit`: workers, processes and queue, which change
between two epochs.

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
import tensorflow as tf

from tfwatch.core.knobs import (
    AUTO,
    DEFAULT,
    LARGEST,
    MULTIPROCESSING,
    OFF,
    ON,
    PY_DATASET_KNOBS,
    QUEUE_SIZE,
    Knobs,
    Refusal,
    is_by_stage,
    number_of,
)

if TYPE_CHECKING:
    from types import FrameType

    from tfwatch.runs.requests import SwitchRequest
    from tfwatch.runs.writer import RunWriter

#: Frames between a callback and the `fit` that calls it; Keras and tfwatch have a few each.
_MOST_FRAMES = 20
_PY_DATASET = "PyDataset"
#: The kinds of data by the module of Keras' adapter.
_KINDS = {
    "array_data_adapter": "arrays",
    "generator_data_adapter": "generator",
    "py_dataset_adapter": _PY_DATASET,
    "tf_dataset_adapter": "tf.data",
}
_PARTIAL_EPOCHS = "steps_per_epoch: an epoch does not begin the PyDataset again"
_ENDLESS = "its PyDataset has no length, so that no epoch begins it again"
_SPREAD = "Keras makes one distributed data set of it for all epochs"
_OWN_BEGIN = "its on_epoch_begin changes the PyDataset, and workers begin before it is called"
_NOT_FORKED = (
    "processes begin by {}, and need a PyDataset that can be pickled: set use_multiprocessing in"
    " the script"
)
_NO_QUEUE = "without workers there is no queue"


def find_py_dataset(epochs: Any | None) -> PyDatasetSettings | None:
    """Return the settings of the `PyDataset` of these epochs of a `fit`; None where the data is
    another."""
    return PyDatasetSettings(epochs) if is_py_dataset(epochs) else None


class PyDatasetSettings:
    """The settings of the `PyDataset` that the epochs of a `fit` read.

    why_not: the reason why they cannot be changed; empty if they can.
    """

    def __init__(self, epochs: Any) -> None:
        self._epochs = weakref.ref(epochs)
        dataset = epochs.data_adapter.py_dataset
        self._workers, self._queue_size = int(dataset.workers), int(dataset.max_queue_size)
        self._has_processes = bool(dataset.use_multiprocessing)
        self.why_not = self._find_obstacle(epochs, dataset)

    @staticmethod
    def _find_obstacle(epochs: Any, dataset: Any) -> str:
        if not isinstance(epochs._distributed_dataset, tf.data.Dataset):
            return _SPREAD
        if dataset.num_batches is None:
            return _ENDLESS
        if epochs.steps_per_epoch:
            return _PARTIAL_EPOCHS
        own = getattr(type(dataset), "on_epoch_begin", None)
        return "" if own is getattr(keras.utils.PyDataset, "on_epoch_begin", None) else _OWN_BEGIN

    def begin(self, knobs: Knobs) -> Knobs:
        """Return the knobs with the settings that the script gave."""
        return replace(
            knobs,
            workers=str(min(self._workers, LARGEST)) if self._workers > 1 else OFF,
            multiprocessing=ON if self._has_processes else OFF,
            queue_size=str(min(max(self._queue_size, 1), LARGEST)),
        )

    def describe(self, writer: RunWriter) -> None:
        """Write into run.json which of them can be switched, or why not."""
        if self.why_not:
            writer.describe(fixed=dict.fromkeys(PY_DATASET_KNOBS, self.why_not))
            return
        first, *others = writer.manifest().switchable
        fixed = {MULTIPROCESSING: why} if (why := self._why_no_processes()) else {}
        own = [knob for knob in PY_DATASET_KNOBS if knob not in fixed]
        writer.describe(switchable=[first, *own, *others], workers_from_epoch=True, fixed=fixed)

    def refusal(self, request: SwitchRequest, coming: Knobs) -> str:
        """Return the reason to refuse a request; empty if there is none. coming: the knobs of the
        next epoch."""
        if is_by_stage(request.value):
            return Refusal.ONE_FOR_ALL.words
        if request.knob == MULTIPROCESSING and request.value == ON:
            return self.why_not or self._why_no_processes()
        if request.knob == QUEUE_SIZE and coming.workers == coming.multiprocessing == OFF:
            return self.why_not or _NO_QUEUE
        return self.why_not

    def _why_no_processes(self) -> str:
        method = (
            multiprocessing.get_start_method(allow_none=True)
            or multiprocessing.get_all_start_methods()[0]
        )
        return "" if self._has_processes or method == "fork" else _NOT_FORKED.format(method)

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
        if workers <= 1 and not (workers > 0 and has_processes):
            return None
        make = sys.modules[type(adapter).__module__].OrderedEnqueuer
        queue_size = number_of(knobs.queue_size) or self._queue_size
        return make(
            adapter.py_dataset,
            workers=workers,
            use_multiprocessing=has_processes,
            max_queue_size=queue_size,
            shuffle=adapter.shuffle,
        )

    def _count_workers(self, value: str) -> int:
        if value == AUTO:
            return max(os.cpu_count() or 1, 2)
        return self._workers if value == DEFAULT else number_of(value) or min(self._workers, 1)


def find_epochs(frame: FrameType | None) -> Any | None:
    """Return Keras' epochs of the `fit` that calls; None where it is another's."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_name == "fit" and "epoch_iterator" in frame.f_code.co_varnames:
            return frame.f_locals.get("epoch_iterator")
        frame = frame.f_back
    return None


def kind_of_data(epochs: Any | None) -> str:
    """Return the kind of the data, as `SourceKind` has it; empty where it is not known."""
    module = type(getattr(epochs, "data_adapter", None)).__module__
    return _KINDS.get(module.rpartition(".")[2], "")


def is_py_dataset(epochs: Any | None) -> bool:
    """Return whether the data is a `PyDataset`."""
    return kind_of_data(epochs) == _PY_DATASET
