"""Switches, A/B tests, autopilot runs and forecasts in words, for the screen and the report:
`faster` and `slower` for measured steps, `about` for forecasts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import WITH_THE_RUN
from tfwatch.core.knobs import COMPUTE, COPY, HOST, WAIT, knob_name
from tfwatch.judge.effects.comparison import ENOUGH_STEPS
from tfwatch.judge.effects.interval import SAME
from tfwatch.judge.effects.switching_state import estimate_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.core.events import ExperimentEnded, MoveJudged
    from tfwatch.core.knobs import KnobChange
    from tfwatch.judge.effects.comparison import Comparison, SwitchEffect
    from tfwatch.judge.effects.interval import Estimate
    from tfwatch.judge.effects.switching_state import AutopilotRun, RunningExperiment
    from tfwatch.judge.forecasts.forecast import Forecast

#: Steps that differ by less than this share show no difference.
_SAME = 0.02
#: From this half width of its interval on, as a logarithm, an open ratio is too noisy to show.
_NOISY = 0.1
#: The fields of a `Breakdown`.
_FIELDS = {WAIT: "wait", COPY: "copy", COMPUTE: "compute", HOST: "host"}
TUNER_LOST = "the terminal of the A/B test or autopilot is gone; its settings stay"


def speed(ratio: float) -> str:
    """Return `1.68 x faster`, `20 x faster`, `1.20 x slower` or `no difference`."""
    if abs(ratio - 1) < _SAME:
        return "no difference"
    return f"{units.times(ratio)} x faster" if ratio > 1 else f"{units.times(1 / ratio)} x slower"


def estimate_text(known: Estimate | None) -> str:
    """Return `1.68 x faster (1.61 to 1.74)`, `not clear (0.94 to 1.08)`: the ratio with its
    interval, turned over where it is below 1; `too noisy to show less than 52 %`."""
    if known is None:
        return "not clear"
    return noise_text(known) or f"{_claim_of(known)} ({interval_of_claim(known)})"


def _claim_of(known: Estimate) -> str:
    answers = {"unclear": "not clear", "same": "no difference"}
    return answers.get(known.answer) or speed(known.ratio)


def noise_text(known: Estimate) -> str:
    """Return `too noisy to show less than 52 %`, or `than 3.1 x`, where an open interval is too
    wide to show; else nothing."""
    if known.answer != "unclear" or not _NOISY < known.half_log < math.inf:
        return ""
    share = math.expm1(known.half_log)
    shows = units.percent(share) if share < 1 else f"{units.times(1 + share, 1)} x"
    return f"too noisy to show less than {shows}"


def interval_of_claim(known: Estimate) -> str:
    """Return `1.61 to 1.74`: the interval of the factor that is claimed, above 1 also where it is
    slower."""
    is_slower = known.answer == "slower"
    low, high = (1 / known.high, 1 / known.low) if is_slower else (known.low, known.high)
    return f"{units.times(low)} to {units.times(high)}"


def setting_text(knob: str, value: str) -> str:
    """Return `prefetch off`."""
    return f"{knob_name(knob)} {value}"


def changes_text(changes: Iterable[KnobChange]) -> str:
    """Return `workers off → auto, prefetch off → 4`."""
    return ", ".join(change.words for change in changes)


# -- switches --------------------------------------------------------------------------------------


def outcome_text(switch: Comparison, *, has_steps: bool = True) -> str:
    """Return `1.68 x faster (1.61 to 1.74) over 600 steps`, or the reason for no ratio; with the
    parts that changed and do not show in the ratio. has_steps: with the steps once it settled."""
    done = switch.after.steps if switch.after else 0
    if switch.beside:
        return f"switched together with {knob_name(switch.beside)}: no ratio of its own"
    if switch.effect is None and switch.settled:
        return "not enough steps before it to compare"
    if switch.effect is None:
        return steps_text(switch)
    of = f" over {units.count(done)} steps" if has_steps else ""
    if not switch.settled:
        of = f" so far, {done} of {ENOUGH_STEPS} steps"
    if switch.switches > 1:
        of += f", {switch.switches} switches together"
    return "; ".join([f"{_claim(switch.effect, switch)}{of}", *_drifts(switch.effect, switch)])


def brief_outcome_text(switch: Comparison) -> str:
    """Return `1.68 x faster`: the outcome without its interval, its steps and its parts."""
    if switch.effect is None:
        return outcome_text(switch)
    if not switch.settled:
        return steps_text(switch)
    return noise_text(switch.effect.estimate) or _claim_of(switch.effect.estimate)


def steps_text(switch: Comparison) -> str:
    """Return `34 of 60 steps`: how far a switch is measured."""
    return f"{switch.after.steps if switch.after else 0} of {ENOUGH_STEPS} steps"


def _claim(effect: SwitchEffect, switch: Comparison) -> str:
    """Return `1.68 x faster (1.61 to 1.74)`; where only parts are proved to have changed, `data
    wait 9.3 → 0.6 ms, step: not clear (0.94 to 1.08)`."""
    step = estimate_text(effect.estimate)
    if effect.estimate.answer != "unclear":
        return step
    parts = [part_text(switch, part) for part in switch.changed_parts if part in effect.moved]
    return f"{', '.join(parts)}, step: {step}" if parts else step


def has_times_of(switch: Comparison, part: str) -> bool:
    """Return whether the outcome has the times of a part."""
    effect = switch.effect
    if effect is None or switch.beside or part not in switch.changed_parts:
        return False
    return effect.estimate.answer == "unclear" or part not in effect.moved


def _drifts(effect: SwitchEffect, switch: Comparison) -> list[str]:
    """Return `compute drifted: 13.0 → 15.1 ms` of each part that changed and that the knob cannot
    move."""
    drifted = [part for part in switch.changed_parts if part not in effect.moved]
    return [part_text(switch, part).replace(part, f"{part} drifted:", 1) for part in drifted]


def part_text(switch: Comparison, part: str) -> str:
    """Return `data wait 9.6 → 0.2 ms`: a part that is timed on both sides."""
    sides = [getattr(side, _FIELDS[part]) for side in (switch.before, switch.after)]
    return f"{part} {' → '.join(units.in_one_unit(*map(switch.typical, sides)))}"


# -- A/B tests -------------------------------------------------------------------------------------

_WHY_OPEN = {
    "budget": "too noisy",
    "cancelled": "it was cancelled",
    "key": "a knob was switched first",
    "stopped": "the training was stopped first",
    "ended": "the run ended first",
}


def subject_text(knob: str, values: Sequence[str]) -> str:
    """Return `prefetch off vs 4`."""
    return f"{knob_name(knob)} {' vs '.join(values)}"


def block_text(running: RunningExperiment) -> str:
    """Return `block 7`: the current one."""
    return f"block {running.block.block + 1 if running.block else 1}"


def experiment_progress(running: RunningExperiment) -> str:
    """Return `block 7, so far 1.6 x (1.2 to 2.1)`."""
    block = running.block
    if block is None or block.ratio is None or block.low is None or block.high is None:
        return block_text(running)
    within = f"{units.times(block.low)} to {units.times(block.high)}"
    return f"{block_text(running)}, so far {units.times(block.ratio)} x ({within})"


def answer_text(ended: ExperimentEnded) -> str:
    """Return `1.68 x faster (1.61 to 1.74) over 412 steps`, `no difference: between 0.97 and 1.03
    ...`.

    A clear but small difference reads `less than 3 % apart: between 1.00 and 1.02 ...`, no answer
    `not clear: ...`.
    """
    known, over = estimate_of(ended), f"over {units.count(ended.steps)} steps"
    if known is None:
        few = "not enough steps" if ended.cause == "budget" else ""
        why = ended.reason or few or _WHY_OPEN.get(ended.cause, ended.cause)
        steps, rounds = units.counted(ended.steps, "step"), units.counted(ended.rounds, "round")
        return f"not clear: {why} ({steps} in {rounds})"
    if ended.answer in ("faster", "slower"):
        return f"{estimate_text(known)} {over}"
    between = f"between {units.times(known.low)} and {units.times(known.high)} {over}"
    if ended.answer == "same":
        apart = f"less than {units.percent(SAME)} apart"
        return f"{'no difference' if known.low <= 1 <= known.high else apart}: {between}"
    return f"not clear: {between}, {ended.reason or _WHY_OPEN.get(ended.cause, ended.cause)}"


def kept_text(ended: ExperimentEnded) -> str:
    """Return the answer, and the setting that the run goes on with: `1.68 x faster (1.61 to 1.74)
    over 412 steps; kept 4`."""
    kept = f"; kept {ended.kept}" if ended.kept and ended.cause not in WITH_THE_RUN else ""
    return f"{answer_text(ended)}{kept}"


# -- autopilot -------------------------------------------------------------------------------------


def autopilot_parts(run: AutopilotRun) -> list[str]:
    """Return the current move of a run that goes on, and the judgement of the move before."""
    if run.made is None:
        return ["measuring the current setting"]
    judged, known = run.moves[-1] if run.moves else None, run.made.forecast_ms
    forecast = "" if known is None else f", forecast {units.milliseconds(known)}"
    move = f"move {len(run.moves) + 1}: {changes_text(run.made.changes)}{forecast}"
    texts = [move] if judged is None or run.made.at_ns >= judged.at_ns else []
    return [*texts, move_line(judged)] if judged else texts


def move_line(judged: MoveJudged) -> str:
    """Return `prefetch off → 4 kept: 23.4 to 13.9 ms`, `workers off → 8 undone: 13.9 to 14.0 ms,
    slower`."""
    what = f"{changes_text(judged.changes)} {'kept' if judged.kept else 'undone'}"
    why = f", {judged.reason}" if judged.reason else ""
    if judged.after_ms is None:
        return f"{what}{why}"
    return f"{what}: {' to '.join(units.in_one_unit(judged.before_ms, judged.after_ms))}{why}"


def autopilot_text(run: AutopilotRun) -> str:
    """Return what an autopilot run did, in a sentence.

    `1.68 x faster (1.61 to 1.74), kept prefetch off → 4`; `prefetch off → 4 until the end, not
    proved; ...`; `nothing helped (tried prefetch off → 4); the settings are as before: ...`;
    `nothing to gain: ...`.
    """
    if run.ended is None:
        return TUNER_LOST if run.is_lost else "; ".join(autopilot_parts(run))
    gain = f"{estimate_text(run.estimate)}, " if run.estimate else ""
    lasting = [f"{gain}kept {changes_text(run.kept)}"] if run.kept else []
    if run.unproved:
        lasting.append(f"{changes_text(run.unproved)} until the end, not proved")
    if lasting:
        return "; ".join([*lasting, run.ended.reason])
    if not run.moves:
        none = "nothing to gain" if run.ended.cause == "not_starving" else "nothing changed"
        return f"{none}: {run.ended.reason}"
    tried = ", ".join(dict.fromkeys(changes_text(move.changes) for move in run.moves))
    return f"nothing helped (tried {tried}); the settings are as before: {run.ended.reason}"


def autopilot_brief(run: AutopilotRun) -> str:
    """Return what an autopilot run found, without its figures where it moved: they have a line of
    their own."""
    if run.kept:
        return f"kept {changes_text(run.kept)}"
    is_in_vain = run.ended and run.moves and not run.unproved
    return "nothing helped" if is_in_vain else autopilot_text(run)


# -- forecasts -------------------------------------------------------------------------------------

#: Two means that differ by more than this share are explained.
_DIFFERS = 0.1
#: An interval wider than this, high over low, is shown beside the forecast.
_WIDE = 1.4


def forecast_note(known: Forecast) -> str:
    """Return what stands beside a knob: `about 13.9 ms  1.7 x`, `gain not sure`, or the reason for
    no forecast."""
    if not known.is_known:
        return known.why
    if known.differs and not known.is_sure:
        return gain_text(known)
    return f"about {units.milliseconds(known.step_ms)}  {gain_text(known)}"


def expected_gain_text(known: Forecast, shown_ms: float = math.nan) -> str:
    """Return `23.4 to about 13.8 ms, 1.7 x (the rest is compute)`, with a wide prediction interval;
    no figure where the interval holds the present step.

    The ratio is that of these two. shown_ms: the mean of fewer steps in the finding beside it;
    where it differs, the text says that the first figure is that of all steps so far.
    """
    if not known.is_sure:
        return f"try it, {gain_text(known)}"
    so_far = " so far" if abs(shown_ms / known.now_ms - 1) > _DIFFERS else ""
    ends = " to ".join(units.in_one_unit(known.low_ms, known.high_ms)).removesuffix(" ms")
    within = f" ({ends})" if known.high_ms > _WIDE * known.low_ms else ""
    now, then = units.in_one_unit(known.now_ms, known.step_ms)
    return f"{now}{so_far} to about {then}{within}, {gain_text(known)} ({known.why})"


def gain_text(known: Forecast) -> str:
    """Return `1.7 x`, `3.0 x slower`; without a factor where the interval holds the present
    step."""
    if not known.differs:
        return "no gain"
    if not known.is_sure:
        return "gain not sure" if known.ratio > 1 else "loss not sure"
    slower = "" if known.ratio > 1 else " slower"
    return f"{units.times(max(known.ratio, 1 / known.ratio), 1)} x{slower}"
