"""A patch: one unified diff of the user's files, tried on a copy before it is shown."""

from __future__ import annotations

import difflib
import io
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core import system_tool
from tfwatch.core.script_code import with_values
from tfwatch.core.temporary_files import temporary_folder
from tfwatch.fix.user_file import NoPatchError, UserFile, check_python
from tfwatch.terminal.capture import held_signals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.script_code import CodeEdit

#: Seconds that git or patch has for a copy of a few files.
_TOOL_S = 20.0
_NO_END = b"\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of the user's, and its text after the changes."""

    file: UserFile
    text: str


@dataclass(frozen=True, slots=True)
class Patch:
    """The changes of all files. folder: where the diff is applied, with `-p1`.

    checked: the tool that applied it to a copy; empty where there is none.
    """

    files: tuple[ChangedFile, ...]
    folder: Path
    diff: bytes
    checked: str = ""

    def write(self) -> None:
        """Write the changed files; ctrl+c waits until all are written.

        Raises:
            BadInputError: a file changed since it was read, or cannot be written.
        """
        with held_signals():
            for one in self.files:
                one.file.check_unchanged()
            for one in self.files:
                one.file.replace(one.text)


def edited_text(file: UserFile, edits: Sequence[CodeEdit], values: Mapping[str, str]) -> str:
    """Return the text of a file with the changes of its lines for these values of knobs.

    Raises:
        NoPatchError: a line is another one than the run has seen, or the result is no Python.
    """
    lines = file.text.split("\n")
    moved = []
    for edit in edits:
        if "\n".join(lines[edit.line - 1 : edit.last]) != edit.text:
            raise NoPatchError(f"{edit.place} is another line than the one that ran")
        begin = sum(len(line) + 1 for line in lines[: edit.line - 1])
        moved.append(replace(edit, start=begin + edit.start, end=begin + edit.end))
    text = with_values(file.text, moved, values)
    check_python(text, file.name)
    return text


def with_settings(
    code: Sequence[CodeEdit], values: Mapping[str, str], began_ns: int
) -> dict[Path, ChangedFile]:
    """Return the files of all lines that set these knobs, with these values.

    began_ns: when the run began, nanoseconds since 1970.

    Raises:
        NoPatchError: a file changed since then, or cannot be edited.
    """
    edits: dict[str, list[CodeEdit]] = {}
    for edit in code:
        if edit.knob in values:
            edits.setdefault(edit.file, []).append(edit)
    files = [UserFile.read(name, began_ns) for name in edits]
    return {
        file.path: ChangedFile(file, edited_text(file, edits[file.name], values)) for file in files
    }


def make_patch(files: Sequence[ChangedFile]) -> Patch:
    """Return the patch of these files, applied to a copy and compared.

    Raises:
        NoPatchError: nothing changes, or the diff does not give the changed files.
    """
    changed = tuple(one for one in files if one.text != one.file.text)
    if not changed:
        raise NoPatchError("no line changes")
    paths, folder = [one.file.path for one in changed], Path.cwd()
    if not all(path.is_relative_to(folder) for path in paths):
        folder = Path(os.path.commonpath([path.parent for path in paths]))
    patch = Patch(changed, folder, b"".join(_diff(one, folder) for one in changed))
    return replace(patch, checked=_tried(patch))


def _diff(changed: ChangedFile, folder: Path) -> bytes:
    name = os.fsencode(changed.file.path.relative_to(folder))
    before, after = changed.file.data, changed.file.encoded(changed.text)
    lines = difflib.diff_bytes(
        difflib.unified_diff, _lines(before), _lines(after), b"a/" + name, b"b/" + name
    )
    return b"".join(line if line.endswith(b"\n") else line + _NO_END for line in lines)


def _lines(data: bytes) -> list[bytes]:
    """Return the lines with their ends: `splitlines` knows other ends too."""
    return list(io.BytesIO(data))


def _tried(patch: Patch) -> str:
    """Apply a patch to a copy, and return the tool that did; empty where neither git nor patch is
    here.

    Raises:
        NoPatchError: the copy is not what it should be.
    """
    with temporary_folder("fix-") as copy:
        places = [copy / one.file.path.relative_to(patch.folder) for one in patch.files]
        for place, one in zip(places, patch.files, strict=True):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(one.file.data)
        diff = copy / "tfwatch.diff"
        diff.write_bytes(patch.diff)
        tool, failure = _apply(diff)
        if not tool:
            return ""
        wanted = [one.file.encoded(one.text) for one in patch.files]
        if failure or [place.read_bytes() for place in places] != wanted:
            raise NoPatchError(f"{tool} does not apply the patch to a copy: {failure}")
    return tool


def _apply(diff: Path) -> tuple[str, str]:
    """Return the tool that applied a diff in its folder, and why it failed."""
    folder = str(diff.parent)
    for tool, words in (
        ("git apply", ["git", "-C", folder, "apply", str(diff)]),
        ("patch", ["patch", "-s", "-p1", "-d", folder, "-i", str(diff)]),
    ):
        if not system_tool.run([words[0], "--version"], _TOOL_S).failure:
            return tool, system_tool.run(words, _TOOL_S).failure
    return "", ""
