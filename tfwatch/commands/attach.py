"""`tfwatch attach` and `tfwatch set`: the live screen, or a switch, on a training of another process."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.analysis.tuning.knob_state import knobs_in_effect
from tfwatch.commands.replay import ReplayOptions, replay_group, show_run
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import PipelineSwitched, SwitchFailed
from tfwatch.core.knobs import WORKERS, check_value, option_name, with_stage
from tfwatch.live.script_runs import ScriptRuns
from tfwatch.runs.control.client import NoAnswerError, NotRunningError, control_of, find_running
from tfwatch.runs.control.messages import AskSwitch
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group
from tfwatch.runs.library.finding import find_run
from tfwatch.runs.reading.disk_call import call_and_report
from tfwatch.runs.reading.reader import RunReader, follow_folder
from tfwatch.runs.reading.streams import FolderSource
from tfwatch.runs.script_process import ProcessRuns
from tfwatch.terminal.capture import why_no_screen
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.commands.factories import Factories
    from tfwatch.runs.control.client import ControlClient
    from tfwatch.runs.control.request_text import Change


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
    folder, control = call_and_report(
        lambda: find_training(options.run, options.runs_dir), options.runs_dir
    )
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(
            obstacle.replace("use --headless", "use tfwatch set, or tfwatch report --json")
        )
    return _attach(folder, control, options, factories, clock)


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
        folder, control = find_training(str(rank), options.runs_dir)
    except BadInputError:
        return show_run(rank, follow_folder(rank, clock), options, factories, clock)
    return _attach(folder, control, options, factories, clock)


def _attach(
    folder: Path,
    control: ControlClient,
    options: ReplayOptions,
    factories: Factories | None,
    clock: Clock,
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
    folder, control = find_training(which, runs_dir)
    manifest = FolderSource(folder).manifest()
    for change in changes:
        if refused := manifest.why_not_switchable(change.knob):
            raise BadInputError(
                f"{folder.name} does not switch {option_name(change.knob)}: {refused.words}"
            )
    switches = [Switch(folder, change, clock) for change in _resolved(changes, folder, clock)]
    for switch in switches:
        switch.request(control)
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

    def request(self, control: ControlClient) -> None:
        """Send the request.

        Raises:
            BadInputError: the training refuses it at once, or does not answer.
        """
        try:
            refused = control.call(AskSwitch(self._knob, self._value, "command")).refused
        except NoAnswerError as error:
            raise BadInputError(f"{self._name}: {error}") from error
        if refused:
            raise BadInputError(refused)

    def wait(self, until_ns: int) -> str:
        """Wait until the value is in effect; return the result as a line."""
        if self._was == self._value:
            return f"{self._name} is {self._value} already"
        if self._epochs:
            return f"{self.requested}, in effect with a later epoch"
        pause = threading.Event()
        while (result := self._look()) is None:
            if self._clock.now_ns() >= until_ns:
                return self._fail("is requested, and not in effect yet")
            pause.wait(_POLL_S)
        return result

    def _look(self) -> str | None:
        """Return the result as a line; None where there is none yet."""
        snapshot = self._reader.tail()
        for event in snapshot.events[self._seen :]:
            if isinstance(event, SwitchFailed) and event.knob == self._knob:
                return self._fail(f"failed: {event.reason}")
            if isinstance(event, PipelineSwitched) and (event.knob, event.new) == (
                self._knob,
                self._value,
            ):
                return f"{self._name} {event.old} → {event.new} from step {event.step} on"
        return self._fail("is not in effect: the run has ended") if snapshot.ended else None

    def _fail(self, why: str) -> str:
        self.failed = True
        return f"{self._name} {self._value} {why}"
