"""The frame of the user's code that loops over a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.user_code import is_users

if TYPE_CHECKING:
    from types import FrameType

#: Libraries that loop over a data set for the loop of their caller: progress bars, and conversions
#: to numpy.
_LOOPS_FOR_CALLER = frozenset({"tqdm", "rich", "tensorflow_datasets"})
_NUMPY_ITERATOR = frozenset({"as_numpy_iterator", "__init__"})


def find_users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the user's code that loops over a data set; None where a library loops
    for itself."""
    while frame is not None and _loops_for_caller(frame):
        frame = frame.f_back
    return frame if frame is not None and is_users(frame.f_code.co_filename) else None


def _loops_for_caller(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    if module == "tensorflow.python.data.ops.dataset_ops":
        return frame.f_code.co_name in _NUMPY_ITERATOR
    return module.partition(".")[0] in _LOOPS_FOR_CALLER
