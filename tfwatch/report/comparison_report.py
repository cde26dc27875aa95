"""A comparison of runs as text, Markdown and JSON: the answer, and every figure with its
interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.core.knobs import KNOBS, WORKERS, option_name
from tfwatch.judge.comparing.intervals import PARTS
from tfwatch.judge.effects.experiment import SAME
from tfwatch.judge.effects.wording import speed
from tfwatch.judge.past_run import state_of
from tfwatch.report.facts import finite
from tfwatch.report.markdown import plain, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.judge.comparing.compared_runs import ComparedFigure, ComparedRuns
    from tfwatch.judge.comparing.run_to_compare import RunToCompare

SIDES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: The share of the cores that other programs use, for a remark.
_BUSY = 0.1
#: The most names of a side in one line.
_MOST_NAMES = 3
_LOSS_DIGITS = 4


def side_text(side: Sequence[RunToCompare]) -> str:
    """Return the names of a side's runs, its workload and their number."""
    shown = ", ".join(printable(one.name) for one in side[:_MOST_NAMES])
    more = f" and {len(side) - _MOST_NAMES} more" if len(side) > _MOST_NAMES else ""
    workload = printable(side[0].run.manifest.workload)
    return f"{shown}{more} ({workload}, {units.counted(len(side), 'run')})"


def comparison_lines(
    sides: Sequence[Sequence[RunToCompare]], comparisons: Sequence[ComparedRuns]
) -> list[str]:
    """Return the comparisons of the first side with each of the others as text."""
    lines = [f"{SIDES[n]}  {side_text(side)}" for n, side in enumerate(sides)]
    for letter, one in zip(SIDES[1:], comparisons, strict=False):
        lines += ["", answer_text(one, letter), *part_lines(one), "", *_table(_rows(one, letter))]
        lines += ["", *why_lines(one), *change_lines(one)]
    return lines


def comparison_markdown(
    sides: Sequence[Sequence[RunToCompare]], comparisons: Sequence[ComparedRuns]
) -> str:
    """Return the comparisons in Markdown, for a pull request."""
    lines = [f"* {SIDES[n]}: {plain(side_text(side))}" for n, side in enumerate(sides)]
    for letter, one in zip(SIDES[1:], comparisons, strict=False):
        head, *rows = _rows(one, letter)
        lines += ["", f"**{plain(answer_text(one, letter))}**", "", *table(head, rows)]
        lines += [plain(line) for line in (*part_lines(one), *why_lines(one), *change_lines(one))]
    return "\n".join(lines) + "\n"


def _rows(compared: ComparedRuns, letter: str) -> list[tuple[str, ...]]:
    """Return the head, the figures of a step, the time outside the steps, and the metrics of the
    last common epoch."""
    rows: list[tuple[str, ...]] = [("", "A", letter, f"{letter} less A", "95 % interval")]
    rows += map(_row, compared.figures)
    epoch = f"after epoch {(compared.loss_epoch or 0) + 1}"
    for head, figures in (("outside the steps", compared.time_spent), (epoch, compared.losses)):
        rows += [(head, "", "", "", ""), *map(_row, figures)] if figures else []
    return rows


def answer_text(compared: ComparedRuns, letter: str) -> str:
    """Return the answer in a sentence: `B is 1.25 x faster than A (1.10 to 1.40): step time 25.0 →
    20.0 ms`."""
    of, step = "time per example" if compared.by_example else "step time", compared.figures[0]
    times = " → ".join(units.in_one_unit(step.before, step.after))
    within = " to ".join(map(units.times, _interval_of_claim(compared)))
    return f"{_claim(compared, letter)} ({within}): {of} {times}"


def _claim(compared: ComparedRuns, letter: str) -> str:
    if compared.answer in ("faster", "slower"):
        return f"{letter} is {speed(compared.estimate.ratio)} than A"
    if compared.answer == "same":
        return f"{letter} is as fast as A, within {units.percent(SAME)}"
    return f"no clear difference between A and {letter}"


