"""Every switch, A/B test and autopilot run of a run as one row: sides, ratio with interval,
forecast."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from tfwatch.core import units
from tfwatch.core.events import ExperimentEnded, SwitchFailed, SwitchMissed
from tfwatch.judge.effects.switch_text import outcome_text, setting_text
from tfwatch.judge.effects.tuner_text import (
    answer_of,
    answer_text,
    autopilot_end_text,
    autopilot_runs,
    estimate_of,
    subject_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.experiment import Answer, Estimate
    from tfwatch.judge.effects.tuner_text import AutopilotRun
    from tfwatch.judge.judged_run import JudgedRun

#: The ratios at the edges of the axis: at least this and its inverse, at most that; and the room
#: around the intervals.
_LEAST, _MOST, _MARGIN = 1.25, 8.0, 1.15
#: Rows that are read without effort; of more, those without a clear difference are folded in.
MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class RatioBar:
    """A ratio with its 95 % interval on an axis from slower to faster. All in percent of the
    axis."""

    low: float
    at: float
    high: float


@dataclass(frozen=True, slots=True)
class Effect:
    """One change and its measured effect.

    number: of its mark in the timeline; 0 without one. sides: `23.4 to 13.9 ms`. result: in words.
    answer: the one that the interval proves. forecast: `13.8 ms (13.0 to 14.9), measured 13.9 ms`.
    """

    kind: str
    change: str
    where: str
    result: str
    number: int = 0
    sides: str = ""
    answer: Answer = "unclear"
    forecast: str = ""
    estimate: Estimate | None = None
    interval: RatioBar | None = None


def make_effects(judged: JudgedRun) -> tuple[list[Effect], float]:
    """Return the rows, and the ratio at the right edge of their axis."""
    rows = [
        *switch_effects(judged),
        *_experiments(judged),
        *_autopilot(judged),
    ]
    known = [row.estimate for row in rows if row.estimate]
    widest = max(
        (abs(math.log(ratio)) for one in known for ratio in (one.low, one.high) if ratio > 0),
        default=0.0,
    )
    edge = min(max(math.exp(_MARGIN * widest), _LEAST), _MOST)
    return [_placed(row, edge) for row in rows], edge


def switch_effects(judged: JudgedRun) -> list[Effect]:
    """Return the rows of the switches, those without effect last."""
    return [*_switches(judged), *_without_effect(judged)]


def switch_lines(judged: JudgedRun, most: int) -> list[str]:
    """Return a line a switch in their order; of many, those that prove most, and among equals the
    newest."""
    rows = switch_effects(judged)
    if len(rows) <= most:
        return list(map(_line, rows))
    ranked = sorted(range(len(rows)), key=lambda n: (_rank(rows[n]), -n))
    lines = [_line(rows[n]) for n in sorted(ranked[: most - 1])]
    return [*lines, f"and {len(rows) - len(lines)} more switches"]


def _line(row: Effect) -> str:
    at = f" at {row.where}" if row.where.startswith("step") else ""
    sides = f", {row.sides}/step" if row.sides and row.estimate else ""
    return f"{row.change}{at}: {row.result}{sides}"


def _rank(row: Effect) -> int:
    """Return 0 for a proved difference, 1 for an open answer, 2 without a ratio."""
    if row.estimate is None:
        return 2
    return 0 if row.answer in ("faster", "slower") else 1


def folded(rows: list[Effect]) -> tuple[list[Effect], list[Effect]]:
    """Return the rows to show, and those to fold in: of many, the switches without a clear
    difference."""
    if len(rows) <= MOST_ROWS:
        return rows, []
    shown = [row for row in rows if row.answer in ("faster", "slower") or not row.number] or rows[
        :MOST_ROWS
    ]
    return shown, [row for row in rows if row not in shown]


def _placed(row: Effect, edge: float) -> Effect:
    known = row.estimate
    if known is None:
        return row
    return replace(
        row,
        interval=RatioBar(*(_place(ratio, edge) for ratio in (known.low, known.ratio, known.high))),
    )


def _place(ratio: float, edge: float) -> float:
    """Return the place of a ratio on the logarithmic axis, percent."""
    share = math.log(max(ratio, 1e-6)) / math.log(edge)
    return round(50 + 50 * min(max(share, -1.0), 1.0), 1)


def _switches(judged: JudgedRun) -> Iterator[Effect]:
    checked = {id(one.switch): one for one in judged.record.checked}
    for number, switch in enumerate(judged.summary.switches, 1):
        one = checked.get(id(switch))
        forecast = ""
        if one:
            low_to_high = " to ".join(units.in_one_unit(one.forecast.low_ms, one.forecast.high_ms))
            forecast = f"{units.milliseconds(one.forecast.step_ms)} ({low_to_high})"
        yield Effect(
            kind=switch.by if switch.by in ("autopilot", "command", "code") else "switch",
            change=switch.change.words,
            where=f"step {units.count(switch.step)}"
            if switch.step is not None
            else "not yet in effect",
            result=_result(switch),
            number=number if switch.step is not None else 0,
            sides=_sides(switch),
            answer=switch.answer,
            forecast=forecast,
            estimate=switch.estimate,
        )


def _result(switch: Comparison) -> str:
    if switch.step is None:
        return "requested, not yet in effect at the last step"
    if switch.ratio is None and not switch.beside:
        return "not enough steps to compare"
    return outcome_text(switch)


def _sides(switch: Comparison) -> str:
    if switch.before is None or switch.after is None:
        return ""
    return " → ".join(
        units.in_one_unit(*(switch.typical(side.step) for side in (switch.before, switch.after)))
    )


def _without_effect(judged: JudgedRun) -> Iterator[Effect]:
    for event in judged.run.events:
        if isinstance(event, SwitchFailed | SwitchMissed):
            change = event.change.words
            where = f"step {units.count(event.step)}"
            yield Effect("switch", change, where, _why_without_effect(event, judged))


def _why_without_effect(event: SwitchFailed | SwitchMissed, judged: JudgedRun) -> str:
    if isinstance(event, SwitchMissed):
        return "the run ended before it was in effect"
    now = setting_text(event.knob, event.now)
    return f"failed: {event.reason}; {now} continues"


def _experiments(judged: JudgedRun) -> Iterator[Effect]:
    for event in judged.run.events:
        if isinstance(event, ExperimentEnded):
            sides = " → ".join(
                units.milliseconds(event.step_ms[value])
                for value in (event.against, event.value)
                if value in event.step_ms
            )
            yield Effect(
                kind="A/B test",
                change=subject_text(event.knob, list(event.values)),
                where=f"steps {units.count(event.began + 1)} to {units.count(event.step)}",
                result=f"{event.value}: {answer_text(event)}",
                sides=sides,
                answer=cast("Answer", event.answer),
                estimate=estimate_of(event),
            )


def _autopilot(judged: JudgedRun) -> Iterator[Effect]:
    for autopilot_run in autopilot_runs(judged.run.events):
        yield _autopilot_row(autopilot_run)


def _autopilot_row(autopilot_run: AutopilotRun) -> Effect:
    ended = autopilot_run.ended
    where = f"from step {units.count(autopilot_run.began.step + 1)}"
    if ended is None:
        return Effect("autopilot", "autopilot", where, "the run ended first")
    sides = (
        " → ".join(units.in_one_unit(ended.before_ms, ended.after_ms))
        if ended.before_ms and ended.after_ms
        else ""
    )
    text = autopilot_end_text(ended)
    return Effect(
        "autopilot",
        "autopilot",
        where,
        text,
        sides=sides,
        answer=answer_of(ended),
        estimate=estimate_of(ended),
    )
