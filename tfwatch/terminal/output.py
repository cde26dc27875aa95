"""Output of a command, also where its reader is gone, its disk is full or its encoding lacks
characters; and what a terminal can show."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from io import StringIO, UnsupportedOperation
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tfwatch.core.errors import BadInputError
from tfwatch.core.temporary_files import new_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

#: An error handler of encodings without Unicode: `→` as `>`, other characters as Python escapes
#: them.
WITHOUT_UNICODE = "tfwatch.without_unicode"


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
#: The permissions of a file that a user asks for, but for those that the umask takes away.
_MODE = 0o666


def write_text(place: Path, text: str) -> int:
    """Write a text to a file, or to standard output, and return the exit code.

    A file takes its place once it is complete; a device or a pipe is written to at once.

    Raises:
        BadInputError: the place cannot be written.
    """
    if place == STANDARD_OUTPUT:
        return write(sys.stdout, text)
    data = text.encode("utf-8", "replace")
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(data)
            return 0
        part, flags = new_part(place)
        try:
            with open(os.open(part, flags, _MODE), "wb") as file:
                file.write(data)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise BadInputError(f"{place} cannot be written: {error.strerror or error}") from error
    return 0


# -- what a terminal shows -------------------------------------------------------------------------


def terminal_columns(out: TextIO) -> int | None:
    """Return the width of the terminal behind an output; None where it is not a terminal."""
    try:
        return os.get_terminal_size(out.fileno()).columns or None
    except (OSError, ValueError):
        return None


def why_no_screen(environ: Mapping[str, str]) -> str:
    """Return why the live screen cannot be shown here; empty where it can."""
    if not os.isatty(1):
        return "stdout is not a terminal: use --headless"
    if not os.isatty(0):
        return "stdin is not a terminal, so keys cannot be read: use --headless"
    if environ.get("TERM", "") in ("", "dumb"):
        return (
            f"a terminal of type {environ.get('TERM') or 'unknown'} (TERM) cannot show the screen:"
            " use --headless"
        )
    return ""


def has_colour(environ: Mapping[str, str]) -> bool:
    """Return whether to draw in colour: not with NO_COLOR (https://no-color.org) nor on a
    monochrome terminal."""
    return not environ.get("NO_COLOR") and not environ.get("TERM", "").startswith(
        ("vt1", "vt2", "dumb")
    )


def has_unicode(environ: Mapping[str, str]) -> bool:
    """Return whether to draw with Unicode blocks, by the user's locale; True where none is set.

    Python itself sets LC_CTYPE=C.UTF-8 where LANG=C (PEP 538), which does not count. The font of
    the Linux console lacks the partial blocks. PYTHONIOENCODING overrides the locale.
    """
    written = environ.get("PYTHONIOENCODING", "").partition(":")[0] or "utf"
    if environ.get("TERM") == "linux" or "utf" not in written.lower():
        return False
    ctype = environ.get("LC_CTYPE", "")
    coerced = ctype in ("C.UTF-8", "C.utf8", "UTF-8") and environ.get("LANG") in ("C", "POSIX")
    locale = environ.get("LC_ALL") or ("" if coerced else ctype) or environ.get("LANG") or "UTF-8"
    return "utf" in locale.lower()


def _replace_character(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    if error.object[error.start] == "→":
        return ">", error.start + 1
    error.end = error.start + 1
    return codecs.backslashreplace_errors(error)


codecs.register_error(WITHOUT_UNICODE, _replace_character)
