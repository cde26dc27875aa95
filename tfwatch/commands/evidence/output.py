"""The output of a command of this room: a file that is complete or absent, or standard output."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tfwatch.core.errors import BadInputError
from tfwatch.terminal.output import leave_output, write

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Open a file that takes its place once it is complete; a device or a pipe is written to at once.

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
