"""The user's config file: options of tfwatch that hold for every command. Each key is the name of
an option."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.core.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: As in `tfwatch.screens.themes`, which loads Textual.
THEMES = ("dark", "light")
MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key. is_switch: true or false, an option without a value.

    read: reads the text of a value; a ValueError's message is for the user.
    """

    name: str
    read: Callable[[str], Any] = str
    is_switch: bool = False
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


def short_path(path: Path) -> str:
    """Return the path with the user's home as `~`."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


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


_KEYS = (
    ConfigKey("theme", _theme, is_text=True),
    ConfigKey("runs-dir", path, is_text=True),
    ConfigKey("notify", is_switch=True),
    ConfigKey("notify-command", command, is_text=True),
    ConfigKey("memory-limit", units.parse_gigabytes),
    ConfigKey("python", path, is_text=True),
    ConfigKey("quiet", is_switch=True),
    ConfigKey("redact", is_switch=True),
)
KEYS = {key.name: key for key in _KEYS}
#: Names another config file.
VARIABLE = "TFWATCH_CONFIG"


class ConfigError(ValueError):
    """The config file cannot be used; the message is a sentence for the user, with the file and the
    key or line."""


@dataclass(frozen=True, slots=True)
class Config:
    """The values of the config file by their key; those that the file leaves out are missing."""

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)


def config_path() -> Path:
    """Return the place of the config file, also where there is none.

    Raises:
        RuntimeError: the user has no home folder.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(os.path.expanduser(named))
    import platformdirs  # the environment of a script that tfwatch runs may lack it

    return Path(platformdirs.user_config_dir("tfwatch", appauthor=False)) / "config.toml"


def read_config() -> Config:
    """Read the config file; no values where there is none.

    Raises:
        ConfigError: it cannot be read, or a key or a value is not one of tfwatch's.
        RuntimeError: the user has no home folder.
    """
    path = config_path()
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if os.environ.get(VARIABLE):
            raise ConfigError(f"there is no config file {path}, which {VARIABLE} names") from None
        return Config(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    return _load(path, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=4)
def _load(path: Path, _state: tuple[int, ...]) -> Config:
    """Read a file once for each of its states: a screen asks for the runs folder four times a
    second."""
    return Config(path, _values(path, _parse(path)))


def _parse(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # a ValueError: a number of thousands of digits
        raise ConfigError(f"{path} is not TOML: {printable(str(error))}") from error


def _values(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in table.items():
        key = KEYS.get(name)
        if key is None:
            raise ConfigError(f"{path}: {_unknown(name)}")
        try:
            values[name] = _value(key, value)
        except ValueError as error:
            raise ConfigError(f"{path}: {name}: {printable(str(error))}") from error
    return values


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, KEYS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
    return f"no key {printable(name)!r}: {hint}"


def _value(key: ConfigKey, value: object) -> Any:
    """Return the value as its option reads it from text.

    Raises:
        ValueError: it is none; the message is for the user.
    """
    if key.is_switch:
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is neither true nor false")
        return value
    if key.is_text and isinstance(value, bool | int | float):
        raise ValueError(f"{value!r} is not a text: write it in quotes")
    if isinstance(value, bool):
        return key.read("on" if value else "off")
    if isinstance(value, str | int | float):
        return key.read(str(value))
    raise ValueError(f"give one value, not a {'list' if isinstance(value, list) else 'table'}")
