"""A file of the user's: read once, and written as a whole or not at all."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import stat
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.errors import BadInputError
from tfwatch.core.temporary_files import new_part

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOM = b"\xef\xbb\xbf"


class NoPatchError(Exception):
    """No patch can be made; the message is one sentence for the user."""


def check_python(text: str, name: str = "script") -> None:
    """Check a changed source.

    Raises:
        NoPatchError: it is no Python.
    """
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise NoPatchError(f"the changed {name} is no Python: {error}") from error


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file as it was read. name: as the user names it. path: where it is, without links.

    text: its lines, each ended by a newline whatever the file has.
    """

    name: str
    path: Path
    data: bytes
    text: str

    @staticmethod
    def read(name: str, not_after_ns: int) -> UserFile:
        """Read a file that nobody wrote since this time, nanoseconds since 1970.

        Raises:
            NoPatchError: it cannot be read, has both kinds of line ends, or was written since.
        """
        path = Path(os.path.realpath(name))
        try:
            if path.stat().st_mtime_ns > not_after_ns:
                raise NoPatchError(f"{name} changed since the run began: it has no patch")
            data = path.read_bytes()
            encoding, mark = _encoding(data)
            text = data.removeprefix(mark).decode(encoding).replace("\r\n", "\n")
        except (OSError, SyntaxError, ValueError) as error:
            raise NoPatchError(f"{name} cannot be read: {error}") from error
        file = UserFile(name, path, data, text)
        if file.encoded(text) != data:
            raise NoPatchError(f"{name} has both kinds of line ends: no patch is made")
        return file

    def encoded(self, text: str) -> bytes:
        """Return another text in the encoding and with the line ends of this file."""
        encoding, mark = _encoding(self.data)
        lines = text.replace("\n", "\r\n") if b"\r\n" in self.data else text
        return mark + lines.encode(encoding)

    def check_unchanged(self) -> None:
        """Check that the file is still the one that was read.

        Raises:
            BadInputError: it is not.
        """
        try:
            is_same = self.path.read_bytes() == self.data
        except OSError:
            is_same = False
        if not is_same:
            raise BadInputError(f"{self.name} changed since the run began: it is left as it is")

    def replace(self, text: str) -> None:
        """Write another text: the file takes its place once it is complete, with the same
        permissions.

        Raises:
            BadInputError: the file changed since it was read, or cannot be written.
        """
        part, flags = new_part(self.path)
        try:
            with _named(self.name):
                _write_new(part, flags, self.encoded(text))
                part.chmod(stat.S_IMODE(self.path.stat().st_mode))
                self.check_unchanged()
                part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def copy_beside(file: UserFile, text: str) -> Iterator[Path]:
    """Write a text to a hidden new file beside a script, so that its imports work; it is removed at
    the end.

    Raises:
        BadInputError: its folder takes no file.
    """
    part, flags = new_part(file.path)
    copy = part.with_name(f"{part.name}.py")
    try:
        with _named(str(copy)):
            _write_new(copy, flags, file.encoded(text))
        yield copy
    finally:
        copy.unlink(missing_ok=True)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise BadInputError(f"{name} cannot be written: {error.strerror or error}") from error


def _write_new(path: Path, flags: int, data: bytes) -> None:
    with open(os.open(path, flags, stat.S_IRUSR | stat.S_IWUSR), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _encoding(data: bytes) -> tuple[str, bytes]:
    """Return the encoding of a source (PEP 263), and the mark of byte order before it."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return ("utf-8", _BOM) if encoding == "utf-8-sig" else (encoding, b"")
