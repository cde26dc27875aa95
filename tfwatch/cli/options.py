"""Readers of the values of options.

A ValueError's message is for the user.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.notices import NotifyOptions

#: As in `tfwatch.screens.themes`, which loads Textual.
THEMES = ("dark", "light")


def typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader for argparse, which shows the message of an ArgumentTypeError only."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers within limits."""
    return lambda text: units.parse_whole(text, least, most)


def number(most: float) -> Callable[[str], float]:
    """Return a reader of numbers from 0 to a limit."""
    return lambda text: units.parse_number(text, most)


def group(text: str) -> str:
    """Read the name of a group.

    Raises:
        ValueError: it is empty.
    """
    if not text.strip():
        raise ValueError("a group needs a name")
    return text.strip()


def address(text: str) -> str:
    """Read HOST:PORT.

    Raises:
        ValueError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"an address is HOST:PORT, as localhost:5000, not {text!r}")
    return text


def switch(text: str) -> Any:
    """Read a planned switch, see `runs.requests.parse_switch`."""
    from tfwatch.runs.requests import parse_switch

    return parse_switch(text)


def settings(text: str) -> Any:
    """Read a knob and its settings, see `runs.requests.parse_settings`."""
    from tfwatch.runs.requests import parse_settings

    return parse_settings(text)


def path(text: str) -> Path:
    """Read a path and resolve `~`.

    Raises:
        ValueError: it is empty, which would be the current folder.
    """
    if not text:
        raise ValueError("give a path")
    # Path.expanduser raises where there is no such user.
    return Path(os.path.expanduser(text))


def command(text: str) -> tuple[str, ...]:
    """Read a command and its arguments, split as a shell splits them; no shell runs it.

    Raises:
        ValueError: it cannot be split, or there is no such program.
    """
    import shlex
    import shutil

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a command: {error}") from error
    if not words:
        raise ValueError("give a command")
    program = os.path.expanduser(words[0])
    if shutil.which(program) is None:
        raise ValueError(f"there is no program {words[0]}")
    return (program, *words[1:])


def theme(text: str) -> str:
    """Read a theme.

    Raises:
        ValueError: there is none of this name.
    """
    if text not in THEMES:
        raise ValueError(f"{text!r} is not a theme: there are {', '.join(THEMES)}")
    return text


def notify(args: argparse.Namespace) -> NotifyOptions:
    """Return the notices that the user asks for."""
    from tfwatch.notices import NotifyOptions

    return NotifyOptions(args.notify, args.notify_command or ())
