"""`tfwatch attach` and `tfwatch set`: the live screen, or a switch, on a training of another process."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from tfwatch.cli.replay import ReplayOptions, replay_group, show_run
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import WORKERS, check_value, option_name, with_stage
from tfwatch.judge.effects.knob_state import knobs_in_effect
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group
from tfwatch.runs.library.finding import find_run, list_single_runs, replay_argument
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.reading.disk_call import call_and_report
from tfwatch.runs.reading.liveness import is_process_alive
from tfwatch.runs.reading.opened import open_run
from tfwatch.runs.reading.reader import RunReader, follow_folder
from tfwatch.runs.reading.streams import FolderSource
from tfwatch.runs.requests import (
    NoRequestsError,
    RequestSender,
    SwitchRequest,
    append,
    why_no_requests,
)
from tfwatch.runs.script_process import ProcessRuns
from tfwatch.terminal.capture import why_no_screen
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tfwatch.cli.factories import Factories
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.request_text import Change


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
    try:
        folder = _find_running(wanted, runs_dir)
        if why := _why_not_attached(folder):
            raise BadInputError(why)
    except (FileNotFoundError, NotARunError) as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"{runs_dir} cannot be read: {error.strerror or error}") from error
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
    return FolderSource(folder).manifest()


def _is_of(pid: int, manifest: Manifest) -> bool:
    """Return whether a process, or its child, as that of `tfwatch run`, writes a run."""
    if manifest.pid == pid:
        return True
    with suppress(psutil.Error):
        return bool(psutil.Process(manifest.pid).ppid() == pid)
    return False


_POLL_S = 0.05


def set_knobs(
    which: str | None,
    runs_dir: Path,
    changes: Sequence[Change],
    wait_s: float,
    clock: Clock = SYSTEM,
) -> int:
    """Request the changes of a run in order, and print a line for each.

    which: None is the newest run that trains. wait_s: 0 is no wait.

    Returns 0, or 1 where the training refused one, or one is not in effect in time.

    Raises:
        BadInputError: there is no such training, or the run does not have such a knob to switch.
    """
    folder = find_training(which, runs_dir)
    manifest = FolderSource(folder).manifest()
    for change in changes:
        if refused := manifest.why_not_switchable(change.knob):
            raise BadInputError(
                f"{folder.name} does not switch {option_name(change.knob)}: {refused.words}"
            )
    switches = [Switch(folder, change, clock) for change in _resolved(changes, folder, clock)]
    for switch in switches:
        switch.request()
    until_ns = clock.now_ns() + int(wait_s * 1e9)
    return _print(
        switches, [switch.wait(until_ns) if wait_s else switch.requested for switch in switches]
    )


def _resolved(changes: Sequence[Change], folder: Path, clock: Clock) -> list[Change]:
    """Return the changes with the settings of all stages in place of that of one.

    Raises:
        BadInputError: the run has no such stage.
    """
    snapshot = RunReader(FolderSource(folder), clock, keeps_sums=False).tail()
    stages = snapshot.manifest.parallel_stages
    workers = knobs_in_effect(snapshot.manifest.knobs, snapshot.events.of(PipelineSwitched)).get(
        WORKERS, "default"
    )
    found = []
    for change in changes:
        if change.knob == WORKERS:
            workers = _with_stage(workers, stages, change) if change.stage else change.value
            change = replace(change, value=check_value(WORKERS, workers), stage="")
        found.append(change)
    return found


def _with_stage(workers: str, stages: Sequence[str], change: Change) -> str:
    names = (change.stage, f"map({change.stage})", f"interleave({change.stage})")
    matching = [
        at for at, stage in enumerate(stages) if stage in names or str(at + 1) == change.stage
    ]
    if len(matching) == 1:
        return with_stage(workers, len(stages), matching[0], change.value)
    named = "several stages" if matching else "no stage"
    known = ", ".join(f"{at}: {stage}" for at, stage in enumerate(stages, 1))
    raise BadInputError(
        f"{named} {change.stage!r} with parallel calls of its own: {known or 'the run has fewer than two'}"
    )


def _print(switches: Sequence[Switch], lines: Sequence[str]) -> int:
    failed = any(switch.failed for switch in switches)
    text = "".join(f"{line}\n" for line in lines)
    return write(sys.stdout, text) or int(failed)


class Switch:
    """One request for a value of a knob.

    requested: the request as a line. failed: it was refused, or is not in effect in time.
    """

    def __init__(self, folder: Path, change: Change, clock: Clock) -> None:
        self.failed = False
        self._is_taken = False
        self._folder = folder
        self._knob, self._value = change.knob, change.value
        self._name = option_name(change.knob)
        self._clock = clock
        self._reader = RunReader(FolderSource(folder), clock, keeps_sums=False)
        snapshot = self._reader.tail()
        self._seen = len(snapshot.events)
        self._epochs = snapshot.manifest.epochs_until(self._knob, self._value)
        settings = knobs_in_effect(snapshot.manifest.knobs, snapshot.events.of(PipelineSwitched))
        self._was = settings.get(self._knob, "")
        self.requested = f"requested: {self._name} {self._was} → {self._value}"

    def request(self) -> None:
        """Append the request.

        Raises:
            BadInputError: the run takes none.
        """
        request = SwitchRequest(self._knob, self._value, "command")
        try:
            call_and_report(lambda: append(self._folder, request), self._folder)
        except NoRequestsError as error:
            raise BadInputError(f"{self._name}: {error}") from error

    def wait(self, until_ns: int) -> str:
        """Wait until the value is in effect; return the result as a line."""
        if self._was == self._value:
            return f"{self._name} is {self._value} already"
        if self._epochs:
            return f"{self.requested}, in effect with a later epoch"
        pause = threading.Event()
        while (result := self._look()) is None:
            if self._clock.now_ns() >= until_ns:
                return self._fail(
                    "is requested, and not in effect yet"
                    if self._is_taken
                    else "is requested, and the training has not taken it yet"
                )
            pause.wait(_POLL_S)
        return result

    def _look(self) -> str | None:
        """Return the result as a line; None where there is none yet."""
        snapshot = self._reader.tail()
        for event in snapshot.events[self._seen :]:
            if isinstance(event, SwitchAsked) and event.knob == self._knob:
                self._is_taken = True
            if isinstance(event, SwitchFailed) and event.knob == self._knob:
                return self._fail(f"failed: {event.reason}")
            if isinstance(event, PipelineSwitched) and (event.knob, event.new) == (
                self._knob,
                self._value,
            ):
                return f"{self._name} {event.old} → {event.new} from step {event.step} on"
        return self._fail("is not in effect: the run is over") if snapshot.life.is_over else None

    def _fail(self, why: str) -> str:
        self.failed = True
        return f"{self._name} {self._value} {why}"
