"""Steps that are not like the others, each with its cause; compiled steps; steps that ran in one call.

Steps that ran several in one call (`steps_per_execution`).

What follows a call stands in the row of its last step: the host part of the others is 0, which no step has that is a
call of its own.

Steps that are not like the others, each with its cause.

The steps that were traced or compiled: slow once, and not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tfwatch.analysis.steps.causes import UNEXPLAINED, Cause, Pauses
from tfwatch.core.rows import Flag, step_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: Calls that their usual host part is told from.
_CALLS = 3


def spread_hosts(rows: Rows) -> Rows:
    """The rows with the host part of each call spread over its steps; as they are where each step is a call.

    Steps of a call that has not ended keep their 0.
    """
    ends = np.flatnonzero(rows["host_ms"])
    if not len(ends) or len(ends) == len(rows):
        return rows
    sizes = np.diff(ends, prepend=-1)
    spread: Rows = rows.copy()
    spread["host_ms"][: ends[-1] + 1] = np.repeat(rows["host_ms"][ends] / sizes, sizes)
    return spread


def hosts_over_usual(rows: Rows) -> NDArray[np.float32]:
    """Each row's host part; where calls have several steps, what it is over the median of all calls."""
    hosts: NDArray[np.float32] = rows["host_ms"]
    if np.count_nonzero(hosts) == len(hosts):
        return hosts
    calls = hosts[(hosts > 0) & (rows["flags"] == 0)]
    if len(calls) < _CALLS:
        return hosts
    over: NDArray[np.float32] = np.maximum(hosts - np.median(calls), 0)
    return over


#: A step without a flag stands out by more than this, and by more than the median around it. What holds a step up by
#: 30 ms is found, though the rest of that step may be shorter than usual; in 10 000 plain steps the largest was 14.
LEAST_MS = 25.0
#: A step with a flag has its cause already, and stands out by more than this and half the median around it.
FLAGGED_MS = 5.0
FLAGGED_TIMES = 0.5
#: Steps around one that its median is taken of, and how far apart these medians are: each one costs.
_AROUND = 65
_STRIDE = 16
_ANCHORS_AT_ONCE = 8192
#: More than `_SINGLE` steps that stand out within `_NEAR` steps on either side are no accident but the way the
#: run goes: every tenth batch slow, a stretch of starving.
_NEAR = 100
_SINGLE = 2
_PARTS = ("wait", "compute", "host")
NO_PAUSES = Pauses()


@dataclass(frozen=True, slots=True)
class Spike:
    """One step that stands out by `extra_ms` over the median step; `part` is `wait`, `compute` or `host`.

    detail: more of the cause, e.g. a callback's class; may be empty.
    """

    step: int
    start_ns: int
    extra_ms: float
    part: str
    cause: str
    detail: str = ""


class SpikeSearch:
    """What stands out of some rows of `core.rows.STEP`.

    A step without a flag stands out where it takes more than max(25 ms, median) over the median of the unflagged steps
    around it, and where such steps are rare: one or two in 200.

    Attributes:
        single: which of the rows are unflagged and stand out.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._plain = rows["flags"] == 0
        self._extra = _extra_ms(rows, self._plain)
        self.single = np.zeros(len(rows), dtype=np.bool_)
        if self._extra is not None:
            self.single = _rare(self._plain & _stands_out(*self._extra))

    def spikes(self, pauses: Pauses = NO_PAUSES) -> list[Spike]:
        """The steps that stand out, flagged ones too. A cause comes from flags or pauses; else it is `unexplained`."""
        if self._extra is None:
            return []
        times, medians = self._extra
        over = times - medians
        flagged = ~self._plain & (over > np.maximum(FLAGGED_MS, FLAGGED_TIMES * medians))
        at = np.flatnonzero(flagged | self.single)
        found = zip(self._rows[at], over[at], _largest_part(self._rows, self._plain, at), strict=True)
        return [_spike(row, float(ms), part, pauses) for row, ms, part in found]


def find_spikes(rows: Rows, pauses: Pauses = NO_PAUSES) -> list[Spike]:
    """The steps that stand out (see `SpikeSearch`)."""
    return SpikeSearch(rows).spikes(pauses)


#: What a flag explains: a step that was traced may also have waited long, for another reason.
_OF_PART = {
    "wait": Flag.SWITCH | Flag.SHUFFLE_FILL | Flag.EPOCH_START,
    "compute": Flag.COMPILE | Flag.RETRACE | Flag.SWITCH,
    "host": Flag.VALIDATION,
}


def flag_cause(flags: int, part: str) -> str:
    """The cause that a step's flags name for a part of it; empty where they name none."""
    return Flag(flags & _OF_PART[part]).cause


