"""The workloads: plain Keras scripts, one a module, as their user would write them. They import
nothing of tfwatch.

A script's name and its docstring's first paragraph are its entry in the list;
`workload_setup.py` is what they share.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HERE = Path(__file__).parent
_SHARED = ("__init__", "workload_setup")


def list_workloads() -> dict[str, str]:
    """Return each workload's description by its name, without importing the scripts."""
    return {
        script.stem.replace("_", "-"): _description(script)
        for script in sorted(_HERE.glob("*.py"))
        if script.stem not in _SHARED
    }


def script_of(name: str) -> Path:
    """Return the script of a workload."""
    return _HERE / f"{name.replace('-', '_')}.py"


@contextlib.contextmanager
def as_main(words: Sequence[str]) -> Iterator[None]:
    """Within, `sys.argv` and `sys.path` are those of a script that Python runs. words: its path,
    and its arguments."""
    argv, folder = sys.argv, os.path.dirname(os.path.abspath(words[0]))
    sys.argv = list(words)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv = argv
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _description(script: Path) -> str:
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).removesuffix(".")
