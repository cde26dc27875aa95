"""The data passed to a `fit`: the epochs that Keras makes of it, and its kind."""

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