def _interval_of_claim(compared: ComparedRuns) -> tuple[float, float]:
    """Return the interval of the factor that is claimed: that of a slower side is above 1."""
    low, high = compared.estimate.low, compared.estimate.high
    return (1 / high, 1 / low) if compared.answer == "slower" else (low, high)


def part_lines(compared: ComparedRuns) -> list[str]:
    """Return the parts of a step that differ clearly where the whole step does not."""
    if compared.answer in ("faster", "slower"):
        return []
    return [
        f"{part.name} differs: {change_text(part)} ({interval_text(part)})"
        for part in compared.clear_parts
    ]


def _row(figure: ComparedFigure) -> tuple[str, str, str, str, str]:
    indent = "  " if figure.name in PARTS or figure.unit in ("s", "ms/step", "") else ""
    if figure.difference is None:
        values = (value_text(figure.before, figure.unit), value_text(figure.after, figure.unit))
        return (indent + printable(figure.name), *values, "n/a", printable(figure.missing))
    interval = interval_text(figure) if figure.low is not None else units.MISSING
    clear = "" if not figure.is_clear else "  clear"
    before, after = pair_text(figure)
    return indent + printable(figure.name), before, after, change_text(figure), interval + clear


def pair_text(figure: ComparedFigure) -> tuple[str, str]:
    """Return both values with their unit."""
    if figure.unit in ("ms", "ms/step"):
        return small_ms(figure.before), small_ms(figure.after)
    return value_text(figure.before, figure.unit), value_text(figure.after, figure.unit)


def value_text(value: float | None, unit: str) -> str:
    """Return a value with its unit; `n/a` where it is missing."""
    if value is None:
        return units.MISSING
    as_text = _TEXTS.get(unit)
    return as_text(value) if as_text else f"{value:.{_LOSS_DIGITS}f}"


def _percent(share: float | None) -> str:
    return units.MISSING if share is None else f"{share * 100:.1f} %"


def small_ms(value: float | None) -> str:
    """Return milliseconds with three digits: `0.118 ms`, `5.81 ms`, `23.4 ms`, `412 ms`."""
    if value is None:
        return units.MISSING
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f} ms"


def _whole(value: float | None) -> str:
    return units.number(value, 0)


_TEXTS: dict[str, Callable[[float | None], str]] = {
    WORKERS: _whole,
    "ms": small_ms,
    "ms/step": small_ms,
    "s": units.seconds,
    "bytes": units.memory,
    "share": _percent,
}


def change_text(figure: ComparedFigure) -> str:
    """Return the difference with its sign."""
    return _signed(figure.difference, figure.unit)


def interval_text(figure: ComparedFigure) -> str:
    """Return `-0.1 ms to +0.4 ms`; empty without an interval."""
    if figure.low is None or figure.high is None:
        return ""
    return f"{_signed(figure.low, figure.unit)} to {_signed(figure.high, figure.unit)}"


def _signed(value: float | None, unit: str) -> str:
    if value is None:
        return units.MISSING
    return f"{'-' if value < 0 else '+'}{value_text(abs(value), unit)}"


def signed_percent(share: float) -> str:
    """Return `+3.1 %`."""
    digits = 1 if abs(share) < 1 else 0
    return f"{round(share * 100, digits) + 0.0:+.{digits}f} %"  # no -0.0


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in (1, 2, 3)), row[4]]
        ).rstrip()
        for row in rows
    ]


def why_lines(compared: ComparedRuns) -> list[str]:
    """Return the origin of the interval, and the remedies for a wide one."""
    of = "mean" if compared.in_bursts else "median"
    lines = [
        f"Each run counts with the {of} of the same {units.counted(compared.steps, 'steady step')}."
    ]
    alone = any(
        one.low is None and one.difference is not None
        for one in (*compared.figures, *compared.time_spent)
    )
    once = (
        ["A figure with one value a run has an interval from two runs of each side on."]
        if alone
        else []
    )
    return [*lines, spread_text(compared), *_remarks(compared), *once]


