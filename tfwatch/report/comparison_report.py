"""A comparison of runs as text, Markdown and JSON: the answer, and every figure with its
interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.core.errors import printable
from tfwatch.core.knobs import KNOBS, PARTS, option_name
from tfwatch.judge.comparing.run_to_compare import unknown
from tfwatch.judge.effects.interval import SAME
from tfwatch.judge.effects.wording import interval_of_claim, noise_text, speed
from tfwatch.judge.past_run import state_of
from tfwatch.report.facts import as_object, flag, number, record, rows, text, whole
from tfwatch.report.markdown import plain, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.judge.comparing.compared_runs import ComparedFigure, ComparedRuns
    from tfwatch.judge.comparing.run_to_compare import RunToCompare, SideDifference

#: The most names of a side in one line, and lines of scripts that differ.
_MOST_NAMES, _MOST_LINES = 3, 24
#: The kinds of facts in which sides may differ, in words.
_KINDS = {
    "script": "script",
    "pipeline": "pipeline",
    "setting": "settings",
    "version": "versions",
    "machine": "machine",
}
_LOSS_DIGITS = 4


def comparison_lines(compared: ComparedRuns, limit: float | None = None) -> list[str]:
    """Return a comparison as text. limit: the most that B may be slower, a share."""
    sides = [f"{name}  {side_text(runs)}" for name, runs in _sides(compared)]
    changes = [*_change_lines(compared), *_code_lines(compared)]
    notes = _notes(compared, limit)
    table = _table(_rows(compared))
    return [*sides, "", answer_text(compared), *changes, "", *table, "", *notes]


def comparison_markdown(compared: ComparedRuns, limit: float | None = None) -> str:
    """Return a comparison in Markdown, for a pull request. limit: as in `comparison_lines`."""
    sides = [f"* {name}: {plain(side_text(runs))}" for name, runs in _sides(compared)]
    answer = ["", f"**{plain(answer_text(compared))}**", "", *map(plain, _change_lines(compared))]
    code = ["", *lines] if (lines := _code_lines(compared)) else []
    head, *rows = _rows(compared)
    notes = map(plain, _notes(compared, limit))
    return "\n".join([*sides, *answer, *code, "", *table(head, rows), "", *notes]) + "\n"


def side_text(side: Sequence[RunToCompare]) -> str:
    """Return the names of a side's runs, its workload and their number."""
    shown = ", ".join(one.name for one in side[:_MOST_NAMES])
    more = f" and {len(side) - _MOST_NAMES} more" if len(side) > _MOST_NAMES else ""
    workload = side[0].run.manifest.workload
    return printable(f"{shown}{more} ({workload}, {units.counted(len(side), 'run')})")


def answer_text(compared: ComparedRuns) -> str:
    """Return the answer in a sentence: `B is 2.9 x faster than A (1.8 to 4.9): 25.9 → 8.8 ms a
    step, 50 → 21 s in all`."""
    step = compared.figures[0]
    times = " → ".join(units.in_one_unit(step.before, step.after))
    within = noise_text(compared.estimate) or interval_of_claim(compared.estimate)
    of = "an example" if compared.by_example else "a step"
    lengths_s = compared.lengths_s  # None where the runs are not of the same work
    in_all = f", {' → '.join(map(units.seconds, lengths_s))} in all" if lengths_s else ""
    return f"{_claim(compared)} ({within}): {times} {of}{in_all}"


def _claim(compared: ComparedRuns) -> str:
    if compared.answer in ("faster", "slower"):
        return f"B is {speed(compared.estimate.ratio)} than A"
    if compared.answer == "same":
        return f"B is as fast as A, within {units.percent(SAME)}"
    return "no clear difference between A and B"


def _sides(compared: ComparedRuns) -> list[tuple[str, Sequence[RunToCompare]]]:
    return list(zip("AB", compared.sides, strict=True))


def _rows(compared: ComparedRuns) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "A", "B", "difference", "95 % interval")]
    rows += map(_row, compared.figures)
    if compared.losses:
        epoch = f"after epoch {(compared.loss_epoch or 0) + 1}"
        rows += [(epoch, "", "", "", ""), *map(_row, compared.losses)]
    return rows


def _row(figure: ComparedFigure) -> tuple[str, str, str, str, str]:
    indent = "  " if figure.name in PARTS or figure.unit == "" else ""
    name = indent + printable(figure.name)
    values = (value_text(figure.before, figure.unit), value_text(figure.after, figure.unit))
    if figure.difference is None:
        return name, *values, units.MISSING, figure.missing
    difference = _signed(figure.difference, figure.unit)
    if figure.low is None or figure.high is None:
        return name, *values, difference, units.MISSING
    within = f"{_signed(figure.low, figure.unit)} to {_signed(figure.high, figure.unit)}"
    return name, *values, difference, within + ("  clear" if figure.is_clear else "")


def value_text(value: float | None, unit: str) -> str:
    """Return a value with its unit; `n/a` where it is missing."""
    if value is None:
        return units.MISSING
    if unit == "bytes":
        return units.memory(value)
    if unit == "ms":  # with three digits: `0.118 ms`, `5.81 ms`, `23.4 ms`, `412 ms`
        digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
        return f"{value:.{digits}f} ms"
    return f"{value:.{_LOSS_DIGITS}f}"


def _signed(value: float, unit: str) -> str:
    return f"{'-' if value < 0 else '+'}{value_text(abs(value), unit)}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, figures, widths[1:]), within]).rstrip()
        for name, *figures, within in rows
    ]


