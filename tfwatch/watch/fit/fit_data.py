"""The data that a `fit` was given: its kind, and the workers of a `PyDataset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

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


def describe_data(frame: FrameType | None) -> dict[str, Any]:
    """Return the entries of the manifest for the data of the `fit` that calls this frame."""
    epochs = _find_epochs(frame)
    adapter = getattr(epochs, "data_adapter", None)
    kind = _KINDS.get(type(adapter).__module__.rpartition(".")[2], "")
    entries: dict[str, Any] = {"data": kind, "py_workers": None, "py_processes": False}
    if adapter is not None and kind == _PY_DATASET:
        dataset = adapter.py_dataset
        entries["py_workers"] = int(dataset.workers)
        entries["py_processes"] = bool(dataset.use_multiprocessing)
    return entries


def _find_epochs(frame: FrameType | None) -> Any | None:
    """Return Keras' epochs of the `fit` that calls; None where it is another's."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_name == "fit" and "epoch_iterator" in frame.f_code.co_varnames:
            return frame.f_locals.get("epoch_iterator")
        frame = frame.f_back
    return None
