"""The user's own code, set apart from that of libraries."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_TFWATCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKLOADS = os.path.join(_TFWATCH, "workloads", "")
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
#: Libraries that run everywhere, also from a folder on PYTHONPATH.
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "numpy")
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
#: Libraries that loop over a data set for the loop of their caller: progress bars, and conversions
#: to numpy.
_LOOPS_FOR_CALLER = frozenset({"tqdm", "rich", "tensorflow_datasets"})
_NUMPY_ITERATOR = frozenset({"as_numpy_iterator", "__init__"})


@cache
def is_users(file: str) -> bool:
    """Return whether code of this file is the user's own: of no installed package, but of the one
    that runs."""
    if file.startswith(_WORKLOADS):
        return True
    if file.startswith(("<frozen ", "<__", _TFWATCH, *_framework_folders())):
        return False
    return file.startswith(_running_package()) or not (
        _INSTALLED.search(file) or file.startswith(_STANDARD_LIBRARY)
    )


def _framework_folders() -> list[str]:
    """Return the folders of the frameworks that are imported: code of theirs runs after that."""
    modules = (sys.modules.get(name) for name in _FRAMEWORKS)
    files = (getattr(module, "__file__", None) for module in modules)
    return [os.path.join(os.path.dirname(file), "") for file in files if file]


def is_tfwatchs(file: str) -> bool:
    """Return whether code of this file is tfwatch's, and no workload."""
    return file.startswith(_TFWATCH) and not file.startswith(_WORKLOADS)


def _running_package() -> str | tuple[str, ...]:
    """Return the folder of the package that `-m` runs; no folder where a file runs."""
    name = getattr(sys.modules["__main__"], "__package__", None)
    package = sys.modules.get(name.partition(".")[0]) if name else None
    return tuple(f"{folder}{os.sep}" for folder in getattr(package, "__path__", ()))


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


def split_place(place: str) -> tuple[str, str]:
    """Return the line and the function of a place as it is recorded, `train.py:41 in rows`; the
    function is empty for the code of a module."""
    line, _, name = place.partition(" in ")
    return line, "" if name == "<module>" else name
