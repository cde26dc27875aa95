"""The script of a run: its file, and its text with that of its own modules, which `tfwatch compare`
sets beside those of another run."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from tfwatch.core.user_code import is_users
from tfwatch.runs.format import SOURCES, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A script has fewer and shorter files; what is beyond is left out.
_MOST_FILES, _MOST_BYTES = 100, 2**18


def script_file() -> str:
    """Return the absolute path of the script that this process runs; empty where it runs none of
    the user's, as in a notebook."""
    file = vars(sys.modules["__main__"]).get("__file__")
    path = os.path.abspath(file) if isinstance(file, str) else ""
    return path if path.endswith(".py") and is_users(path) else ""


def record_sources(folder: Path, since_s: float) -> None:
    """Write the text of the script, and of the modules in its folder and below.

    A file that was saved after this process began may not be what runs: a module is left out then,
    and of such a script nothing is written.

    since_s: the beginning of the process, seconds since 1970.

    Raises:
        OSError: a file cannot be read or written.
    """
    script = script_file()
    root = os.path.join(os.path.dirname(script), "")
    files = [script, *_modules_below(root)][:_MOST_FILES] if script else []
    texts = {
        os.path.relpath(file, root): text
        for file in dict.fromkeys(files)
        if (text := _text_since(file, since_s)) is not None
    }
    if os.path.basename(script) in texts:
        write_atomically(folder / SOURCES, msgspec.json.encode(texts).decode())


def _modules_below(root: str) -> Iterator[str]:
    """Yield the files of the user's modules below a folder. A module that loads itself when it is
    asked for an attribute is not asked."""
    for module in list(sys.modules.values()):
        found = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        file = found if isinstance(found, str) and found.startswith(root) else ""
        if file.endswith(".py") and is_users(file):
            yield file


def _text_since(file: str, since_s: float) -> str | None:
    status = os.stat(file)
    if status.st_mtime > since_s or status.st_size > _MOST_BYTES:
        return None
    with open(file, encoding="utf-8", errors="replace") as source:
        return source.read()


def read_sources(folder: Path | None) -> dict[str, str]:
    """Return the texts by their paths below the script's folder; empty where none were recorded."""
    try:
        data = (folder / SOURCES).read_bytes() if folder else b"{}"
        return msgspec.json.decode(data, type=dict[str, str])
    except (OSError, ValueError):
        return {}