def spread_text(compared: ComparedRuns) -> str:
    """Return the spread between equal runs, and its origin."""
    spread = f"Equal runs differ by about {compared.spread.deviation * 100:.1f} %"
    if compared.spread.source == "measured":
        return f"{spread} (standard deviation), measured by these runs."
    cause = (
        "so few runs cannot show it"
        if compared.alternating or _is_single(compared)
        else "the sides were not run in turn"
    )
    return f"{spread} (standard deviation): assumed in part, because {cause}."


def _is_single(compared: ComparedRuns) -> bool:
    return len(compared.before) + len(compared.after) < 6


def _remarks(compared: ComparedRuns) -> list[str]:
    remarks = []
    if compared.spread.source != "measured":
        remarks.append(
            "Three runs of each side, made in turn, measure it: tfwatch compare A1,A2,A3 B1,B2,B3"
        )
    if max((share for share in compared.others if share is not None), default=0.0) >= _BUSY:
        shares = " and ".join(map(units.percent, compared.others))
        remarks.append(
            f"Other programs used up to {shares} of the cores, which makes equal runs differ more."
        )
    if not compared.same_host:
        remarks.append(
            "The hosts differ and have the same hardware, which makes equal runs differ more."
        )
    return remarks


def change_lines(compared: ComparedRuns) -> list[str]:
    """Return the names of scripts, settings, stages, versions and machines that differ."""
    if not compared.changes:
        return ["Settings, stages of the pipeline, versions and machine are the same."]
    words = [
        f"{change_name(one.name)} {_or_none(one.before)} → {_or_none(one.after)}"
        for one in compared.changes
    ]
    return [printable(f"Differs: {', '.join(words)}")]


def change_name(name: str) -> str:
    """Return a knob by the name that `--switch` takes, and any other name as it is."""
    return option_name(name) if name in KNOBS else name


def _or_none(value: str) -> str:
    return value or "none"


def comparison_json(
    sides: Sequence[Sequence[RunToCompare]], comparisons: Sequence[ComparedRuns]
) -> dict[str, Any]:
    """Return all comparisons with the first side."""
    document: dict[str, Any] = finite(
        {
            "sides": [
                {"side": SIDES[n], "runs": [_run(one) for one in side]}
                for n, side in enumerate(sides)
            ],
            "comparisons": [
                _comparison(one, SIDES[n]) for n, one in enumerate(comparisons, start=1)
            ],
        }
    )
    return document


def _run(one: RunToCompare) -> dict[str, Any]:
    return {
        "run": one.run.manifest.run,
        "path": str(one.run.folder.absolute()) if one.run.folder else None,
        "workload": one.run.manifest.workload,
        "state": state_of(one.run),
        "steps": len(one.run.steps),
        "steady_steps": len(one.rows),
    }


def _comparison(compared: ComparedRuns, side: str) -> dict[str, Any]:
    return {
        "baseline": "A",
        "side": side,
        "per": "example" if compared.by_example else "step",
        "answer": compared.answer,
        "speedup": compared.estimate.ratio,
        "speedup_low": compared.estimate.low,
        "speedup_high": compared.estimate.high,
        "steps": compared.steps,
        "statistic": "mean" if compared.in_bursts else "median",
        "figures": [figure_json(one) for one in compared.figures],
        "time_breakdown": [figure_json(one) for one in compared.time_spent],
        "loss_epoch": compared.loss_epoch,
        "losses": [figure_json(one) for one in compared.losses],
        "changes": [
            {
                "kind": one.kind,
                "name": change_name(one.name),
                "from": one.before or None,
                "to": one.after or None,
            }
            for one in compared.changes
        ],
        "spread": {
            "share": compared.spread.deviation,
            "degrees_of_freedom": compared.spread.freedom,
            "source": compared.spread.source,
        },
        "alternating": compared.alternating,
        "same_host": compared.same_host,
        "others_share_before": compared.others[0],
        "others_share_after": compared.others[1],
    }


def figure_json(one: ComparedFigure) -> dict[str, Any]:
    """Return one figure of both sides."""
    return {
        "name": one.name,
        "unit": one.unit or None,
        "before": one.before,
        "after": one.after,
        "difference": one.difference,
        "low": one.low,
        "high": one.high,
        "is_clear": one.is_clear,
        "missing": one.missing or None,
    }
