"""Stalls: stretches of steps in which the device starves for much longer than usual, with their
causes; and the limits that heat and memory set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tfwatch.core.events import (
    Paused,
    PipelineSwitched,
    StagesFound,
    StallLocated,
    SwitchAsked,
    is_of_experiment,
)
from tfwatch.core.rows import STEP, Flag, step_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.runs.buffers import Events

# -- limits ----------------------------------------------------------------------------------------

#: The process got no CPU time: nothing that it did was slow.
STOPPED = "process stopped"
UNEXPLAINED = "unexplained"
CONTENTION = "CPU contention"
#: The causes of `Paused` that are limits: a letter and a word for each.
LIMITS = {"thermal limit": ("H", "heat"), "swap": ("M", "swap")}
#: Sensors report a lasting limit in pieces; pieces nearer than this are one stretch.
_NEAR_NS = 1_500_000_000


def find_limits(events: Iterable[object]) -> list[Paused]:
    """Return the limits among a run's events, one for each stretch; `detail` is that of the last
    piece."""
    limits: list[Paused] = []
    for event in events:
        if isinstance(event, Paused) and event.cause in LIMITS:
            join_piece(limits, event)
    return limits


def join_piece(limits: list[Paused], piece: Paused) -> None:
    """Add a piece to the limits so far: to the stretch that it continues, or as a new one."""
    at = next((at for at in reversed(range(len(limits))) if limits[at].cause == piece.cause), None)
    if at is None or _begin_ns(piece) - limits[at].at_ns > _NEAR_NS:
        limits.append(piece)
    else:
        limits[at] = msgspec.structs.replace(
            piece, took_ms=(piece.at_ns - _begin_ns(limits[at])) / 1e6
        )


def _begin_ns(limit: Paused) -> int:
    return limit.at_ns - round(limit.took_ms * 1e6)


def limit_time_s(events: Iterable[object], cause: str) -> float:
    """Return the seconds of a run for which a limit of this cause held."""
    return sum(limit.took_ms for limit in find_limits(events) if limit.cause == cause) / 1e3


# -- stalls ----------------------------------------------------------------------------------------

#: The least data wait of a stall, in one step or in several that follow one another.
LEAST_LOST_MS = 500.0
#: A wait belongs to a stall where it exceeds the usual one by `LEAST_LOST_MS`, or by this and this
#: many median steps.
_LONGER_MS = 30.0
_LONGER_STEPS = 3.0
#: The usual wait is the median of the `_AROUND` steps before, computed every `_EVERY` steps, and
#: more often for the first steps of a setting: steps before the first of `_EARLY` are compared with
#: themselves, steps before the last of `_EARLY` are stalls only where they exceed it by
#: `LEAST_LOST_MS`.
_AROUND = 256
_EVERY = 64
_EARLY = (8, 16, 32, 64)
_AT_ONCE = 8192
_BLOCK = 65_536
#: The flags that explain a long wait.
_CAUSES = Flag.SWITCH | Flag.SHUFFLE_FILL | Flag.EPOCH_START
#: The pauses that explain one, the first of them first, where they cover this share of it.
#: Callbacks and checkpoints run between two steps, and heat slows all of them: they delay no wait.
_PAUSES = (STOPPED, "swap", CONTENTION)
_COVERS = 0.5
#: A pause that holds a step up is recorded so long after it at most.
_PAUSE_NS = 60 * 10**9


@dataclass(frozen=True, slots=True)
class Stall:
    """Steps that waited one after another. `lost_ms` is their data wait, `step` the first of
    `steps`."""

    step: int
    start_ns: int
    steps: int
    lost_ms: float
    #: Empty until it is looked for. It is that of its longest wait, from `longest_ns` over
    #: `longest_ms`, of a step with these flags.
    cause: str = ""
    #: What it waited for, e.g. `feed.py:41 in rows, below map(read)`; empty where unknown.
    place: str = ""
    longest_ns: int = 0
    longest_ms: float = 0.0
    flags: int = 0

    @property
    def end_ns(self) -> float:
        """The end of its longest wait."""
        return self.longest_ns + self.longest_ms * 1e6

    def named(self, events: Events, python_stage: str) -> Stall:
        """Return the stall with its place, and its cause: a flag, a pause that covers half of the
        longest wait, or `unexplained`. A line that waits is no contention for the CPU."""
        recorded = self.start_ns, int(self.end_ns) + _PAUSE_NS
        steps = range(self.step, self.step + self.steps)
        located = (one for one in events.between(StallLocated, *recorded) if one.step in steps)
        found = merge_locations(located)
        place = place_text(found, python_stage) if found else ""
        flag = Flag(self.flags & _CAUSES).cause
        cause = flag or self._pause_among(events.between(Paused, *recorded))
        is_other = bool(place) and cause == CONTENTION
        return replace(self, cause=UNEXPLAINED if is_other else cause, place=place)

    def _pause_among(self, pauses: Iterable[Paused]) -> str:
        """Return the cause that covers at least half of the longest wait."""
        causes = set()
        for pause in pauses:
            begin_ns = max(_begin_ns(pause), self.longest_ns)
            if min(pause.at_ns, self.end_ns) - begin_ns >= _COVERS * self.longest_ms * 1e6:
                causes.add(pause.cause)
        return next((cause for cause in _PAUSES if cause in causes), UNEXPLAINED)

    @property
    def reason(self) -> str:
        """Its cause, and its place; empty where neither is known."""
        known = "" if self.cause == UNEXPLAINED else self.cause
        return ", ".join(filter(None, (known, self.place)))


class StallSearch:
    """The search for stalls in rows that arrive in blocks. The result does not depend on the
    blocks.

    A stall is a stretch of steps that wait much longer than usual, and loses a second or more. Much
    longer: by a second, or by 30 ms and three median steps. A run that always waits this long, or
    has waited this long for 128 steps, has a verdict and no stall. Each setting of the pipeline is
    searched separately.
    """

    def __init__(self) -> None:
        self._closed: list[Stall] = []
        self._open: Stall | None = None
        self._named: list[Stall] = []
        # Rows of the current setting: those that are too few to judge, and the last that were
        # judged.
        self._held = self._judged = np.empty(0, dtype=STEP)
        self._seen = 0

    def found(self, events: Events) -> list[Stall]:
        """Return the stalls so far, oldest first; the newest may still grow. Causes are recorded
        after a stall, and are looked for until none can come."""
        newer = [*self._closed[len(self._named) :], *filter(_is_stall, self._newest())]
        stage = python_stage(events.of(StagesFound)) if newer else ""
        named = [stretch.named(events, stage) for stretch in newer]
        stalls = without_own([*self._named, *named], events.of(SwitchAsked, PipelineSwitched))
        newest_ns = max((stretch.end_ns for stretch in newer), default=0.0)
        self._named += takewhile(lambda one: one.end_ns + _PAUSE_NS < newest_ns, named)
        return stalls

    def take(self, rows: Rows) -> None:
        """Search the next rows of `core.rows.STEP`."""
        for setting in np.split(rows, np.flatnonzero(rows["flags"] & Flag.SWITCH)):
            if not len(setting):
                continue
            if setting["flags"][0] & Flag.SWITCH:
                self._closed += filter(_is_stall, self._newest())
                self._open, self._seen = None, 0
                self._held = self._judged = rows[:0]
            self._held = np.concatenate([self._held, setting])
            if self._seen or len(self._held) >= _EARLY[0]:
                held, self._held = self._held, rows[:0]
                self._judge(held)

    def _newest(self) -> list[Stall]:
        if self._open:
            return [self._open]
        return _stretches(self._held, _over(self._held["wait_ms"], self._held["wait_ms"]))

    def _judge(self, rows: Rows) -> None:
        known = np.concatenate([self._judged, rows])
        starves = _starves(known, self._seen - len(self._judged))[len(self._judged) :]
        self._seen += len(rows)
        self._judged = known[-_AROUND - _EVERY :]
        stretches = _stretches(rows, starves)
        if self._open:
            if starves[0]:
                stretches[0] = _joined(self._open, stretches[0])
            else:
                stretches.insert(0, self._open)
        self._open = stretches.pop() if starves[-1] else None
        self._closed += filter(_is_stall, stretches)


def find_stalls(rows: Rows, events: Events) -> list[Stall]:
    """Find the stalls of a whole run (see `StallSearch`)."""
    search = StallSearch()
    for first in range(0, len(rows), _BLOCK):
        search.take(rows[first : first + _BLOCK])
    return search.found(events)


def is_stall_of_callback(pause: Paused) -> bool:
    """Return whether a callback held the training up for as long as a stall."""
    return pause.cause in ("callback", "checkpoint") and pause.took_ms >= LEAST_LOST_MS


def without_own(
    stalls: Iterable[Stall], switches: Iterable[SwitchAsked | PipelineSwitched]
) -> list[Stall]:
    """Return the stalls without those in which the whole process was stopped, or an A/B test built
    its pipelines: it has many of them."""
    own = {
        switch.step + 1 if isinstance(switch, SwitchAsked) else switch.step
        for switch in switches
        if is_of_experiment(switch)
    }
    return [
        stall
        for stall in stalls
        if stall.cause != STOPPED and (stall.cause != Flag.SWITCH.cause or stall.step not in own)
    ]


def _starves(rows: Rows, first: int) -> NDArray[np.bool_]:
    """Return True for each row that waits much longer than usual; the first row is number `first`
    of its setting.

    The result is not valid for rows so near to the first one that their median needs rows before
    it.
    """
    waits, number = rows["wait_ms"], first + np.arange(len(rows))
    starves = np.zeros(len(rows), dtype=np.bool_)
    if not first:
        bounds = (0, *_EARLY)
        for begin, end in pairwise(bounds):
            starves[begin:end] = _over(waits[begin:end], waits[: max(begin, _EARLY[0])])
    late = np.flatnonzero((waits > _LONGER_MS) & (number >= _EARLY[-1]))
    begins, of = np.unique(number[late] // _EVERY * _EVERY - first, return_inverse=True)
    steps = step_ms(rows)
    usual, step = (_medians(values, begins)[of] for values in (waits, steps))
    starves[late] = waits[late] - usual > np.minimum(
        LEAST_LOST_MS, np.maximum(_LONGER_MS, _LONGER_STEPS * step)
    )
    return starves


def _over(waits: NDArray[np.float32], before: NDArray[np.float32]) -> NDArray[np.bool_]:
    if not len(waits):
        return np.zeros(0, dtype=np.bool_)
    longer: NDArray[np.bool_] = waits - np.median(before) > LEAST_LOST_MS
    return longer


def _medians(values: NDArray[np.float32], begins: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return the medians of the `_AROUND` values before each of `begins`, of fewer at the start."""
    medians = np.zeros(len(begins), dtype=np.float32)
    for early in np.flatnonzero(begins < _AROUND).tolist():
        medians[early] = np.median(values[: max(begins[early], 1)])
    full = np.flatnonzero(begins >= _AROUND)
    for some in np.split(full, range(_AT_ONCE, len(full), _AT_ONCE)):
        if len(some):
            medians[some] = np.median(
                sliding_window_view(values, _AROUND)[begins[some] - _AROUND], axis=1
            )
    return medians


