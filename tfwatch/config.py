"""The user's config file: options of tfwatch that hold for every command. Each key is the name of
an option."""

from __future__ import annotations

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


#: The type of each key in TOML, and what reads its value as its option does; a ValueError's message
#: is for the user.
KEYS: Mapping[str, tuple[type, Callable[[Any], Any]]] = {
    "theme": (str, _theme),
    "runs-dir": (str, path),
    "notify": (bool, bool),
    "notify-command": (str, command),
    "memory-limit": (float, units.parse_gigabytes),
    "python": (str, path),
    "quiet": (bool, bool),
    "redact": (bool, bool),
}
_TYPES = {str: "a text in quotes", bool: "true or false", float: "a number"}
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
    try:
        return {name: _value(name, value) for name, value in table.items()}
    except ValueError as error:
        raise ConfigError(f"{path}: {printable(str(error))}") from error


def _value(name: str, value: object) -> Any:
    """Return the value of a key.

    Raises:
        ValueError: there is no such key, or it is none of its values; the message is for the user.
    """
    if name not in KEYS:
        raise ValueError(f"no key {name!r}: there are {', '.join(KEYS)}")
    kind, read = KEYS[name]
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds:
        raise ValueError(f"{name}: {value!r} is not {_TYPES[kind]}")
    try:
        return read(str(value) if kind is float else value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
