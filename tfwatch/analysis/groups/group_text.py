"""Sentences about the rank that a group waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.groups.straggler import Cause, HoldUp, Level, Straggler
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The hold-ups that are named one by one, and the time that is worth a name: three steps of 5 ms are soon reached.
_NAMED, LEAST_NAMED_MS = 3, 100.0
#: The next thing to look at, by cause.
ADVICE = {
    Cause.DATA_WAIT: "give it what the others have: the same share of the data, as fast a disk, as many free cores",
    Cause.HOST: "take work out of its callbacks, or share it between the ranks: only one of them may write and log",
    Cause.COMPUTE: "look for work that only this rank has: metrics, summaries, another program on its cores",
    Cause.SLOW_GPU: "look at the temperature and the power limit of its GPU: nvidia-smi -q -d PERFORMANCE",
    Cause.NOT_RUNNING: "look for what stops it: swapping, a CPU limit of its container, a debugger, SIGSTOP",
}


def straggler_sentence(found: Straggler) -> str:
    """Return who is late, by how much, and why."""
    waited, step = units.in_one_unit(found.gain_ms, found.group_ms)
    return f"the other ranks wait {waited} of {step}/step for rank {found.rank}: {cause_text(found)}"


def cause_text(found: Straggler) -> str:
    """Return the part of the late rank's time that is longer, beside that of the others."""
    own, others = units.in_one_unit(found.own, found.others)
    return {
        Cause.DATA_WAIT: f"it waits {own} ms for data, the others {others}",
        Cause.HOST: f"its Python between two steps takes {own} ms, that of the others {others}",
        Cause.COMPUTE: f"it computes longer, with {own} ms of CPU time a step; the others use {others}",
        Cause.SLOW_GPU: f"its GPU runs at {found.own:.0f} MHz, those of the others at {found.others:.0f} MHz",
        Cause.NOT_RUNNING: f"its process does not run for {own} ms/step, those of the others for {others}",
    }[found.cause]


def without_sentence(found: Straggler) -> str:
    """Return what the group would take without the late rank."""
    without, step = units.in_one_unit(found.group_ms - found.gain_ms, found.group_ms)
    if found.cause is Cause.COMPUTE:  # ranks that wait use processor time too, so the gain is the least one
        return f"without it a step takes at most about {without} of {step}: at least {units.percent(found.share)} less"
    return f"without it a step takes about {without} of {step}: {units.percent(found.share)} less"


def banner_word(found: Straggler | None) -> str:
    """Return the banner's word: `STRAGGLER rank 2, 32 %`."""
    if found is None:
        return "NO STRAGGLER"
    weight = "" if found.level is Level.CRITICAL else " (warning)"
    return f"STRAGGLER rank {found.rank}, {units.percent(found.share)}{weight}"


def no_straggler_sentence(waiting_share: float | None, is_compute_known: bool) -> str:
    """Return that no rank holds the group up; is_compute_known: a rank that computes longer would show."""
    waited = f"they wait {units.percent(waiting_share)} of their time for one another"
    if is_compute_known:
        return f"no rank holds the others up: {waited}"
    return (
        f"no rank comes late: {waited}; whether one computes longer is n/a, as processor time and clocks are not known"
    )


def hold_up_lines(found: Sequence[HoldUp]) -> list[str]:
    """Return the longest single hold-ups, the longest first, and the number of the others."""
    worst = sorted(found, key=lambda one: -one.lost_ms)
    named = [one for one in worst[:_NAMED] if one.lost_ms >= LEAST_NAMED_MS]
    lines, rest = [hold_up_line(one) for one in named], worst[len(named) :]
    lost_ms = sum(one.lost_ms for one in rest)
    if lost_ms < LEAST_NAMED_MS:
        return lines
    steps = units.counted(len(rest), "more long step" if lines else "long step")
    return [*lines, f"{steps}: {units.duration(lost_ms / 1e3)}"]


def hold_up_line(found: HoldUp) -> str:
    """Return a single long step: its rank and the cause."""
    lost = units.duration(found.lost_ms / 1e3)
    if found.rank is None:
        return f"step {units.count(found.step)} takes {lost} more: all ranks are in the call, and none shows why"
    return f"step {units.count(found.step)} takes {lost} more, for rank {found.rank}: {found.cause.value}"
