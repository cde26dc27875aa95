"""`tfwatch set`: switches the pipeline of a training in another process, and waits until it is in effect."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.analysis.tuning.knob_state import knobs_in_effect
from tfwatch.commands.attach import find_training
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import PipelineSwitched, SwitchFailed
from tfwatch.core.knobs import option_name, parse_workers, show, with_stage
from tfwatch.runs.control.client import NoAnswerError
from tfwatch.runs.control.messages import AskSwitch
from tfwatch.runs.reader import RunReader
from tfwatch.runs.streams import FolderSource
from tfwatch.terminal.output import write
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.runs.control.client import ControlClient
    from tfwatch.training.request import Change

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The options of `tfwatch set`. run: None is the newest that trains. wait_s: 0 is no wait."""

    run: str | None
    runs_dir: Path
    changes: tuple[Change, ...]
    wait_s: float


def set_knobs(options: SetOptions, clock: Clock = SYSTEM) -> int:
    """Request the changes in order, and print a line for each.

    Returns 0, or 1 where the training refused one, or one is not in effect in time.

    Raises:
        BadInputError: there is no such training, or the run does not have such a knob to switch.
    """
    folder, control = find_training(options.run, options.runs_dir)
    manifest = FolderSource(folder).manifest()
    for change in options.changes:
        if refused := manifest.why_not_switchable(change.knob):
            raise BadInputError(f"{folder.name} does not switch {option_name(change.knob)}: {refused.words}")
    switches = [Switch(folder, change, clock) for change in _resolved(options.changes, folder, clock)]
    for switch in switches:
        switch.request(control)
    until_ns = clock.now_ns() + int(options.wait_s * 1e9)
    return _print(switches, [switch.wait(until_ns) if options.wait_s else switch.requested for switch in switches])


def _resolved(changes: Sequence[Change], folder: Path, clock: Clock) -> list[Change]:
    """Return the changes with the settings of all stages in place of that of one.

    Raises:
        BadInputError: the run has no such stage.
    """
    snapshot = RunReader(FolderSource(folder), clock, keeps_sums=False).tail()
    stages = snapshot.manifest.parallel_stages
    workers = knobs_in_effect(snapshot.manifest.knobs, snapshot.events.of(PipelineSwitched)).get("workers", "default")
    found = []
    for change in changes:
        if change.knob == "workers":
            workers = _with_stage(workers, stages, change) if change.stage else show(change.value)
            change = replace(change, value=parse_workers(workers), stage="")
        found.append(change)
    return found


def _with_stage(workers: str, stages: Sequence[str], change: Change) -> str:
    names = (change.stage, f"map({change.stage})", f"interleave({change.stage})")
    matching = [at for at, stage in enumerate(stages) if stage in names or str(at + 1) == change.stage]
    if len(matching) == 1:
        return with_stage(workers, len(stages), matching[0], show(change.value))
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
        self._knob, self._value = change.knob, show(change.value)
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
            if isinstance(event, PipelineSwitched) and (event.knob, event.new) == (self._knob, self._value):
                return f"{self._name} {event.old} → {event.new} from step {event.step} on"
        return self._fail("is not in effect: the run has ended") if snapshot.ended else None

    def _fail(self, why: str) -> str:
        self.failed = True
        return f"{self._name} {self._value} {why}"
