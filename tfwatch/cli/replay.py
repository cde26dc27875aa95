"""`tfwatch replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "open a recorded run in the same screen; a run that still trains is followed, read only"
    replay = options.add_command(commands, "replay", text, _run)
    replay.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    replay.add_argument("--json", action="store_true", help="print the run as one JSON object, as train does")
    options.add_runs_dir(replay)
    options.add_theme(replay)
    options.add_notify(replay)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.replay import ReplayOptions, replay

    theme, notices = options.of_config(args, "theme"), options.notify(args)
    return replay(ReplayOptions(args.which, options.runs_dir(args), theme, args.json, notices))
