"""`tfwatch config`: the config file, and each key with its value and where that is from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.config import KEYS, ConfigKey, read_config, short_path
from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.runs.library.finding import platform_runs_dir
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

_CONFIG_EPILOG = (
    "Each key is the name of an option, which overrides it for one command. docs/settings.md has an"
    " example."
)


def add_config(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    options.add_command(commands, "config", text, _run_config, epilog=_CONFIG_EPILOG)


def _run_config(_args: argparse.Namespace) -> int:
    return show_config()


_IN_GIGABYTES = ("keep-size", "memory-limit")


def show_config() -> int:
    """Print the keys with their values and sources, and return the exit code.

    Raises:
        ConfigError: the config file cannot be used; the command line reports it before.
    """
    return write(sys.stdout, "".join(f"{line}\n" for line in settings_lines(KEYS, {})))


def report_settings(args: argparse.Namespace) -> None:
    """Print the settings of this command with their sources, where `-v` asks for it."""
    if args.verbose:
        given = {name: getattr(args, name.replace("-", "_"), None) for name in KEYS}
        known = [name for name in KEYS if hasattr(args, name.replace("-", "_"))]
        sys.stderr.write("".join(f"tfwatch: {line}\n" for line in settings_lines(known, given)))
        sys.stderr.flush()


def settings_lines(names: Iterable[str], given: Mapping[str, Any]) -> list[str]:
    """Return the config file, and a line for each of these keys. given: the values of options; None
    is not given."""
    config = read_config()
    rows = [_row(KEYS[name], given.get(name), config.values) for name in names]
    width = max(len(value) for _, value, _ in rows)
    missing = "" if config.path.exists() else " (not there)"
    lines = [f"config file: {short_path(config.path)}{missing}"]
    lines += [
        f"{key.name:<15}  {source:<7}  {value:<{width}}  {key.text}" for key, value, source in rows
    ]
    return [printable(line) for line in lines]


def _row(key: ConfigKey, given: Any, values: Mapping[str, Any]) -> tuple[ConfigKey, str, str]:
    """Return a key with its value as text, and the source of that."""
    if given is not None:
        return key, _shown(key, given), "option"
    if key.name in values:
        return key, _shown(key, values[key.name]), "file"
    return (
        key,
        short_path(platform_runs_dir()) if key.name == "runs-dir" else key.default,
        "default",
    )


def _shown(key: ConfigKey, value: Any) -> str:
    """Return a value as the file has it, or in its unit."""
    if isinstance(value, Path):
        return short_path(value)
    if isinstance(value, tuple):
        return shlex.join(value)
    if key.is_switch:
        return "true" if value else "false"
    if key.name == "keep-age":
        return units.seconds(value)
    return units.gigabytes(value) if key.name in _IN_GIGABYTES else str(value)
