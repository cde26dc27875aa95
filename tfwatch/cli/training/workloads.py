"""`tfwatch workloads`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "list the workloads"
    listing = commands.add_parser("workloads", help=text, description=options.sentence(text), allow_abbrev=False)
    listing.set_defaults(run=_run)
    listing.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.training.workloads import list_workloads

    return list_workloads(args.json)
