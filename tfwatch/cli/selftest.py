"""`tfwatch selftest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "check the numbers on this machine: train with known delays and compare; about three minutes"
    own = options.add_command(commands, "selftest", text, _run)
    own.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run(args: argparse.Namespace) -> int:
    from tfwatch.checks.selftest import selftest

    return selftest(args.json)
