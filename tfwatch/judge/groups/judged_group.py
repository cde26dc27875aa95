"""A group of ranks, judged: one row a rank, and the finding: who is late, by how much, and why. A
rank that no longer trains comes before a late one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfwatch.core import units
from tfwatch.core.rows import Phase
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.groups.late_rank import (
    NEEDED,
    Cycles,
    RankSteps,
    Straggler,
    align,
    find_straggler,
    lateness_ms,
    straggler_sentences,
    straggler_word,
    waiting_share,
)
from tfwatch.judge.past_run import state_of
from tfwatch.judge.steps.steady_steps import Breakdown, steady_breakdown
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.runs.group import Group
    from tfwatch.runs.snapshot import Snapshot

    #: The tone, the word and the sentences of a finding.
    _Found: TypeAlias = tuple[Tone, str, list[str]]

#: Samples for a figure of a machine: three seconds of them.
_FEWEST_SAMPLES = 6
#: The states of a rank that trains, or has trained to the end.
_WELL = frozenset({"finished", "stopped", "running"})
#: A rank that has not come to the next call for so many seconds, or hangs in it, and for this many
#: of its steps, is held up.
_HELD_S, _HELD_STEPS = 3.0, 4.0
#: The share of data wait of every rank from which that comes before the straggler.
_STARVES_FROM = 0.2
#: Ranks without a run in a sentence.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class RankRow:
    """A rank in figures."""

    rank: int
    #: E.g. `finished`, `no batch for 41.0 s, in read (train.py:11)`, `no run`.
    state: str
    #: None without a run that can be read.
    run: Snapshot | None = None
    #: It no longer trains, or holds the others up: the head of its state.
    stopped: str = ""
    #: For so long it does not respond, or holds the others up.
    stopped_s: float | None = None
    #: The last one; None without a run.
    step: int | None = None
    #: Of its newest steady steps; None without any.
    split: Breakdown | None = None
    #: Mean time by which it comes later to the call than the first rank; None with too few steps.
    late_ms: float | None = None
    #: Of the late rank.
    why: str = ""


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """A group that was read once, and its judgement."""

    group: Group
    #: By rank, missing and unreadable ones too.
    rows: tuple[RankRow, ...]
    tone: Tone
    word: str
    sentences: tuple[str, ...]
    cycles: Cycles
    #: The rank that the others wait for; None without one, and where none can be named.
    straggler: Straggler | None
    #: Why no straggler can be named; empty where one can be.
    why_not: str
    #: All ranks are in the same call for so long, and none is seen to hold it up; None where not.
    in_call_s: float | None
    #: The rank that the finding names; None where it names none.
    named_rank: int | None

    @property
    def title(self) -> str:
        """`cnn, 3 ranks of 4`."""
        ranks, size = self.group.ranks, self.group.file.size
        workload = next(iter(ranks.values())).manifest.workload
        of_size = f" of {size}" if size and size != len(ranks) else ""
        return f"{workload}, {units.counted(len(ranks), 'rank')}{of_size}"

    @property
    def waiting_share(self) -> float | None:
        """The share of their time that ranks wait for one another, 0 to 1; None with too few
        steps."""
        return None if self.why_not else waiting_share(self.cycles)


def judge_group(group: Group) -> JudgedGroup:
    """Judge a group."""
    runs = group.ranks
    cycles = align([RankSteps(n, run.steps, *machine_of(run)) for n, run in sorted(runs.items())])
    why_not = _why_not(group, cycles)
    late = None if why_not else find_straggler(cycles)
    splits = {n: steady_breakdown(run.steps[-10 * NEEDED :]) for n, run in runs.items()}
    starved = _least_starved(splits.values())
    if starved and not late and any(run.manifest.replicas for run in runs.values()):
        hidden = "a fetch from a distributed data set of unknown length waits for the slowest rank"
        why_not = why_not or hidden
    late_ms = {} if why_not else lateness_ms(cycles)
    rows = [_row(rank, run, splits[rank], late_ms, late) for rank, run in runs.items()]
    rows += [RankRow(rank, "no run") for rank in group.missing]
    rows += [RankRow(n, f"cannot be read: {why}") for n, why in group.unreadable.items()]
    rows.sort(key=lambda row: row.rank)
    in_call_s = _in_call_s(rows)
    tone, word, sentences = _finding(group, cycles, late, why_not, starved)
    stopped, named = _first_stopped(rows), late.rank if late else None
    if in_call_s is not None:
        first = units.count(max(row.step or 0 for row in rows))
        where = f"no step since step {first}: all ranks are in the call, and nothing shows which"
        sentences.insert(0, f"{where} one the others wait for")
        tone, word = Tone.BAD, f"NO STEP for {units.seconds(in_call_s)}"
    elif stopped:
        named = stopped.rank
        held = "" if stopped.stopped_s is None else f" for {units.seconds(stopped.stopped_s)}"
        tone, word = Tone.BAD, f"{stopped.stopped.upper()} rank {named}{held}"
        after = f"rank {named}: {stopped.state}, after step {units.count(stopped.step or 0)}"
        sentences.insert(0, f"{after}; the other ranks wait for it")
    return JudgedGroup(
        group, tuple(rows), tone, word, tuple(sentences), cycles, late, why_not, in_call_s, named
    )


def _why_not(group: Group, cycles: Cycles) -> str:
    """Return why no straggler can be named; empty where one can be."""
    if len(group.ranks) < 2:
        return "only one rank has a run"
    not_split = {rank: why for rank, run in group.ranks.items() if (why := run.manifest.not_split)}
    if not_split:
        return f"the steps of rank {min(not_split)} are not split: {not_split[min(not_split)]}"
    if len(cycles.steps) < NEEDED:
        steps = units.counted(len(cycles.steps), "steady step")
        return f"the ranks have {steps} in common, {NEEDED} are needed"
    return ""


def _least_starved(splits: Iterable[Breakdown | None]) -> Breakdown | None:
    known = list(splits)
    least = min(filter(None, known), key=lambda split: split.wait_share, default=None)
    starve = least and least.wait_share >= _STARVES_FROM and None not in known and len(known) > 1
    return least if starve else None


def _finding(
    group: Group,
    cycles: Cycles,
    late: Straggler | None,
    why_not: str,
    starved: Breakdown | None,
) -> _Found:
    if late:
        tone = Tone.BAD if late.is_critical else Tone.WARN
        found = tone, straggler_word(late), straggler_sentences(late)
    elif why_not:
        found = Tone.CALM, "STRAGGLER n/a", [f"whether a rank is late is not known: {why_not}"]
    else:
        found = Tone.GOOD, "NO STRAGGLER", [_no_straggler(group, cycles)]
    if starved and not (late and late.share > starved.wait_share):
        wait, step = units.in_one_unit(starved.wait.mean, starved.step.mean)
        waits = f"each rank waits {wait} of {step}/step for data"
        first = group.ranks[min(group.ranks)].manifest.run
        where = f"the screen of a rank names the cause: tfwatch replay {first}"
        word = f"ALL RANKS STARVE {units.percent(starved.wait_share)}"
        found = Tone.BAD, word, [waits, where, *found[2]]
    return _with_lacking(found, sorted((*group.missing, *group.unreadable)))


def _with_lacking(found: _Found, lacking: list[int]) -> _Found:
    """Return the finding with the ranks of which no run can be read: nothing is good without
    them."""
    if not lacking:
        return found
    tone, word, sentences = found
    more = len(lacking) - _MOST_NAMED
    named = ", ".join(map(str, lacking[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
    unknown = f"nothing is known of rank {named}: no run of it can be read"
    if tone in (Tone.GOOD, Tone.CALM):
        count = units.counted(len(lacking), "rank").upper()
        return Tone.WARN, f"NO RUN OF {count}", [unknown, *sentences]
    return tone, word, [*sentences, unknown]


def _no_straggler(group: Group, cycles: Cycles) -> str:
    """Return that no rank holds the group up, and what would not show."""
    unseen = sum(run.manifest.fetches_in_calls for run in group.ranks.values())
    is_sure = cycles.is_compute_known and not unseen
    head = "no rank holds the others up" if is_sure else "no rank is seen to be late"
    waits = (
        f"{head}: they wait {units.percent(waiting_share(cycles))} of their time for one another"
    )
    if unseen:
        waits += f"; the data wait of {units.counted(unseen, 'rank')} is a part of its calls"
    if not cycles.is_compute_known:
        waits += "; whether one computes longer is n/a, as processor time and clocks are not known"
    return waits


def machine_of(run: Snapshot) -> tuple[float | None, float | None]:
    """Return the median cores that a rank's process uses and the clock of its GPU, MHz, of the
    samples between its first and its last step; None where unknown. A process that was stopped for
    a while is as usual otherwise."""
    steps = run.steps
    if len(steps) < 2:
        return None, None
    at_ns = run.samples["at_ns"]
    within = run.samples[(at_ns > steps["start_ns"][0]) & (at_ns <= steps["start_ns"][-1])]
    columns = (within[name] for name in ("process_cores", "gpu_freq_mhz"))
    known = (values[~np.isnan(values)] for values in columns)
    cores, clock = (float(np.median(of)) if len(of) >= _FEWEST_SAMPLES else None for of in known)
    return cores, clock


# -- a row -----------------------------------------------------------------------------------------


def _row(
    rank: int,
    run: Snapshot,
    split: Breakdown | None,
    late_ms: dict[int, float],
    late: Straggler | None,
) -> RankRow:
    head, seconds = _stopped(run, split.step.mean if split else 0.0)
    state = run.failure or head or state_of(run)
    if seconds is not None:
        detail = run.open_phase.detail if run.open_phase and run.life is Life.RUNNING else ""
        state = f"{head} for {units.seconds(seconds)}{f', in {detail}' if detail else ''}"
    return RankRow(
        rank,
        state,
        run,
        head,
        seconds,
        int(run.steps["step"][-1]) if len(run.steps) else 0,
        split,
        late_ms.get(rank),
        late.cause.label if late and late.rank == rank else "",
    )


def _stopped(run: Snapshot, step_ms: float) -> tuple[str, float | None]:
    """Return why a rank holds the others up, and for how long where that goes on: it failed, was
    killed, does not respond, has not come to the next call for long, or hangs in it. Empty where it
    does not."""
    last = run.open_phase
    if run.life is Life.RUNNING and last and last.lasts_s >= _held_from_s(step_ms):
        if last.is_before_call:
            is_wait = last.phase is Phase.WAIT
            return "no batch" if is_wait else "in Python between two steps", last.lasts_s
        if last.is_in_call and last.detail:
            return "hangs in its call", last.lasts_s
    state = state_of(run)
    if state in _WELL:
        return "", None
    return state, run.silent_s if run.life.is_stale else None


def _held_from_s(step_ms: float) -> float:
    return max(_HELD_S, _HELD_STEPS * step_ms / 1e3)


def _first_stopped(rows: list[RankRow]) -> RankRow | None:
    """Return the stopped rank whose last sign of training is oldest: the others stop with it."""

    def last_sign_s(row: RankRow) -> float:
        assert row.run
        begun_s = row.run.manifest.origin_wall_ns / 1e9
        return begun_s + row.run.length_s - (row.stopped_s or 0.0)

    stopped = [row for row in rows if row.stopped]
    return min(stopped, key=last_sign_s, default=None)


def _in_call_s(rows: list[RankRow]) -> float | None:
    """Return for how long all ranks that train have been in the call; None where they are not, and
    where a rank is seen to hold it up."""
    runs = [row.run for row in rows if row.run and not row.run.life.is_over]
    phases = [run.open_phase for run in runs if run.open_phase and run.open_phase.is_in_call]
    if len(runs) < 2 or len(phases) < len(runs) or any(row.stopped for row in rows):
        return None
    step_ms = max((row.split.step.mean for row in rows if row.split), default=0.0)
    lasts_s = min(phase.lasts_s for phase in phases)
    return lasts_s if lasts_s >= _held_from_s(step_ms) else None