def _notes(compared: ComparedRuns, limit: float | None) -> list[str]:
    """Return the steps that count, the origin of the interval, what differs beside the times, and
    the outcome of a limit on the slowdown."""
    of = "mean" if compared.in_bursts else "median"
    steps = units.counted(compared.steps, "steady step")
    is_measured = compared.spread.source == "measured"
    origin = "measured by these runs" if is_measured else "assumed in part"
    deviation = f"{compared.spread.deviation * 100:.1f} % (standard deviation)"
    notes = [
        f"Each run counts with the {of} of the same {steps}.",
        f"Equal runs differ by about {deviation}, {origin}.",
    ]
    if not is_measured:
        how = "tfwatch compare A1,A2,A3 B1,B2,B3"
        notes.append(f"Three runs of each side, made in turn, measure it: {how}")
    return notes if limit is None else [*notes, _limit_line(compared, limit)]


def _change_lines(compared: ComparedRuns) -> list[str]:
    words = [_change_text(one) for one in compared.changes if one.kind != "script"]
    missing = [(kind, name) for name, side in _sides(compared) for kind in unknown(side)]
    differ = {one.kind for one in compared.changes} | {kind for kind, _ in missing}
    same = [name for kind, name in _KINDS.items() if kind not in differ]
    lines = (
        ("Differs", words),
        ("The same", same),
        ("Not recorded", [f"{_KINDS[kind]} of {name}" for kind, name in missing]),
    )
    return [printable(f"{head}: {', '.join(found)}") for head, found in lines if found]


def _change_text(one: SideDifference) -> str:
    """Return `prefetch off → 4`, `pipeline + prefetch, cache`, `pipeline - cache`."""
    name = change_name(one.name)
    if one.kind == "pipeline" and not (one.before and one.after):
        return f"{name} {f'+ {one.after}' if one.after else f'- {one.before}'}"
    return f"{name} {one.before or 'none'} → {one.after or 'none'}"


def _code_lines(compared: ComparedRuns) -> list[str]:
    lines: list[str] = []
    for one in compared.changes:
        if one.kind == "script":
            lines.append(f"# {one.name}")
            lines += [f"- {line}" for line in one.before.splitlines()]
            lines += [f"+ {line}" for line in one.after.splitlines()]
    more = len(lines) - _MOST_LINES
    left_out = [f"# {units.counted(more, 'more line')}"] if more > 0 else []
    return [f"    {printable(line)}".rstrip() for line in (*lines[:_MOST_LINES], *left_out)]


def change_name(name: str) -> str:
    """Return a knob by the name that `--switch` takes, and any other name as it is."""
    return option_name(name) if name in KNOBS else name


def _limit_line(compared: ComparedRuns, limit: float) -> str:
    slower = 1 / compared.estimate.ratio - 1
    of = "time per example" if compared.by_example else "step time"
    figures = f"{of} of B over that of A {slower * 100:+.1f} %, limit +{limit * 100:.1f} %"
    failed = [run.name for run in compared.sides[1] if run.has_failed]
    why = f"; {', '.join(failed)} did not end normally" if failed else ""
    return printable(f"{compared.outcome(limit)}: {figures}{why}")


# -- JSON ------------------------------------------------------------------------------------------

_FIGURE = (
    text("name", "the figure"),
    text("unit", "its unit"),
    number("before", "of the first side"),
    number("after", "of the other side"),
    number("difference", "after less before"),
    number("low", "lower end of its 95 % interval"),
    number("high", "its upper end"),
    flag("is_clear", "the interval holds no 0"),
    text("missing", "why there is no difference"),
)
_CHANGE = (
    text("kind", "workload, script, pipeline, setting, version or machine"),
    text("name", "its name; of the script the line", lambda one: change_name(one.name)),
    text("from", "of the first side", "before"),
    text("to", "of the other side", "after"),
)
_SPREAD = (
    number("share", "standard deviation of equal runs, over the step time", "deviation"),
    text("source", "measured by these runs, or assumed in part"),
)
_RUN = (
    text("run", "its name", "run.manifest.run"),
    text("path", "the run folder", lambda one: str(one.run.folder or "")),
    text("workload", "the script or workload", "run.manifest.workload"),
    text("state", "finished, failed, ...", lambda one: state_of(one.run)),
    whole("steps", "completed steps", lambda one: len(one.run.steps)),
    whole("steady_steps", "its steady steps", lambda one: len(one.rows)),
)
COMPARISON = (
    text("per", "what is compared", lambda one: "example" if one.by_example else "step"),
    text("answer", "what the interval proves", choices=("faster", "slower", "same", "unclear")),
    number("speedup", "time before over after", "estimate.ratio"),
    number("speedup_low", "lower end of its 95 % interval", "estimate.low"),
    number("speedup_high", "its upper end", "estimate.high"),
    whole("steps", "the steady steps of each run that count"),
    rows("figures", "of a step", _FIGURE),
    whole("loss_epoch", "the last common epoch, from 0"),
    rows("losses", "the metrics of that epoch", _FIGURE),
    rows("changes", "what differs beside the times", _CHANGE),
    record("spread", "between equal runs", _SPREAD),
)


def comparison_json(compared: ComparedRuns, limit: float | None = None) -> dict[str, Any]:
    """Return the comparison as one object. limit: as in `comparison_lines`."""
    return {
        "sides": [
            {"side": side, "runs": [as_object(_RUN, one) for one in runs]}
            for side, runs in _sides(compared)
        ],
        **as_object(COMPARISON, compared),
        "max_slower_share": limit,
        "outcome": None if limit is None else compared.outcome(limit),
    }
