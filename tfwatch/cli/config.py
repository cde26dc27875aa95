"""`tfwatch config`: the config file, and each key with its value and where that is from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.config import KEYS, ConfigKey, read_config, short_path
from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.runs.library import platform_runs_dir
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def show_config(_args: argparse.Namespace) -> int:
    """Print the config file, and a line for each key with its value and where that is from; return
    the exit code."""
    config = read_config()
    rows = [(key, *_value_of(key, config.values)) for key in KEYS.values()]
    width = max(len(value) for _, value, _ in rows)
    missing = "" if config.path.exists() else " (not there)"
    lines = [f"config file: {short_path(config.path)}{missing}"]
    lines += [
        f"{key.name:<15}  {source:<7}  {value:<{width}}  {key.text}" for key, value, source in rows
    ]
    return write(sys.stdout, "".join(f"{printable(line)}\n" for line in lines))


def _value_of(key: ConfigKey, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the value of a key as text, and the source of that."""
    if key.name in values:
        return _shown(key, values[key.name]), "file"
    is_runs = key.name == "runs-dir"
    return short_path(platform_runs_dir()) if is_runs else key.default, "default"


def _shown(key: ConfigKey, value: Any) -> str:
    """Return a value as the file has it, or in its unit."""
    if isinstance(value, Path):
        return short_path(value)
    if isinstance(value, tuple):
        return shlex.join(value)
    if key.is_switch:
        return "true" if value else "false"
    return units.gigabytes(value) if key.name == "memory-limit" else str(value)
