"""The page of a comparison: the answer, both sides on one axis, and each figure with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.comparing.run_steps import PARTS, STEP
from tfwatch.analysis.findings.situation import Tone
from tfwatch.core import units
from tfwatch.report.evidence.comparison_report import (
    SIDES,
    answer_text,
    change_name,
    change_text,
    interval_text,
    pair_text,
    part_lines,
    side_text,
    why_lines,
)
from tfwatch.report.html.effects import Interval
from tfwatch.report.html.plot import Scale, line, round_up, ticks
from tfwatch.report.html.templates import environment, page_style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.live.evidence.compared_runs import ComparedFigure, ComparedRuns
    from tfwatch.live.evidence.run_to_compare import RunToCompare
    from tfwatch.report.html.plot import Tick

#: The points of a line, and the fewest steps whose median is a point.
_MOST_POINTS, _POINT_STEPS = 500, 8
_TONES = {"faster": Tone.GOOD, "slower": Tone.BAD, "same": Tone.CALM, "unclear": Tone.WARN}
_WORDS = {
    "faster": "{} IS FASTER THAN A",
    "slower": "{} IS SLOWER THAN A",
    "same": "{} IS AS FAST AS A",
    "unclear": "NO CLEAR DIFFERENCE BETWEEN A AND {}",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """The step times of both sides over their steps in common: paths, and the labels of the axes."""

    before: str
    after: str
    heights: list[Tick]
    steps: list[Tick]
    note: str


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both sides. answer: the class of its colour."""

    name: str
    before: str
    after: str
    change: str
    interval: str
    answer: str
    is_clear: bool
    is_part: bool
    bar: Interval | None


@dataclass(frozen=True, slots=True)
class Table:
    """Figures under a head. edge: the ends of the axis of their bars; empty without bars."""

    head: str
    rows: list[Row]
    edge: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One side beside the first one."""

    letter: str
    tone: str
    word: str
    sentences: list[str]
    chart: Chart
    tables: list[Table]
    why: list[str]
    changes: list[tuple[str, str, str]]


def comparison_html(sides: Sequence[Sequence[RunToCompare]], found: Sequence[ComparedRuns]) -> str:
    """Return the page of the comparisons of the first side with each of the others."""
    page = {
        "style": page_style(),
        "sides": [(SIDES[n], side_text(side)) for n, side in enumerate(sides)],
        "comparisons": [
            _compared(one, letter) for letter, one in zip(SIDES[1:], found, strict=False)
        ],
        "title": sides[0][0].run.manifest.title,
    }
    return environment().get_template("comparison.html.j2").render(page)


def _compared(found: ComparedRuns, letter: str) -> Compared:
    return Compared(
        letter=letter,
        tone=_TONES[found.answer].value,
        word=_WORDS[found.answer].format(letter),
        sentences=[answer_text(found, letter), *part_lines(found)],
        chart=_chart(found),
        tables=_tables(found),
        why=why_lines(found),
        changes=[
            (change_name(one.name), one.before or "none", one.after or "none")
            for one in found.changes
        ],
    )


def _chart(found: ComparedRuns) -> Chart:
    points = min(_MOST_POINTS, max(found.steps // _POINT_STEPS, 1))
    before, after = found.step_curves(points)
    up = Scale(0.0, _top(np.concatenate([before, after])))
    across = Scale(0.0, float(found.steps))
    xs = (np.arange(points) + 0.5) / points
    each = units.counted(max(found.steps // points, 1), "steady step")
    return Chart(
        before=line(xs, up.shares(before)),
        after=line(xs, up.shares(after)),
        heights=ticks(up, lambda value: f"{value:g} ms"),
        steps=ticks(across, lambda step: f"{step:,.0f}".replace(",", " "), 6),
        note=f"A point is the median of {each}; the axis counts them",
    )


def _top(times: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Return the upper end of an axis that one slow stretch does not flatten."""
    return round_up(1.1 * float(np.nanquantile(times, 0.98)), (1.5, 3, 4, 6, 8))


def _tables(found: ComparedRuns) -> list[Table]:
    ends = [abs(end) for one in _of_a_step(found) for end in (one.low, one.high) if end is not None]
    edge = round_up(max(ends, default=1.0))
    of = "time per example" if found.by_example else "a step, memory and energy"
    tables = [
        Table(of, [_row(one, edge) for one in found.figures], f"{edge:g} ms"),
        Table("time breakdown", [_row(one, None) for one in found.time_spent]),
        Table(
            f"after epoch {(found.loss_epoch or 0) + 1}", [_row(one, None) for one in found.losses]
        ),
    ]
    return [table for table in tables if table.rows]


def _of_a_step(found: ComparedRuns) -> list[ComparedFigure]:
    return [one for one in found.figures if one.name in (STEP, *PARTS)]


def _row(figure: ComparedFigure, edge: float | None) -> Row:
    """Return the row of a figure. edge: the end of the axis of the bars; None without them."""
    before, after = pair_text(figure)
    known = figure.difference is not None
    is_of_a_step = figure.name in (STEP, *PARTS)
    direction = "slower" if (figure.difference or 0.0) > 0 else "faster"
    return Row(
        name=figure.name,
        before=before,
        after=after,
        change=change_text(figure) if known else units.MISSING,
        interval=interval_text(figure) or figure.missing or units.MISSING,
        answer=(direction if is_of_a_step else "same") if figure.is_clear else "unclear",
        is_clear=figure.is_clear,
        is_part=figure.name in PARTS and edge is not None,
        bar=_bar(figure, edge) if edge and is_of_a_step else None,
    )


def _bar(figure: ComparedFigure, edge: float) -> Interval | None:
    if figure.low is None or figure.high is None or figure.difference is None:
        return None
    axis = Scale(-edge, edge)
    return Interval(
        axis.percent(figure.low), axis.percent(figure.difference), axis.percent(figure.high)
    )
