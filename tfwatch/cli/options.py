"""Readers of the values of options, and options whose default is the config file's.

A ValueError's message is for the user.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.notices import NotifyOptions

#: A limit against typing errors. A size that does not fit into memory is reported and may be tried.
_LARGEST_BATCH = 10_000_000
#: The options that a key of the config file sets where they are not given.
_OF_CONFIG = ("theme", "memory-limit", "python", "quiet")


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
    return typed(lambda text: units.parse_whole(text, least, most))


def number(most: float) -> Callable[[str], float]:
    """Return a reader of numbers from 0 to a limit."""
    return typed(lambda text: units.parse_number(text, most))


def words(text: str) -> list[str]:
    """Read words separated by commas, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def some_of(*known: str) -> Callable[[str], list[str]]:
    """Return a reader of words separated by commas, each one of the known ones."""

    def read(text: str) -> list[str]:
        for word in words(text):
            if word not in known:
                raise ValueError(f"{word!r} is none of {', '.join(known)}")
        return words(text)

    return typed(read)


def wholes(text: str) -> list[int]:
    """Read batch sizes separated by commas."""
    return [whole(1, _LARGEST_BATCH)(word) for word in words(text)]


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


# -- the config file -------------------------------------------------------------------------------


def fill_in(args: argparse.Namespace) -> None:
    """Give each option that is not given its value of the config file, and the folder of the runs
    its place."""
    from tfwatch.runs.library import default_runs_dir

    if "runs_dir" in args:
        args.runs_dir = args.runs_dir or default_runs_dir()
    for name in _OF_CONFIG:
        attribute = name.replace("-", "_")
        if attribute in args:
            setattr(args, attribute, of_config(name, getattr(args, attribute)))


def of_config(name: str, given: Any) -> Any:
    """Return the value of an option, else that of the config file; None without either."""
    from tfwatch.config import read_config

    return read_config().values.get(name) if given is None else given


def notify(args: argparse.Namespace) -> NotifyOptions:
    """Return the notices that the user asks for. `--no-notify` turns the command of the config file
    off too."""
    from tfwatch.notices import NotifyOptions

    command = args.notify_command
    if args.notify is not False:
        command = of_config("notify-command", command)
    return NotifyOptions(bool(of_config("notify", args.notify)), command or ())
