"""`tfwatch attach`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse

RUN_HELP = "a run folder, part of a run's name, or a process id; default: the newest training that runs"


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "the live screen, with its keys, on a training that runs in another terminal; d leaves it again"
    attach = options.add_command(commands, "attach", text, _run)
    attach.add_argument("which", metavar="RUN|PID", nargs="?", help=RUN_HELP)
    options.add_runs_dir(attach)
    options.add_theme(attach)
    options.add_notify(attach)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.attach import attach
    from tfwatch.commands.replay import ReplayOptions

    theme = options.of_config(args, "theme")
    return attach(ReplayOptions(args.which, options.runs_dir(args), theme, notify=options.notify(args)))
