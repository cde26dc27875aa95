"""`tfwatch set`: switches a knob of a training of another process."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.cli.named_runs import find_training
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import WORKERS, check_value, option_name, with_stage
from tfwatch.judge.effects.knob_state import knobs_in_effect
from tfwatch.runs.folder import RunFolder, call_and_report
from tfwatch.runs.requests import NoRequestsError, SwitchRequest, append, parse_change
from tfwatch.runs.run import Run
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.runs.requests import Change

_POLL_S = 0.05


def set_knobs(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Request the changes of a run in order, and print a line for each.

    Returns 0, or 1 where the training refused one, or one is not in effect in time.

    Raises:
        BadInputError: there is no such training or setting, or the run does not have such a knob to
        switch.
    """
    which, changes = _changes(args.words)
    folder = find_training(which, args.runs_dir)
    manifest = RunFolder(folder).manifest()
    for change in changes:
        if refused := manifest.why_not_switchable(change.knob):
            name = option_name(change.knob)
            raise BadInputError(f"{folder.name} does not switch {name}: {refused}")
    switches = [Switch(folder, change, clock) for change in _resolved(changes, folder, clock)]
    for switch in switches:
        switch.request()
    until_ns = clock.now_ns() + args.wait * 10**9
    lines = [switch.requested if args.no_wait else switch.wait(until_ns) for switch in switches]
    failed = any(switch.failed for switch in switches)
    return write(sys.stdout, "".join(f"{line}\n" for line in lines)) or int(failed)


def _changes(words: Sequence[str]) -> tuple[str | None, list[Change]]:
    """Return the run, None where none is named, and its changes.

    Raises:
        BadInputError: there is no change, or it is none of a knob.
    """
    run, changes = (None, words) if "=" in words[0] else (words[0], words[1:])
    if not changes:
        raise BadInputError("set needs a setting: tfwatch set RUN KNOB=VALUE, e.g. prefetch=4")
    try:
        return run, [parse_change(text) for text in changes]
    except ValueError as error:
        raise BadInputError(str(error)) from error


def _resolved(changes: Sequence[Change], folder: Path, clock: Clock) -> list[Change]:
    """Return the changes with the settings of all stages in place of that of one.

    Raises:
        BadInputError: the run has no such stage.
    """
    snapshot = Run(RunFolder(folder), clock).read()
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
        self._reader = Run(RunFolder(folder), clock)
        snapshot = self._reader.read()
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
        snapshot = self._reader.read()
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
