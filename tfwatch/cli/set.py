"""`tfwatch set`: switches a knob of a training of another process."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.cli.named_runs import find_training
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import WORKERS, check_value, option_name, with_stage
from tfwatch.judge.effects.knob_state import knobs_in_effect
from tfwatch.runs.reading.disk_call import call_and_report
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.requests import (
    NoRequestsError,
    SwitchRequest,
    append,
)
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.runs.request_text import Change

_SET_EPILOG = (
    "exit codes: 0 in effect, or requested with --no-wait; 1 refused by the training, or not in"
    " effect in time; 2 bad input"
)
_SET_WAIT_S = 30
_LONGEST_WAIT_S = 86_400


def add_set(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    own = options.add_command(commands, "set", text, _run_set, epilog=_SET_EPILOG)
    own.add_argument(
        "words",
        metavar="[RUN|PID] KNOB=VALUE",
        nargs="+",
        help=f"{options.TRAINING}. The knobs: --switch",
    )
    waiting = own.add_mutually_exclusive_group()
    waiting.add_argument(
        "--no-wait", action="store_true", help="do not wait until the switch is in effect"
    )
    waiting.add_argument(
        "--wait",
        metavar="SECONDS",
        type=options.whole(1, _LONGEST_WAIT_S),
        default=_SET_WAIT_S,
        help=f"the longest wait; default: {_SET_WAIT_S}",
    )
    options.add_runs_dir(own)


def _run_set(args: argparse.Namespace) -> int:
    run, *changes = args.words if "=" not in args.words[0] else (None, *args.words)
    if not changes:
        raise BadInputError("set needs a setting: tfwatch set RUN KNOB=VALUE, e.g. prefetch=4")
    try:
        read = tuple(options.change(text) for text in changes)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    return set_knobs(run, options.runs_dir(args), read, 0 if args.no_wait else args.wait)


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
    manifest = RunFolder(folder).manifest()
    for change in changes:
        if refused := manifest.why_not_switchable(change.knob):
            raise BadInputError(
                f"{folder.name} does not switch {option_name(change.knob)}: {refused}"
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
    snapshot = RunReader(RunFolder(folder), clock).tail()
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
        f"{named} {change.stage!r} with parallel calls of its own:"
        f" {known or 'the run has fewer than two'}"
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
        self._reader = RunReader(RunFolder(folder), clock)
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
