"""The keys of the config file, and the readers of their values. Each key is the name of an option."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core import parsing

if TYPE_CHECKING:
    from collections.abc import Callable

#: As in `tfwatch.screens.themes`, which loads Textual.
THEMES = ("dark", "light")
#: Seconds that the device starves, or waits for one batch, until a notice; and the longest such time.
NOTIFY_AFTER_S, LONGEST_NOTIFY_AFTER_S = 30, 86_400
MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class Key:
    """A key. default: in words. is_switch: true or false, an option without a value. is_knob: a start knob.

    read: reads the text of a value; a ValueError's message is for the user.
    """

    name: str
    text: str
    default: str
    read: Callable[[str], Any] = str
    is_switch: bool = False
    is_knob: bool = False
    is_text: bool = False


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


def _theme(text: str) -> str:
    if text not in THEMES:
        raise ValueError(f"{text!r} is not a theme: there are {', '.join(THEMES)}")
    return text


def _knob(name: str, text: str) -> Key:
    def read(value: str) -> Any:
        from tfwatch.core.knobs import as_value

        return as_value(name, value)

    return Key(name, text, "auto" if name == "shuffle" else "off", read, is_knob=True)


_KEYS = (
    Key("theme", "colours of the screen", "dark, or the last choice", _theme, is_text=True),
    Key("runs-dir", "folder of the runs", "of the platform", path, is_text=True),
    Key("notify", "notices in the terminal", "false", is_switch=True),
    Key("notify-command", "command that gets each notice", "none", command, is_text=True),
    Key(
        "notify-after",
        "seconds of starving until a notice",
        str(NOTIFY_AFTER_S),
        lambda text: parsing.whole(text, 1, LONGEST_NOTIFY_AFTER_S),
    ),
    Key("keep-runs", "the newest runs that are kept", "all", lambda text: parsing.whole(text, 1, MOST_RUNS)),
    Key("keep-age", "the age of runs that are kept", "any", parsing.age),
    Key("keep-size", "gigabytes of runs that are kept", "any", parsing.gigabytes),
    _knob("prefetch", "batches prepared ahead"),
    _knob("workers", "parallel map workers"),
    _knob("cache", "cache of the examples"),
    _knob("shuffle", "buffer_size of the shuffle"),
)
KEYS = {key.name: key for key in _KEYS}
