"""Reads the config file. Its keys are the names of options, and its values are read as theirs are."""

from __future__ import annotations

import difflib
import os
import stat
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.config.keys import KEYS, Key
from tfwatch.core.errors import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names another config file.
VARIABLE = "TFWATCH_CONFIG"
_LARGEST_BYTES = 2**16


class ConfigError(ValueError):
    """The config file cannot be used; the message is a sentence for the user, with the file and the key or line."""


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
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if os.environ.get(VARIABLE):
            raise ConfigError(f"there is no config file {path}, which {VARIABLE} names") from None
        return Config(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if not (stat.S_ISREG(found.st_mode) or str(path) == os.devnull):
        raise ConfigError(f"{path} is not a file")  # to open a pipe would wait for its writer
    return _load(path, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=4)
def _load(path: Path, _state: tuple[int, ...]) -> Config:
    """Read a file once for each of its states: a screen asks for the runs folder four times a second."""
    return Config(path, _values(path, _parse(path, _read(path))))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > _LARGEST_BYTES:
        raise ConfigError(f"{path} is not a config file: it has more than {_LARGEST_BYTES // 1024} KB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line} is not UTF-8") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
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


def _value(key: Key, value: object) -> Any:
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