def _stretches(rows: Rows, starves: NDArray[np.bool_]) -> list[Stall]:
    edges = np.flatnonzero(np.diff(starves, prepend=False, append=False))
    return [_stretch(rows[first:end]) for first, end in edges.reshape(-1, 2).tolist()]


def _stretch(rows: Rows) -> Stall:
    longest = int(np.argmax(rows["wait_ms"]))
    return Stall(
        step=int(rows["step"][0]),
        start_ns=int(rows["start_ns"][0]),
        steps=len(rows),
        lost_ms=float(rows["wait_ms"].sum(dtype=np.float64)),
        longest_ns=int(rows["start_ns"][longest]),
        longest_ms=float(rows["wait_ms"][longest]),
        flags=int(rows["flags"][longest]),
    )


def _joined(before: Stall, after: Stall) -> Stall:
    longest = max(before, after, key=lambda stretch: stretch.longest_ms)
    steps, lost_ms = before.steps + after.steps, before.lost_ms + after.lost_ms
    return replace(
        longest, step=before.step, start_ns=before.start_ns, steps=steps, lost_ms=lost_ms
    )


def _is_stall(stretch: Stall) -> bool:
    return stretch.lost_ms >= LEAST_LOST_MS


def merge_locations(events: Iterable[StallLocated]) -> StallLocated | None:
    """Return the stage and the line of one stall, which are reported one by one; None without
    both."""
    events = list(events)
    stage = next((event for event in events if event.stage), None)
    line = next((event for event in events if event.place), None)
    if stage and line:
        return msgspec.structs.replace(stage, place=line.place, thread=line.thread)
    return stage or line


def place_text(located: StallLocated, python_stage: str) -> str:
    """Return `feed.py:41 in rows, below map(read)`: the line that waits, and its stage."""
    is_line = located.thread == "generator" or not located.stage
    # Where the stage is known, the training thread is only in the fetch.
    place = located.place if is_line else ""
    stage = located.stage or (python_stage if located.thread == "generator" else "")
    return f"{place}, below {stage}" if place and stage else place or stage


def python_stage(pipelines: Iterable[StagesFound]) -> str:
    """Return the name of the stage that calls Python in the newest pipeline; empty where none does,
    or several do."""
    newest = next(reversed([*pipelines]), None)
    pairs = zip(newest.names, newest.kinds, strict=False) if newest else ()
    names = [name for name, kind in pairs if {"python", "generator"} & {*kind.split()}]
    # A map that TensorFlow joins with its batch has the names of both.
    return f"{names[0]}".partition(", ")[0] if len(names) == 1 else ""
