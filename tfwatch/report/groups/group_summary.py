"""The summary of a group of ranks in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.groups.group_text import (
    hold_up_lines,
    no_straggler_sentence,
    straggler_sentence,
    without_sentence,
)
from tfwatch.core import units
from tfwatch.live.groups.rank_lines import state_lines
from tfwatch.report.progress_line import one_line
from tfwatch.report.text import fate
from tfwatch.runs.library.finding import replay_argument

if TYPE_CHECKING:
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState


def group_text(judged: JudgedGroup) -> str:
    """Return the summary: the finding, and a line a rank. Text from outside is cut to one line."""
    lines = [_what(judged), *state_lines(judged), *finding_lines(judged), *_left_out(judged)]
    return "\n".join([*map(one_line, lines), "", *rank_table(judged)])


def finding_lines(judged: JudgedGroup) -> list[str]:
    """Return the straggler with its cause and the gain without it, or that there is none; and single hold-ups."""
    if judged.why_not:
        return [f"straggler: n/a, {judged.why_not}"]
    if found := judged.straggler:
        lines = [straggler_sentence(found), without_sentence(found), f"its own screen: {_replay(judged, found.rank)}"]
    else:
        lines = [no_straggler_sentence(judged.waiting_share, judged.is_compute_known)]
    return [*lines, *hold_up_lines(judged.hold_ups)]


def _left_out(judged: JudgedGroup) -> list[str]:
    """Return which steps the figures are of, where they are not of all."""
    if judged.is_whole:
        return []
    first, last = units.count(judged.first_step), units.count(judged.last_step)
    return [f"of the newest steps, {first} to {last}; of all steps: tfwatch report, check and compare"]


def rank_table(judged: JudgedGroup) -> list[str]:
    """Return a line a rank: its newest steady steps, and by how much it comes later to the call than the first rank."""
    rows: list[tuple[str, ...]] = [("rank", "step", "ms/step", "data wait", "compute", "host", "late by", "state")]
    rows += [_row(rank, fate(judged.group.ranks[rank.rank])) for rank in judged.ranks]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(text.rjust(width) for text, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]


def _what(judged: JudgedGroup) -> str:
    group = judged.group
    title, size = next(iter(group.ranks.values())).manifest.title, group.file.size
    of_size = f" of {size}" if size and size != len(group.ranks) else ""
    return f"{title}: {units.counted(len(group.ranks), 'rank')}{of_size}, {group.folder.name}"


def _row(state: RankState, fate_text: str) -> tuple[str, ...]:
    split = state.split
    means = (split.step.mean, split.wait.mean, split.compute.mean, split.host.mean) if split else (None,) * 4
    figures = (units.milliseconds(mean) for mean in means)
    late = units.milliseconds(state.late_ms)
    return (str(state.rank), units.count(state.step), *figures, late, one_line(fate_text))


def _replay(judged: JudgedGroup, rank: int) -> str:
    folder = judged.group.ranks[rank].path
    return f"tfwatch replay {replay_argument(folder)}" if folder else "n/a"
