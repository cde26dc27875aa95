"""Output of a command, also where its reader is gone, its disk is full or its encoding lacks characters."""

from __future__ import annotations

import os
import shutil
import sys
from io import StringIO, UnsupportedOperation
from typing import TYPE_CHECKING, TextIO

from tfwatch.terminal.capture import WITHOUT_UNICODE

if TYPE_CHECKING:
    from rich.console import RenderableType


def write(out: TextIO, text: str) -> int:
    """Write the text and return the exit code: 1 where it cannot be written, 0 where the reader is gone."""
    encoding, failed = out.encoding or "utf-8", 0
    try:
        out.write(text.encode(encoding, WITHOUT_UNICODE).decode(encoding))
        out.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            failed = 1
            why = (
                "it is closed"
                if isinstance(error, UnsupportedOperation)
                else error.strerror or error
            )
            sys.stderr.write(f"tfwatch: the output cannot be written: {why}\n")
        leave_output(out)
    return failed


def leave_output(out: TextIO) -> None:
    """Write nothing more to an output that failed: Python would report the error again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def render(out: TextIO, *parts: RenderableType) -> str:
    """Render Rich's tables and texts for the width and the colours of `out`."""
    from rich.console import Console

    text, width = StringIO(), shutil.get_terminal_size().columns
    console = Console(
        file=text,
        force_terminal=out.isatty(),
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
