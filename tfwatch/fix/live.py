"""The settings that a run has proved faster while it trained, and their lines in the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.errors import printable
from tfwatch.core.knobs import CACHE
from tfwatch.fix.changes import DRAWS
from tfwatch.fix.tried import Tried, clears
from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.effects.wording import autopilot_text, changes_text, outcome_text, setting_text
from tfwatch.judge.findings.switch_lines import proved_knobs
from tfwatch.judge.forecasts.forecast import Forecast

if TYPE_CHECKING:
    from collections.abc import Collection

    from tfwatch.core.knobs import KnobChange
    from tfwatch.core.script_code import CodeEdit
    from tfwatch.judge.effects.switching_state import AutopilotRun
    from tfwatch.judge.judged_run import JudgedRun


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The proof of a run: the values of the knobs that are kept.

    code: the lines that set knobs in the script. open_values: of knobs that may be faster, and that
    the run did not prove. tried: in the run's order. evidence: in a sentence.
    no_line: the settings that no line of the script sets.
    """

    values: dict[str, str]
    code: tuple[CodeEdit, ...]
    open_values: dict[str, str]
    tried: tuple[Tried, ...]
    evidence: str
    no_line: str


NOTHING_LIVE = LiveResult({}, (), {}, (), "", "")


def live_result(judged: JudgedRun, allowed: Collection[str] = ()) -> LiveResult:
    """Return the proof of a run about the knobs of its input pipeline. allowed: kinds of changes,
    as of `Wanted`."""
    kept = _proved(judged)
    code = tuple(one for one in judged.run.manifest.code if one.is_plain and not one.is_cell)
    in_script = {edit.knob for edit in code}
    values = {knob: value for knob, value in kept.items() if knob in in_script}
    missing = [setting_text(knob, value) for knob, value in kept.items() if knob not in in_script]
    may_be = _not_proved(judged, DRAWS in allowed).items()
    return LiveResult(
        values,
        code,
        {knob: value for knob, value in may_be if knob in in_script and knob not in kept},
        _tried(judged, values),
        printable("; ".join(autopilot_text(one) for one in autopilot_runs(judged.run.events))),
        ", ".join(missing),
    )


def _not_proved(judged: JudgedRun, may_draw_others: bool) -> dict[str, str]:
    """Return the settings that the autopilot kept or had no time to judge, else the one that the
    first findings forecast.

    None of them is a cache, which helps from the second epoch on, or draws other random numbers
    where that is not allowed.
    """
    runs = autopilot_runs(judged.run.events)
    changes = [change for run in runs for change in (*run.kept, *_undecided(run))]
    advised = (one.forecast for one in judged.losses)
    named = next((one for one in advised if isinstance(one, Forecast)), None)
    found = {change.knob: change.new for change in changes}
    if named and not found:
        found = {named.knob: named.value}
    manifest = judged.run.manifest
    return {
        knob: value
        for knob, value in found.items()
        if knob != CACHE
        and value != manifest.knobs.get(knob)
        and (may_draw_others or not manifest.needs_consent(knob))
    }


def _undecided(run: AutopilotRun) -> tuple[KnobChange, ...]:
    """Return the changes of the newest move, where it was made and not judged."""
    if run.made is None or (run.moves and run.moves[-1].at_ns >= run.made.at_ns):
        return ()
    return run.made.changes


def _proved(judged: JudgedRun) -> dict[str, str]:
    """Return the values that are proved faster than those of the start, by 2 % and more."""
    start, enough = judged.run.manifest.knobs, _enough(judged)
    return {
        knob: value
        for knob, value in proved_knobs(judged.situation).items()
        if value != start.get(knob, value) and (knob, value) in enough
    }


def _enough(judged: JudgedRun) -> set[tuple[str, str]]:
    """Return the values whose gain clears the least one with its whole interval: of a switch, or of
    all that the autopilot kept."""
    known = [(one.estimate, one.knob, one.new) for one in judged.switches]
    known += [
        (run.estimate, change.knob, change.new)
        for run in autopilot_runs(judged.run.events)
        for change in run.kept
    ]
    return {(knob, new) for estimate, knob, new in known if clears(estimate)}


def _tried(judged: JudgedRun, values: dict[str, str]) -> tuple[Tried, ...]:
    return tuple(
        Tried(
            changes_text([one.change]),
            outcome_text(one),
            values.get(one.knob) == one.new,
            one.estimate,
        )
        for one in judged.switches
    )
