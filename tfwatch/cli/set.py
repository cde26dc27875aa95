"""`tfwatch set`: switches a knob of a training of another process, or profiles its steps."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from tfwatch.cli.named_runs import find_training
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import PipelineSwitched, StepProfiled, SwitchFailed
from tfwatch.core.knobs import option_name
from tfwatch.judge.effects.switching_state import knobs_in_effect
from tfwatch.judge.profile.profiling import fact_lines
from tfwatch.judge.profile.step_groups import profile_lines
from tfwatch.runs.folder import RunFolder, call_and_report
from tfwatch.runs.requests import NoRequestsError, ProfileRequest, append, parse_change
from tfwatch.runs.run import Run
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tfwatch.core.events import Event
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.requests import SwitchRequest

#: Whether a request failed, and its result as lines.
Result: TypeAlias = tuple[bool, str]

_POLL_S = 0.05
#: The longest wait for a switch.
_LONGEST_S = 30
#: The word for a profile of the next steps.
_TRACE = "trace"


def set_knobs(args: argparse.Namespace) -> int:
    """Request the changes of a run in order, and print a line for each.

    Returns 0, or 1 where the training refused one, or one is not in effect in time.

    Raises:
        BadInputError: there is no such training or setting, or the run does not have such a knob to
        switch.
    """
    traces = args.words[-1] == _TRACE
    words = args.words[:-1] if traces else args.words
    which, changes = _changes(words, needs_change=not traces)
    changes = [replace(one, random_draws=bool(args.allow)) for one in changes]
    folder = find_training(which, args.runs_dir)
    run = Run(RunFolder(folder))
    begin = run.read()
    until_ns = SYSTEM.now_ns() + _LONGEST_S * 10**9
    settings = knobs_in_effect(begin.manifest.knobs, begin.events.of(PipelineSwitched))
    for change in changes:
        if refused := _why_not(change, begin.manifest):
            name = option_name(change.knob)
            raise BadInputError(f"{folder.name} does not switch {name}: {refused}")
    wanted = [*changes, *([None] if traces else [])]
    for one in wanted:
        _request(folder, one)
    results, seen = [], len(begin.events)
    for one in wanted:
        known = _known_result(one, settings, begin.manifest) if one else ""
        results.append((False, known) if known else _wait(run, one, seen, until_ns))
    failed = any(has_failed for has_failed, _ in results)
    return write(sys.stdout, "".join(f"{line}\n" for _, line in results)) or int(failed)


def _why_not(change: SwitchRequest, manifest: Manifest) -> str:
    """Return the reason why a run refuses a change; empty where it may take it."""
    if not manifest.needs_consent(change.knob):
        return manifest.why_not_switchable(change.knob)
    return "" if change.random_draws else f"{manifest.random_maps}; --allow random-draws allows it"


def _changes(words: Sequence[str], *, needs_change: bool) -> tuple[str | None, list[SwitchRequest]]:
    """Return the run, None where none is named, and its changes.

    Raises:
        BadInputError: there is no change, or it is none of a knob.
    """
    run, changes = (None, words) if not words or "=" in words[0] else (words[0], words[1:])
    if not changes and needs_change:
        raise BadInputError(
            "set needs a setting: tfwatch set RUN KNOB=VALUE, e.g. prefetch=4; or trace"
        )
    try:
        return run, [parse_change(text) for text in changes]
    except ValueError as error:
        raise BadInputError(str(error)) from error


def _request(folder: Path, change: SwitchRequest | None) -> None:
    """Request a change; None: a profile.

    Raises:
        BadInputError: the run takes none.
    """
    request = change or ProfileRequest("command")
    try:
        call_and_report(lambda: append(folder, request), folder)
    except NoRequestsError as error:
        name = option_name(change.knob) if change else _TRACE
        raise BadInputError(f"{name}: {error}") from error


# -- the result ------------------------------------------------------------------------------------


def _known_result(change: SwitchRequest, settings: Mapping[str, str], manifest: Manifest) -> str:
    """Return the result that needs no wait as a line; empty where one is needed."""
    name, was = option_name(change.knob), settings.get(change.knob, "")
    if was == change.value:
        return f"{name} is {was} already"
    if manifest.epochs_until(change.knob, change.value):
        return f"requested: {name} {was} → {change.value}, in effect with a later epoch"
    return ""


def _answer(event: Event, change: SwitchRequest | None, manifest: Manifest) -> Result | None:
    """Return the result where an event is the answer to a change; None: to that of a profile."""
    if change is None:
        if not isinstance(event, StepProfiled):
            return None
        facts = fact_lines(manifest) if event.missing else []
        return bool(event.missing), "\n".join([*profile_lines(event), *facts])
    if not isinstance(event, SwitchFailed | PipelineSwitched) or event.knob != change.knob:
        return None
    name = option_name(change.knob)
    if isinstance(event, SwitchFailed):
        return True, f"{name} {change.value} failed: {event.reason}"
    line = f"{name} {event.old} → {event.new} from step {event.step} on"
    return (False, line) if event.new == change.value else None


def _wait(run: Run, change: SwitchRequest | None, seen: int, until_ns: int) -> Result:
    """Wait for the answer to a change, or for a profile. seen: the events before the request."""
    pause = threading.Event()
    asked = f"{option_name(change.knob)} {change.value}" if change else _TRACE
    while True:
        snapshot = run.read()
        answers = (_answer(event, change, snapshot.manifest) for event in snapshot.events[seen:])
        if answer := next(filter(None, answers), None):
            return answer
        if snapshot.life.is_over:
            return True, f"{asked} has no answer: the run is over"
        if SYSTEM.now_ns() >= until_ns:
            return True, f"{asked} is requested, and has no answer yet"
        pause.wait(_POLL_S)
