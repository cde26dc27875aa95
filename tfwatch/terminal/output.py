"""Output of a command, also where its reader is gone, its disk is full or its encoding lacks
characters."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from contextlib import contextmanager, suppress
from io import StringIO, UnsupportedOperation
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from tfwatch.core.errors import BadInputError
from tfwatch.terminal.capture import WITHOUT_UNICODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType


def write(out: TextIO, text: str) -> int:
    """Write the text and return the exit code: 1 where it cannot be written, 0 where the reader is
    gone."""
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
    """Write nothing more to an output that failed: Python would report the error again as it
    ends."""
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


def show_progress(err: TextIO, text: str) -> None:
    """Show what runs now, on a terminal, in a line that the next text replaces; empty: nothing."""
    if err.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        err.write(f"\r\x1b[K{text}")
        err.flush()


STANDARD_OUTPUT = Path("-")


def write_text(place: Path, text: str) -> int:
    """Write a text to a file, or to standard output, and return the exit code.

    Raises:
        BadInputError: the place cannot be written.
    """
    if place == STANDARD_OUTPUT:
        return write(sys.stdout, text)
    with written(place) as file:
        file.write(text.encode("utf-8", "replace"))
    return 0


@contextmanager
def written(place: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its place once it is complete; a device or a pipe is written to at
    once.

    place: `-` is standard output, whose reader may leave at any time.

    Raises:
        BadInputError: it cannot be written.
    """
    if place == STANDARD_OUTPUT:
        try:
            yield sys.stdout.buffer
            sys.stdout.flush()
        except BrokenPipeError:
            leave_output(sys.stdout)
        return
    try:
        if place.exists() and not stat.S_ISREG(place.stat().st_mode):
            with open(place, "wb") as file:
                yield file
            return
        part = place.with_name(f".{place.name[:200]}.{os.getpid()}")
        try:
            with open(part, "wb") as file:
                yield file
            part.replace(place)
        finally:
            with suppress(OSError):
                part.unlink()
    except OSError as error:
        raise BadInputError(f"{place} cannot be written: {error.strerror or error}") from error
