"""The settings that a run has proved faster while it trained, and their lines in the script."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.core.knobs import CACHE, OFF, ON
from tfwatch.fix.changes import DRAWS
from tfwatch.fix.patch import make_patch, with_settings
from tfwatch.fix.tried import Tried, clears, in_fresh_runs
from tfwatch.judge.comparing.compared_runs import assumed_share
from tfwatch.judge.comparing.run_to_compare import RunToCompare
from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.effects.wording import autopilot_text, changes_text, setting_text
from tfwatch.judge.findings.switch_lines import lines_of_user, proved_knobs, settings_of_patch
from tfwatch.judge.forecasts.forecast import Forecast

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tfwatch.core.events import MoveJudged
    from tfwatch.core.knobs import KnobChange
    from tfwatch.core.script_code import CodeEdit
    from tfwatch.fix.patch import Patch
    from tfwatch.judge.effects.interval import Estimate
    from tfwatch.judge.effects.switching_state import AutopilotRun
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.judged_run import JudgedRun

#: Half the width of a precise interval, on the logarithm: from half to twice the gain.
_PRECISE = math.log(2)
#: An interval of 95 % of a normal distribution ends at so many standard deviations.
_UPPER = 1.96


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The proof of a run: the values of the knobs that are kept.

    gain: of these values; None without any, or where it has no ratio. code: the lines that set
    knobs in the script. not_proved: settings that may be faster, each to be tried by itself. tried:
    in the run's order. evidence: in sentences.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    gain: Estimate | None = None
    code: tuple[CodeEdit, ...] = ()
    not_proved: tuple[dict[str, str], ...] = ()
    tried: tuple[Tried, ...] = ()
    evidence: tuple[str, ...] = ()


def live_result(judged: JudgedRun, allowed: Collection[str] = ()) -> LiveResult:
    """Return the proof of a run about the knobs of its input pipeline. allowed: kinds of changes,
    as of `Wanted`."""
    runs = autopilot_runs(judged.run.events)
    kept = _proved(judged, runs)
    code = lines_of_user(judged.run.manifest.code)
    in_script = {edit.knob for edit in code}
    values = {knob: value for knob, value in kept.items() if knob in in_script}
    missing = [setting_text(knob, value) for knob, value in kept.items() if knob not in in_script]
    still_open = in_script - {*kept}
    may_be = [
        {knob: value for knob, value in one.items() if knob in still_open}
        for one in _not_proved(judged, runs, DRAWS in allowed)
    ]
    cache = {CACHE: ON} if CACHE in still_open and _may_cache(judged) else {}
    return LiveResult(
        values,
        _gain(judged, runs, values) if values else None,
        code,
        tuple(filter(None, (*may_be, cache))),
        _tried(runs, values),
        tuple(_evidence(runs, missing)),
    )


def _evidence(runs: Sequence[AutopilotRun], missing: Sequence[str]) -> Iterator[str]:
    if runs:
        yield f"measured while it trained: {printable('; '.join(map(autopilot_text, runs)))}"
    if missing:
        yield f"proved, but no single line of the script sets it: {', '.join(missing)}"


def _may_cache(judged: JudgedRun) -> bool:
    """Return whether the run waits for data that a cache may keep: a quarter of the memory holds
    it."""
    manifest = judged.run.manifest
    memory = manifest.machine.get("memory_bytes") or 0
    waits = any("data_wait_s" in one.claims for one in judged.losses)
    size = manifest.cache_bytes
    return waits and manifest.knobs.get(CACHE) == OFF and size is not None and 4 * size <= memory


def patch_of_settings(now: Situation) -> Patch | None:
    """Return the patch that sets the proved settings of a run in its script; None where no line of
    a file of the user's sets one: of a workload, of a notebook.

    Raises:
        NoPatchError: a file changed since its process began, or cannot be edited.
    """
    code, values = settings_of_patch(now)
    if not values:
        return None
    files = with_settings(code, values, round(now.manifest.process_started_s * 1e9))
    return make_patch([*files.values()])


def _gain(
    judged: JudgedRun, runs: Sequence[AutopilotRun], values: Mapping[str, str]
) -> Estimate | None:
    """Return the gain of what the autopilot kept, else that of the newest proved switch, in fresh
    runs: their spread is assumed."""
    known = [run.estimate for run in runs if run.kept]
    known += [one.estimate for one in judged.switches if values.get(one.knob) == one.new]
    found = next(filter(_is_precise, known), None)
    side = [RunToCompare(judged, "")]
    spread = assumed_share((side, side))
    return in_fresh_runs(found, _UPPER * math.sqrt(2) * spread) if found else None


def _not_proved(
    judged: JudgedRun, runs: Sequence[AutopilotRun], may_draw_others: bool
) -> list[dict[str, str]]:
    """Return the settings that the autopilot kept or had no time to judge, and the one that the
    first findings forecast.

    None of them is a cache, which helps from the second epoch on, or draws other random numbers
    where that is not allowed.
    """
    changes = [change for run in runs for change in (*run.kept, *_undecided(run))]
    advised = (one.forecast for one in judged.losses)
    named = next((one for one in advised if isinstance(one, Forecast)), None)
    found = {change.knob: change.new for change in changes}
    other = {named.knob: named.value} if named and named.knob not in found else {}
    manifest = judged.run.manifest
    return [
        {
            knob: value
            for knob, value in one.items()
            if knob != CACHE
            and value != manifest.knobs.get(knob)
            and (may_draw_others or not manifest.needs_consent(knob))
        }
        for one in (found, other)
    ]


def _undecided(run: AutopilotRun) -> tuple[KnobChange, ...]:
    """Return the changes of the newest move, where it was made and not judged."""
    if run.made is None or (run.moves and run.moves[-1].at_ns >= run.made.at_ns):
        return ()
    return run.made.changes


def _proved(judged: JudgedRun, runs: Sequence[AutopilotRun]) -> dict[str, str]:
    """Return the values that are proved faster than those of the start: the gain of a switch, or of
    all that the autopilot kept, clears the least one with its whole interval, and is precise."""
    known = [(one.estimate, one.knob, one.new) for one in judged.switches]
    known += [(run.estimate, one.knob, one.new) for run in runs for one in run.kept]
    enough = {(knob, new) for estimate, knob, new in known if _is_precise(estimate)}
    start = judged.run.manifest.knobs
    return {
        knob: value
        for knob, value in proved_knobs(judged.situation).items()
        if value != start.get(knob, value) and (knob, value) in enough
    }


def _is_precise(estimate: Estimate | None) -> bool:
    """Return whether a gain is proved, and precise: else restarted pairs measure it."""
    return estimate is not None and clears(estimate) and estimate.half_log <= _PRECISE


def _tried(runs: Sequence[AutopilotRun], values: Mapping[str, str]) -> tuple[Tried, ...]:
    return tuple(
        Tried(
            changes_text(move.changes),
            _move_text(move),
            move.kept and all(values.get(one.knob) == one.new for one in move.changes),
        )
        for run in runs
        for move in run.moves
    )


def _move_text(move: MoveJudged) -> str:
    times = " → ".join(units.in_one_unit(move.before_ms, move.after_ms))
    return "; ".join(filter(None, (f"{times}/step over {move.steps} steps", move.reason)))