def _spike(row: np.void, extra_ms: float, part: str, pauses: Pauses) -> Spike:
    start_ns, flags = int(row["start_ns"]), int(row["flags"])
    known = flag_cause(flags, part)
    found = Cause(known) if known else UNEXPLAINED
    # A validation comes after the step that tells of it: what the step itself lost may have another cause.
    if not known or flags & Flag.VALIDATION:
        paused = pauses.cause(start_ns, start_ns + float(step_ms(row)) * 1e6, extra_ms, part)
        found = found if paused is UNEXPLAINED else paused
    return Spike(int(row["step"]), start_ns, extra_ms, part, found.name, found.detail)


def _stands_out(times: NDArray[np.float32], medians: NDArray[np.float32]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = times - medians > np.maximum(LEAST_MS, medians)
    return found


def _extra_ms(rows: Rows, plain: NDArray[np.bool_]) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Each row's step time and the median of the unflagged step times around it; None where all are flagged."""
    times = rows["wait_ms"] + rows["compute_ms"] + hosts_over_usual(rows)
    ordinary = times[plain]
    if not len(ordinary):
        return None
    starts = _window_starts(len(ordinary))
    windows = sliding_window_view(ordinary, min(_AROUND, len(ordinary)))
    medians = np.concatenate(
        [
            np.median(windows[starts[at : at + _ANCHORS_AT_ONCE]], axis=1)
            for at in range(0, len(starts), _ANCHORS_AT_ONCE)
        ]
    )
    return times, medians[_anchors(plain)]


def _window_starts(count: int) -> NDArray[np.intp]:
    """Where the windows of `count` unflagged steps begin, one for each `_STRIDE` steps and centred on them."""
    centres = np.arange(0, count, _STRIDE) + _STRIDE // 2
    return np.clip(centres - _AROUND // 2, 0, max(count - _AROUND, 0))


def _anchors(plain: NDArray[np.bool_]) -> NDArray[np.intp]:
    """For each row, the number of its window: that of the nearest unflagged step before it, or of the first."""
    anchors: NDArray[np.intp] = np.maximum(np.cumsum(plain) - 1, 0) // _STRIDE
    return anchors


def _rare(found: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Those of `found` with few others near."""
    at = np.flatnonzero(found)
    near = np.searchsorted(at, at + _NEAR, side="right") - np.searchsorted(at, at - _NEAR, side="left")
    rare = np.zeros(len(found), dtype=np.bool_)
    rare[at[near <= _SINGLE]] = True
    return rare


def _largest_part(rows: Rows, plain: NDArray[np.bool_], at: NDArray[np.intp]) -> list[str]:
    """Which part of each row in `at` is furthest above the median of that part around it."""
    if not len(at):
        return []
    parts = np.array([rows["wait_ms"], rows["compute_ms"], hosts_over_usual(rows)])
    ordinary = parts[:, plain]
    windows = sliding_window_view(ordinary, min(_AROUND, ordinary.shape[1]), axis=1)
    starts = _window_starts(ordinary.shape[1])[_anchors(plain)[at]]
    extra = parts[:, at] - np.median(windows[:, starts], axis=2)
    return [_PARTS[index] for index in np.argmax(extra, axis=0)]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A step that took `took_ms` because its graph was made; `again`: another input shape or type asked for it."""

    step: int
    start_ns: int
    took_ms: float
    again: bool


def find_compiles(rows: Rows) -> list[Compiled]:
    """Of rows of `core.rows.STEP`, in their order."""
    made = rows[(rows["flags"] & np.uint16(Flag.COMPILE | Flag.RETRACE)) != 0]
    took_ms = step_ms(made)
    return [
        Compiled(int(row["step"]), int(row["start_ns"]), float(took), bool(row["flags"] & np.uint16(Flag.RETRACE)))
        for row, took in zip(made, took_ms, strict=True)
    ]
