"""The workloads by name: their list, their scripts, and the help of each one's own arguments."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import runpy
import shlex
import sys
from typing import TYPE_CHECKING

from tfwatch.core.errors import BadInputError
from tfwatch.workloads import as_main, list_workloads, script_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path


def workload_script(name: str) -> Path:
    """Return the script of a workload.

    Raises:
        BadInputError: there is none of this name; the sentence names the nearest one.
    """
    known = list_workloads()
    if name in known:
        return script_of(name)
    if name.endswith(".py") or os.path.isfile(name):
        run = f"tfwatch run {shlex.quote(name)}"
        raise BadInputError(f"train takes a workload; run your own script with: {run}")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "`tfwatch workloads` lists them"
    raise BadInputError(f"no workload {name!r}: {hint}")


def help_of_workload(words: Sequence[str]) -> str:
    """Return the help of the script of the workload among these words; empty without one."""
    name = next((word for word in words if word in list_workloads()), None)
    if name is None:
        return ""
    text, script = io.StringIO(), str(script_of(name))
    ended = contextlib.suppress(SystemExit)
    with contextlib.redirect_stdout(text), ended, as_main([script, "--help"]):
        runpy.run_path(script)
    return f"\narguments of {name}:\n\n{text.getvalue()}"


def print_workloads(_args: argparse.Namespace) -> int:
    """Print a line for each workload, and return the exit code."""
    from rich.table import Table

    from tfwatch.terminal.output import render, write

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, line in list_workloads().items():
        table.add_row(name, line)
    return write(sys.stdout, render(sys.stdout, table))
