"""A group of ranks as one table: who is late, by how much and why; for the screen, Markdown and
JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.judge.groups.judged_group import machine_of
from tfwatch.judge.groups.late_rank import straggler_sentences
from tfwatch.judge.past_run import state_of
from tfwatch.report.effects import STEADY
from tfwatch.report.facts import (
    anything,
    as_object,
    flag,
    if_any,
    number,
    record,
    rows,
    text,
    whole,
    within,
)
from tfwatch.report.markdown import plain, table
from tfwatch.report.text import one_line

if TYPE_CHECKING:
    from tfwatch.judge.groups.judged_group import JudgedGroup, RankRow

#: The columns of the table; times are means of a rank's newest steady steps.
COLUMNS = ("rank", "step", "ms/step", "data wait", "compute", "host", "late by", "why", "state")


def rank_cells(row: RankRow) -> tuple[str, ...]:
    """Return the cells of a rank, in the order of `COLUMNS`. Text from outside is in one line."""
    split = row.split
    parts = (split.step, split.wait, split.compute, split.host) if split else (None,) * 4
    means = [part.mean if part else None for part in parts]
    figures = map(units.milliseconds, (*means, row.late_ms))
    step = units.MISSING if row.step is None else units.count(row.step)
    return str(row.rank), step, *figures, row.why, one_line(row.state)


def group_markdown(judged: JudgedGroup) -> str:
    """Return the finding and the table in Markdown."""
    first, *more = (plain(one) for one in judged.sentences)
    head = [f"### {plain(judged.title)}", "", f"**{plain(judged.word)}**: {first}", ""]
    cells = table(COLUMNS, map(rank_cells, judged.rows))
    return "\n".join([*head, *(f"* {one}" for one in more), "", *cells]) + "\n"


# -- JSON ------------------------------------------------------------------------------------------

_STRAGGLER = (
    whole("rank", "the late rank"),
    text("cause", "why it is late", "cause.label"),
    number("share", "of the group's step, 0 to 1"),
    number("group_step_ms", "the group's step", "group_ms"),
    number("gain_ms", "shorter without it"),
    flag("gain_is_least", "the gain is at least so much", "is_least"),
    text("sentence", "all of it in words", lambda late: straggler_sentences(late)[0]),
)
RANK = (
    whole("rank", "its number"),
    text("run", "its run", if_any("run.manifest.run")),
    text(
        "state", "finished, running, killed, ...", lambda row: state_of(row.run) if row.run else ""
    ),
    text("sentence", "its state in words", "state"),
    number("stopped_s", "for so long it does not respond, or holds the others up"),
    whole("last_step", "the last step", "step"),
    number("late_ms", "after the rank that comes first to the call"),
    number("process_cores", "cores that it uses", lambda row: row.run and machine_of(row.run)[0]),
    number("gpu_clock_mhz", "clock of its GPU", lambda row: row.run and machine_of(row.run)[1]),
    *within(STEADY[1:], "split"),
)
GROUP = (
    text("group", "its name", "group.folder.name"),
    text("launcher", "what started the ranks", "group.file.launcher"),
    whole("size", "the number of ranks", "group.file.size"),
    anything("missing_ranks", "ranks without a run", "group.missing"),
    whole("aligned_steps", "steps that all ranks have", lambda judged: len(judged.cycles.steps)),
    number("waiting_share", "the time that ranks wait for one another, 0 to 1"),
    number("in_call_s", "all ranks are in the same call for so long"),
    record("straggler", "the late rank; null where none is", _STRAGGLER),
    text("straggler_not_known", "why none can be named", "why_not"),
    flag("compute_known", "a rank that computes longer would show", "cycles.is_compute_known"),
    rows("ranks", "each rank", RANK, "rows"),
)


def group_json(judged: JudgedGroup) -> dict[str, Any]:
    """Return the group: its ranks, and the straggler or why none can be named."""
    return as_object(GROUP, judged)
