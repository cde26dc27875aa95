"""`tfwatch attach`: the live screen with its keys on a training of another process."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from tfwatch.commands.replay import ReplayOptions, show_run
from tfwatch.commands.replay_group import replay_group
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.live.script_runs import ScriptRuns
from tfwatch.runs.control.running import NotRunningError, control_of, find_running
from tfwatch.runs.format import NotARunError
from tfwatch.runs.groups.group_file import is_group
from tfwatch.runs.library.finding import find_run
from tfwatch.runs.reader import follow_folder
from tfwatch.runs.scripts.process_runs import ProcessRuns
from tfwatch.terminal.capture import why_no_screen
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.commands.factories import Factories
    from tfwatch.runs.control.client import ControlClient


def attach(options: ReplayOptions, factories: Factories | None = None, clock: Clock = SYSTEM) -> int:
    """Show a training, and those that its process begins afterwards, until the user leaves.

    Returns 0; 1 where the screen fails; 128 + the signal that ends it. The training goes on in each case, unless the
    user stopped it.

    Raises:
        BadInputError: there is no such training, or no screen to show it on.
    """
    if group := _find_group(options):
        return _attach_group(group, options, factories, clock)
    folder, control = find_training(options.run, options.runs_dir)
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace("use --headless", "use tfwatch set, or tfwatch replay --json"))
    return _attach(folder, control, options, factories, clock)


def _attach_group(group: Path, options: ReplayOptions, factories: Factories | None, clock: Clock) -> int:
    """Show the ranks of a group, each with the keys of its training where it runs here."""

    def show_rank(rank: Path) -> int:
        return _show_rank(rank, options, factories, clock)

    return replay_group(group, False, options.theme, show_rank, clock)


def _show_rank(rank: Path, options: ReplayOptions, factories: Factories | None, clock: Clock) -> int:
    """Show a rank's training; read only where it is over, or on another machine."""
    try:
        folder, control = find_training(str(rank), options.runs_dir)
    except BadInputError:
        return show_run(rank, follow_folder(rank, clock), options, factories, clock)
    return _attach(folder, control, options, factories, clock)


def _attach(
    folder: Path, control: ControlClient, options: ReplayOptions, factories: Factories | None, clock: Clock
) -> int:
    runs = _runs_from(folder, clock)
    reader = (runs and runs.next_reader()) or follow_folder(folder, clock)
    return show_run(folder, reader, options, factories, clock, control, runs)


def _find_group(options: ReplayOptions) -> Path | None:
    """Return the group that the user names; None where it is not a group."""
    with suppress(FileNotFoundError, OSError):
        folder = find_run(options.run, options.runs_dir) if options.run else None
        return folder if folder and is_group(folder) else None
    return None


def _runs_from(folder: Path, clock: Clock) -> ScriptRuns | None:
    """Return the runs of the process that writes this one, which is the first to be shown; None where unreadable."""
    with suppress(NotARunError, OSError):
        return ScriptRuns(ProcessRuns(folder, clock), clock)
    return None


def find_training(wanted: str | None, runs_dir: Path) -> tuple[Path, ControlClient]:
    """Return the folder and the control of a training that a user names.

    Raises:
        BadInputError: there is none; the message is a sentence for the user.
    """
    try:
        folder = find_running(wanted, runs_dir)
        return folder, control_of(folder)
    except (FileNotFoundError, NotARunError, NotRunningError) as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"{runs_dir} cannot be read: {error.strerror or error}") from error
