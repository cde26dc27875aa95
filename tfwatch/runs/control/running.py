"""The runs that train on this machine now: found by name or by process, and their control."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tfwatch.runs.control.client import ControlClient, NoAnswerError
from tfwatch.runs.format import Manifest, NotARunError
from tfwatch.runs.library.finding import find_run, list_single_runs, replay_argument
from tfwatch.runs.liveness import is_process_alive
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.opened import open_run
from tfwatch.runs.streams import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UNWATCHED = "start it with tfwatch run, or add callbacks=[tfwatch.Watch()] to its fit"
_START = "start one with tfwatch run or tfwatch train; tfwatch replay shows those that are over"
_EARLIER_VERSION = "another version of tfwatch writes it"


class NotRunningError(Exception):
    """There is no such training; the message is a sentence for the user."""


def find_running(wanted: str | None, runs_dir: Path) -> Path:
    """Return the run that trains now: the one that a user names, as for `find_run` or by its process, or the newest.

    Raises:
        NotRunningError: there is none. FileNotFoundError: there is no such run. OSError: the runs cannot be read.
    """
    if wanted is None:
        none = f"no training runs on this machine now, among the runs in {runs_dir}: {_START}"
        return _first(_running(runs_dir), none)
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 and psutil.pid_exists(int(wanted)):
        of_process = (run for run in _running(runs_dir) if _is_of(int(wanted), _manifest(run)))
        return _first(of_process, f"process {wanted} is not watched: {_UNWATCHED}")
    try:
        return find_run(wanted, runs_dir)
    except FileNotFoundError as error:
        if not wanted.isdigit():
            raise
        raise NotRunningError(f"there is no process {wanted}, and {error}") from error


def control_of(folder: Path) -> ControlClient:
    """Return the control of a run that trains on this machine.

    Raises:
        NotRunningError: it does not, or nobody answers. NotARunError: the folder is not a run.
    """
    manifest = FolderSource(folder).manifest()
    client = ControlClient(manifest.control_socket)
    try:
        _check(manifest, folder)
        client.check()
    except NoAnswerError as error:
        raise NotRunningError(f"{folder.name}: {error}; {_replay(folder)} follows it") from error
    return client


def _check(manifest: Manifest, folder: Path) -> None:
    if open_run(folder).life.is_over:
        raise NotRunningError(f"{folder.name} is over: {_replay(folder)} shows it")
    if manifest.boot_id != boot_id():
        host = manifest.machine.get("host") or "another machine"
        raise NotRunningError(f"{folder.name} trains on {host}: attach there; {_replay(folder)} follows it")
    if not manifest.control_socket:
        reason = manifest.no_control or _EARLIER_VERSION
        raise NotRunningError(f"{folder.name} takes no requests: {reason}; {_replay(folder)} follows it")


def _replay(folder: Path) -> str:
    return f"tfwatch replay {replay_argument(folder)}"


def _first(runs: Iterator[Path], why_none: str) -> Path:
    for run in runs:
        return run
    raise NotRunningError(why_none)


def _running(runs_dir: Path) -> Iterator[Path]:
    """Yield the runs whose training goes on, the newest first."""
    for folder in list_single_runs(runs_dir):
        with suppress(NotARunError, OSError, ValueError):
            manifest = _manifest(folder)
            if manifest.boot_id == boot_id() and is_process_alive(manifest) and not open_run(folder).life.is_over:
                yield folder


def _manifest(folder: Path) -> Manifest:
    return FolderSource(folder).manifest()


def _is_of(pid: int, manifest: Manifest) -> bool:
    """Return whether a process, or its child, as that of `tfwatch run`, writes a run."""
    if manifest.pid == pid:
        return True
    with suppress(psutil.Error):
        return bool(psutil.Process(manifest.pid).ppid() == pid)
    return False
