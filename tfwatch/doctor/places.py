"""The folder of the runs and the terminal, as they are now."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.doctor.facts import RunsFolder, Terminal
from tfwatch.guard import short
from tfwatch.runs.library import list_runs
from tfwatch.sensors import Unavailable
from tfwatch.terminal import has_colour, has_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SIZING_S = 0.5
_TRIED_BYTES = 2**12


def runs_folder(folder: Path, clock: Clock = SYSTEM) -> RunsFolder:
    """Whether it can be written, by writing a file and taking it away; what it holds; what is free."""
    is_there = folder.is_dir()
    size, is_partial = _size(folder, clock) if is_there else (0, False)
    return RunsFolder(
        path=short(folder),
        trouble=_trouble(folder),
        is_there=is_there,
        runs=_count(folder),
        size_bytes=size,
        size_is_partial=is_partial,
        free_bytes=_free(folder),
    )


def _trouble(folder: Path) -> str:
    """Why no file can be written there, or where it would be made. The file that tries it goes away at once."""
    try:
        with tempfile.TemporaryFile(dir=_nearest(folder), buffering=0) as file:
            file.write(b"\0" * _TRIED_BYTES)
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there.

    Raises:
        NotADirectoryError: a file stands in the way.
    """
    for path in (folder, *folder.parents):
        if path.is_dir():
            return path
        if os.path.lexists(path):
            raise NotADirectoryError(0, f"{short(path)} is no folder")
    return folder


def _count(folder: Path) -> int | None:
    try:
        return len(list_runs(folder))
    except OSError:
        return None


def _free(folder: Path) -> float | None:
    try:
        return shutil.disk_usage(_nearest(folder)).free
    except OSError:
        return None


def _size(folder: Path, clock: Clock) -> tuple[int, bool]:
    """Bytes below a folder, and whether time was over before all were counted."""
    due_ns = clock.now_ns() + round(_SIZING_S * 1e9)
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(where, name)).st_size
        if clock.now_ns() > due_ns:
            return size, True
    return size, False


def terminal(environ: Mapping[str, str], needs: tuple[int, int]) -> Terminal | Unavailable:
    """The terminal of the first standard descriptor that is one."""
    for fd in (1, 2, 0):
        try:
            columns, rows = os.get_terminal_size(fd)
        except OSError:
            continue
        if columns > 0 and rows > 0:
            return Terminal(columns, rows, needs, colours(environ), has_unicode(environ), environ.get("TERM", ""))
    return Unavailable("no standard descriptor is a terminal, or it does not tell its size", "")


def colours(environ: Mapping[str, str]) -> int:
    """How many the screen will use: as Rich decides, which draws it."""
    kind = environ.get("TERM", "")
    if not has_colour(environ) or kind in ("", "unknown"):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return 2**24
    return 256 if kind.endswith(("-256color", "-kitty")) else 16


def backend(environ: Mapping[str, str], home: Path) -> str:
    """What Keras is set to compute with: KERAS_BACKEND, else keras.json, else TensorFlow."""
    if named := environ.get("KERAS_BACKEND"):
        return named
    folder = environ.get("KERAS_HOME")
    try:
        path = os.path.join(folder or home / ".keras", "keras.json")
        with open(path, encoding="utf-8") as file:
            return str(dict(json.load(file)).get("backend") or "tensorflow")
    except (OSError, ValueError, TypeError):
        return "tensorflow"
