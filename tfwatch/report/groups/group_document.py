"""A group of ranks as a JSON object; docs/group.schema.json describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.analysis.groups.group_text import straggler_sentence
from tfwatch.live.groups.rank_lines import held_s
from tfwatch.live.past_run import state_of
from tfwatch.report.document_switches import finite, split_json

if TYPE_CHECKING:
    from tfwatch.analysis.groups.straggler import HoldUp, Straggler
    from tfwatch.live.groups.judged_group import JudgedGroup, RankState

SCHEMA = 1


def group_json(judged: JudgedGroup) -> dict[str, Any]:
    """Return the group: its ranks, the straggler or why none can be named, and single hold-ups."""
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
            "figures_of": {"first_step": judged.first_step, "last_step": judged.last_step, "whole": judged.is_whole},
            "waiting_share": judged.waiting_share,
            "straggler": _straggler(judged.straggler) if judged.straggler and not judged.why_not else None,
            "straggler_not_known": judged.why_not or None,
            "compute_known": not judged.why_not and judged.is_compute_known,
            "hold_ups": [_hold_up(one) for one in judged.hold_ups],
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
        "own": found.own,
        "others": found.others,
        "sentence": straggler_sentence(found),
    }


def _hold_up(found: HoldUp) -> dict[str, Any]:
    return {"step": found.step, "rank": found.rank, "cause": found.cause.value, "lost_ms": found.lost_ms}


def _rank(judged: JudgedGroup, state: RankState) -> dict[str, Any]:
    run = judged.group.ranks[state.rank]
    return {
        "rank": state.rank,
        "run": run.manifest.run,
        "state": state_of(run),
        "silent_s": run.silent_s if run.life.is_stale else None,
        "held_s": held_s(judged, state),
        "last_step": state.step,
        "behind_steps": state.behind,
        "late_ms": state.late_ms,
        "process_cores": state.machine.cores,
        "gpu_clock_mhz": state.machine.clock_mhz,
        "gpu_power_w": state.machine.power_w,
        "gpu_temperature_c": state.machine.temperature_c,
        **split_json(state.split),
    }
