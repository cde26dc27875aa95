"""What a command prints for its user: text whose reader may be gone and whose disk may be full."""

from __future__ import annotations

import os
import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType


def write(out: TextIO, text: str) -> int:
    """Whatever `out` can write: other characters as Python escapes them. A reader that is gone is no failure.

    Returns the exit code: 1 where it could not be written, which stderr is told.
    """
    encoding, failed = out.encoding or "utf-8", 0
    try:
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        out.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            failed = 1
            sys.stderr.write(f"tfwatch: this could not be written: {error.strerror or error}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # else Python complains once more at its end
    return failed


def rendered(out: TextIO, *parts: RenderableType) -> str:
    """Rich's tables and texts one below the other, for as many columns and colours as `out` has."""
    from rich.console import Console

    text, width = StringIO(), shutil.get_terminal_size().columns
    console = Console(file=text, force_terminal=out.isatty(), width=width, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
