"""`tfwatch config`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse

_EPILOG = "Each key is the name of an option, which overrides it for one command. docs/settings.md has an example."


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "show the config file, and each of its keys with the value in force"
    own = commands.add_parser(
        "config", help=text, description=options.sentence(text), epilog=_EPILOG, allow_abbrev=False
    )
    own.set_defaults(run=_run)


def _run(_args: argparse.Namespace) -> int:
    from tfwatch.commands.system.config import show_config

    return show_config()
