"""The user's own code, set apart from that of libraries."""

from __future__ import annotations

import os
import re
import sys
from functools import cache

_TFWATCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKLOADS = os.path.join(_TFWATCH, "workloads", "")
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
#: Libraries that run everywhere, also from a folder on PYTHONPATH.
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "numpy")
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


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
