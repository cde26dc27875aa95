"""A group of ranks in a few lines, and as a JSON object; docs/group.schema.json describes that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.analysis.groups.straggler import (
    long_step_lines,
    no_straggler_sentence,
    straggler_sentence,
    without_sentence,
)
from tfwatch.core import units
from tfwatch.live.groups.rank_lines import call_s, held_s, held_where, state_lines
from tfwatch.live.past_run import state_of
from tfwatch.report.document_switches import finite, split_json
from tfwatch.report.progress_line import one_line
from tfwatch.report.text import fate
from tfwatch.runs.library.finding import replay_argument

if TYPE_CHECKING:
    from tfwatch.analysis.groups.straggler import LongStep, Straggler
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState


def group_text(judged: JudgedGroup) -> str:
    """Return the summary: the finding, and a line a rank. Text from outside is cut to one line."""
    lines = [_what(judged), *state_lines(judged), *finding_lines(judged), *_left_out(judged)]
    return "\n".join([*map(one_line, lines), "", *rank_table(judged)])


def finding_lines(judged: JudgedGroup) -> list[str]:
    """Return the straggler with its cause and the gain without it, or that there is none; and single long steps."""
    if judged.why_not:
        return [f"straggler: n/a, {judged.why_not}"]
    if found := judged.straggler:
        lines = [
            straggler_sentence(found),
            without_sentence(found),
            f"its own screen: {_replay(judged, found.rank)}",
        ]
    else:
        lines = [no_straggler_sentence(judged.waiting_share, judged.aligned)]
    return [*lines, *long_step_lines(judged.long_steps)]


def _left_out(judged: JudgedGroup) -> list[str]:
    """Return which steps the figures are of, where they are not of all."""
    if judged.is_whole:
        return []
    first, last = units.count(judged.first_step), units.count(judged.last_step)
    return [
        f"of the newest steps, {first} to {last}; of all steps: tfwatch report, check and compare"
    ]


def rank_table(judged: JudgedGroup) -> list[str]:
    """Return a line a rank: its newest steady steps, and by how much it comes later to the call than the first rank."""
    rows: list[tuple[str, ...]] = [
        ("rank", "step", "ms/step", "data wait", "compute", "host", "late by", "state")
    ]
    rows += [_row(rank, fate(judged.group.ranks[rank.rank])) for rank in judged.ranks]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(text.rjust(width) for text, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]


def _what(judged: JudgedGroup) -> str:
    group = judged.group
    title, size = next(iter(group.ranks.values())).manifest.title, group.file.size
    of_size = f" of {size}" if size and size != len(group.ranks) else ""
    return f"{title}: {units.counted(len(group.ranks), 'rank')}{of_size}, {group.folder.name}"


def _row(state: RankState, fate_text: str) -> tuple[str, ...]:
    split = state.split
    means = (
        (split.step.mean, split.wait.mean, split.compute.mean, split.host.mean)
        if split
        else (None,) * 4
    )
    figures = (units.milliseconds(mean) for mean in means)
    late = units.milliseconds(state.late_ms)
    return (str(state.rank), units.count(state.step), *figures, late, one_line(fate_text))


def _replay(judged: JudgedGroup, rank: int) -> str:
    folder = judged.group.ranks[rank].path
    return f"tfwatch replay {replay_argument(folder)}" if folder else "n/a"


SCHEMA = 1


def group_json(judged: JudgedGroup) -> dict[str, Any]:
    """Return the group: its ranks, the straggler or why none can be named, and single long steps."""
    group = judged.group
    found: dict[str, Any] = finite(
        {
            "schema": SCHEMA,
            "group": group.folder.name,
            "launcher": group.file.launcher,
            "size": group.file.size,
            "missing_ranks": group.missing,
            "unreadable_ranks": {str(rank): why for rank, why in group.unreadable.items()},
            "aligned_steps": len(judged.aligned.steps),
            "figures_of": {
                "first_step": judged.first_step,
                "last_step": judged.last_step,
                "whole": judged.is_whole,
            },
            "waiting_share": judged.waiting_share,
            "in_call_s": call_s(judged),
            "straggler": _straggler(judged.straggler)
            if judged.straggler and not judged.why_not
            else None,
            "straggler_not_known": judged.why_not or None,
            "compute_known": not judged.why_not and judged.is_compute_known,
            "long_steps": [_long_step(one) for one in judged.long_steps],
            "ranks": [_rank(judged, one) for one in judged.ranks],
        }
    )
    return found


def _straggler(found: Straggler) -> dict[str, Any]:
    return {
        "rank": found.rank,
        "cause": found.cause.value,
        "level": found.level.value,
        "share": found.share,
        "group_step_ms": found.group_ms,
        "gain_ms": found.gain_ms,
        "gain_is_least": found.is_least,
        "own": found.own,
        "others": found.others,
        "sentence": straggler_sentence(found),
    }


def _long_step(found: LongStep) -> dict[str, Any]:
    return {
        "step": found.step,
        "rank": found.rank,
        "cause": found.cause.value,
        "lost_ms": found.lost_ms,
    }


def _rank(judged: JudgedGroup, state: RankState) -> dict[str, Any]:
    run = judged.group.ranks[state.rank]
    return {
        "rank": state.rank,
        "run": run.manifest.run,
        "state": state_of(run),
        "silent_s": run.silent_s if run.life.is_stale else None,
        "held_s": held_s(judged, state),
        "held_where": held_where(judged, state) or None,
        "last_step": state.step,
        "behind_steps": state.behind,
        "late_ms": state.late_ms,
        "data_wait_seen": not run.manifest.fetches_in_calls,
        "process_cores": state.machine.cores,
        "gpu_clock_mhz": state.machine.clock_mhz,
        "gpu_power_w": state.machine.power_w,
        "gpu_temperature_c": state.machine.temperature_c,
        **split_json(state.split),
    }
