"""`tfwatch attach`: the live screen on a training of another process."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.cli import options
from tfwatch.cli.named_runs import readable
from tfwatch.cli.replay import ReplayOptions, replay_group, show_run
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group
from tfwatch.runs.library.finding import find_run, list_single_runs, replay_argument
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.reading.disk_call import call_and_report
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.runs.reading.liveness import is_process_alive
from tfwatch.runs.reading.opened import open_run
from tfwatch.runs.reading.reader import follow_folder
from tfwatch.runs.requests import (
    RequestSender,
    why_no_requests,
)
from tfwatch.runs.script_process import ProcessRuns
from tfwatch.terminal.capture import why_no_screen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.cli.factories import Factories
    from tfwatch.judge.script_runs import ScriptRuns
    from tfwatch.runs.format import Manifest


RUN_HELP = (
    "a run folder, part of a run's name, or a process id; default: the newest training that runs"
)


def add_attach(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    attach = options.add_command(commands, "attach", text, _run_attach)
    attach.add_argument("which", metavar="RUN|PID", nargs="?", help=RUN_HELP)
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

    Returns 0; 1 where the screen fails; 128 + the signal that ends it. The training goes on in each case, unless the
    user stopped it.

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
    """Return the runs of the process that writes this one, which is the first to be shown; None where unreadable."""
    from tfwatch.judge.script_runs import ScriptRuns

    with suppress(NotARunError, OSError):
        return ScriptRuns(ProcessRuns(folder, clock), clock)
    return None


_UNWATCHED = "start it with tfwatch run, or add callbacks=[tfwatch.Watch()] to its fit"
_START = "start one with tfwatch run or tfwatch train; tfwatch replay shows those that are over"


def find_training(wanted: str | None, runs_dir: Path) -> Path:
    """Return the folder of a training that takes requests: the one that a user names, or the newest.

    wanted: a run, as for `find_run`, or the number of its process.

    Raises:
        BadInputError: there is none; the message is a sentence for the user.
    """
    with readable(runs_dir):
        folder = _find_running(wanted, runs_dir)
        if why := _why_not_attached(folder):
            raise BadInputError(why)
    return folder


def _find_running(wanted: str | None, runs_dir: Path) -> Path:
    if wanted is None:
        none = f"no training runs on this machine now, among the runs in {runs_dir}: {_START}"
        return _first(_running(runs_dir), none)
    is_number = wanted.isascii() and wanted.isdigit() and len(wanted) < 10
    if is_number and psutil.pid_exists(int(wanted)):
        of_process = (run for run in _running(runs_dir) if _is_of(int(wanted), _manifest(run)))
        return _first(of_process, f"process {wanted} is not watched: {_UNWATCHED}")
    try:
        return find_run(wanted, runs_dir)
    except FileNotFoundError as error:
        if not wanted.isdigit():
            raise
        raise BadInputError(f"there is no process {wanted}, and {error}") from error


def _why_not_attached(folder: Path) -> str:
    """Return why a run takes no requests from here; empty where it does."""
    manifest, replay = _manifest(folder), f"tfwatch replay {replay_argument(folder)}"
    if open_run(folder).life.is_over:
        return f"{folder.name} is over: {replay} shows it"
    if manifest.boot_id != boot_id():
        host = manifest.machine.get("host") or "another machine"
        return f"{folder.name} trains on {host}: attach there; {replay} follows it"
    why = why_no_requests(folder)
    return f"{folder.name}: {why}; {replay} follows it" if why else ""


def _first(runs: Iterator[Path], why_none: str) -> Path:
    for run in runs:
        return run
    raise BadInputError(why_none)


def _running(runs_dir: Path) -> Iterator[Path]:
    """Yield the runs whose training goes on, the newest first."""
    for folder in list_single_runs(runs_dir):
        with suppress(NotARunError, OSError, ValueError):
            manifest = _manifest(folder)
            is_here = manifest.boot_id == boot_id() and is_process_alive(manifest)
            if is_here and not open_run(folder).life.is_over:
                yield folder


def _manifest(folder: Path) -> Manifest:
    return RunFolder(folder).manifest()


def _is_of(pid: int, manifest: Manifest) -> bool:
    """Return whether a process, or its child, as that of `tfwatch run`, writes a run."""
    if manifest.pid == pid:
        return True
    with suppress(psutil.Error):
        return bool(psutil.Process(manifest.pid).ppid() == pid)
    return False
