"""`tfwatch attach`: the live screen on a training of another process."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.cli.named_runs import find_training
from tfwatch.cli.replay import ReplayOptions, replay_group, show_run
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group
from tfwatch.runs.library.finding import find_run
from tfwatch.runs.reading.disk_call import call_and_report
from tfwatch.runs.reading.reader import follow_folder
from tfwatch.runs.requests import RequestSender
from tfwatch.runs.script_process import ProcessRuns
from tfwatch.terminal.capture import why_no_screen

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from tfwatch.cli.factories import Factories
    from tfwatch.judge.script_runs import ScriptRuns


def add_attach(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    attach = options.add_command(commands, "attach", text, _run_attach)
    attach.add_argument("which", metavar="RUN|PID", nargs="?", help=options.TRAINING)
    options.add_runs_dir(attach)
    options.add_theme(attach)
    options.add_notify(attach)


def _run_attach(args: argparse.Namespace) -> int:
    theme = options.of_config(args, "theme")
    return attach(
        ReplayOptions(args.which, options.runs_dir(args), theme, notify=options.notify(args))
    )


def attach(
    options: ReplayOptions, factories: Factories | None = None, clock: Clock = SYSTEM
) -> int:
    """Show a training, and those that its process begins afterwards, until the user leaves.

    Returns 0; 1 where the screen fails; 128 + the signal that ends it. The training goes on in each
    case, unless the user stopped it.

    Raises:
        BadInputError: there is no such training, or no screen to show it on.
    """
    if group := call_and_report(lambda: _find_group(options), options.runs_dir):
        return _attach_group(group, options, factories, clock)
    folder = call_and_report(lambda: find_training(options.run, options.runs_dir), options.runs_dir)
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(
            obstacle.replace("use --headless", "use tfwatch set, or tfwatch report --json")
        )
    return _attach(folder, options, factories, clock)


def _attach_group(
    group: Path, options: ReplayOptions, factories: Factories | None, clock: Clock
) -> int:
    """Show the ranks of a group, each with the keys of its training where it runs here."""

    def show_rank(rank: Path) -> int:
        return _show_rank(rank, replace(options, goes_back=True), factories, clock)

    return replay_group(group, options, show_rank, clock)


def _show_rank(
    rank: Path, options: ReplayOptions, factories: Factories | None, clock: Clock
) -> int:
    """Show a rank's training; read only where it is over, or on another machine."""
    try:
        folder = find_training(str(rank), options.runs_dir)
    except BadInputError:
        return show_run(rank, follow_folder(rank, clock), options, factories, clock)
    return _attach(folder, options, factories, clock)


def _attach(
    folder: Path,
    options: ReplayOptions,
    factories: Factories | None,
    clock: Clock,
) -> int:
    runs = _runs_from(folder, clock)
    reader = (runs and runs.next_reader()) or follow_folder(folder, clock)
    return show_run(folder, reader, options, factories, clock, RequestSender(lambda: folder), runs)


def _find_group(options: ReplayOptions) -> Path | None:
    """Return the group that the user names; None where it is not a group."""
    with suppress(FileNotFoundError, OSError):
        folder = find_run(options.run, options.runs_dir) if options.run else None
        return folder if folder and is_group(folder) else None
    return None


def _runs_from(folder: Path, clock: Clock) -> ScriptRuns | None:
    """Return the runs of the process that writes this one, which is the first to be shown; None
    where unreadable."""
    from tfwatch.judge.script_runs import ScriptRuns

    with suppress(NotARunError, OSError):
        return ScriptRuns(ProcessRuns(folder, clock), clock)
    return None
