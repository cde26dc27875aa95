"""The settings that a run has proved faster while it trained, and their lines in the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.errors import printable
from tfwatch.fix.tried import Tried, clears
from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.effects.wording import autopilot_text, changes_text, outcome_text, setting_text
from tfwatch.judge.findings.switch_lines import proved_knobs

if TYPE_CHECKING:
    from tfwatch.core.script_code import CodeEdit
    from tfwatch.judge.judged_run import JudgedRun


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The proof of a run: the values of the knobs that are kept, and the lines that set them in the
    script.

    tried: in the run's order. evidence: in a sentence.
    no_line: the settings that no line of the script sets.
    """

    values: dict[str, str]
    edits: tuple[CodeEdit, ...]
    tried: tuple[Tried, ...]
    evidence: str
    no_line: str


def live_result(judged: JudgedRun) -> LiveResult:
    """Return the proof of a run about the knobs of its input pipeline."""
    kept = _proved(judged)
    code = judged.run.manifest.code
    in_script = {edit.knob for edit in code if edit.is_plain and not edit.is_cell}
    values = {knob: value for knob, value in kept.items() if knob in in_script}
    missing = [setting_text(knob, value) for knob, value in kept.items() if knob not in in_script]
    return LiveResult(
        values,
        tuple(edit for edit in code if edit.knob in values),
        _tried(judged, values),
        printable("; ".join(autopilot_text(one) for one in autopilot_runs(judged.run.events))),
        ", ".join(missing),
    )


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
