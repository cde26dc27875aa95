"""The cells of a notebook, as its user sees them: their numbers, their lines, and their names for
modules."""

from __future__ import annotations

import linecache
import os
import sys
from typing import Any


def is_cell(file: str) -> bool:
    """Return whether code of this file name is that of a cell."""
    return _number_of(file) is not None


def place_in_cell(file: str, line: int, text: str) -> tuple[str, int] | None:
    """Return the prompt of a cell and the line in it, from a line of its compiled source; None
    where it is not found.

    IPython compiles a cell without its empty first lines and without the line of a cell magic, and
    gives what such a magic runs the number of the next cell.
    """
    number = _number_of(file)
    for ran in () if number is None else (number, number - 1):
        for at, written in enumerate(_written(ran), 1):
            if at >= line and written.rstrip() == text.rstrip():
                return f"In [{ran}]", at
    return None


def place_of(file: str, line: int) -> str:
    """Return a line of code as its user names it: `train.py:22`, in a notebook `In [3], line 4`."""
    # Only the source of a cell is in memory: the disk of a file may hang.
    if is_cell(file) and (place := place_in_cell(file, line, linecache.getline(file, line))):
        return f"{place[0]}, line {place[1]}"
    return f"{os.path.basename(file)}:{line}"


def name_of_module(name: str) -> str:
    """Return the name that the notebook has for a module, which any cell may have imported; empty
    without one."""
    module, names = sys.modules.get(name), getattr(_shell(), "user_ns", {})
    return min(
        (given for given, value in list(names.items()) if module and value is module),
        key=len,
        default="",
    )


def _number_of(file: str) -> int | None:
    """Return the number of a cell's last run."""
    return getattr(getattr(_shell(), "compile", None), "_filename_map", {}).get(file)


def _written(number: int) -> list[str]:
    """Return the lines of a cell as the user wrote them."""
    cells = _shell().history_manager.input_hist_raw
    return cells[number].splitlines() if 0 < number < len(cells) else []


def _shell() -> Any:
    """Return the shell of this process; None where there is none."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
