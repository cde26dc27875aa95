"""Spikes: single slow steps, each with its cause; and the steps that were traced or compiled.

With `steps_per_execution` several steps run in one call. The row of the last step of a call holds
the host part of the whole call; the host part of its other steps is 0, which no other step has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tfwatch.core.rows import Flag, step_ms
from tfwatch.judge.steps.causes import UNEXPLAINED, Pauses, SlowStepCause

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: The number of calls that a median host part needs.
_CALLS = 3


def spread_hosts(hosts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the host part of each call spread over its steps; unchanged where each step is a call.

    Steps of a call in progress keep their 0.
    """
    ends = np.flatnonzero(hosts)
    if not len(ends) or len(ends) == len(hosts):
        return hosts
    sizes = np.diff(ends, prepend=-1)
    spread = hosts.copy()
    spread[: ends[-1] + 1] = np.repeat(hosts[ends] / sizes, sizes)
    return spread


def hosts_over_usual(rows: Rows) -> NDArray[np.float32]:
    """Return each row's host part; where calls have several steps, its excess over the median of
    all calls."""
    hosts: NDArray[np.float32] = rows["host_ms"]
    if np.count_nonzero(hosts) == len(hosts):
        return hosts
    calls = hosts[(hosts > 0) & (rows["flags"] == 0)]
    if len(calls) < _CALLS:
        return hosts
    over: NDArray[np.float32] = np.maximum(hosts - np.median(calls), 0)
    return over


#: A step without a flag is a spike if it exceeds the median around it by more than this and by more
#: than that median. A delay of 30 ms is found even in an otherwise short step; in 10 000 plain
#: steps the largest excess was 14 ms.
LEAST_MS = 25.0
#: A step with a flag has its cause already; it is a spike if the excess is more than this and half
#: the median.
FLAGGED_MS = 5.0
FLAGGED_TIMES = 0.5
#: The number of steps in a median, and the distance between medians: each one costs time.
_AROUND = 65
_STRIDE = 16
_ANCHORS_AT_ONCE = 8192
#: More than `_SINGLE` slow steps within `_NEAR` steps on either side are typical of the run and no
#: spikes: every tenth batch is slow, or a stretch starves.
_NEAR = 100
_SINGLE = 2
_PARTS = ("wait", "compute", "host")
NO_PAUSES = Pauses()


@dataclass(frozen=True, slots=True)
class Spike:
    """One step that exceeds the median step by `extra_ms`; `part` is `wait`, `compute` or `host`.

    detail: more of the cause, e.g. a callback's class; may be empty.
    """

    step: int
    start_ns: int
    extra_ms: float
    part: str
    cause: str
    detail: str = ""


class SpikeSearch:
    """The search for spikes in rows of `core.rows.STEP`.

    A step without a flag is a spike where it exceeds the median of the unflagged steps around it by
    more than max(25 ms, median), and where such steps are rare: one or two in 200.

    Attributes:
        single: True for each row that is an unflagged spike.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._plain = rows["flags"] == 0
        self._extra = _extra_ms(rows, self._plain)
        self.single = np.zeros(len(rows), dtype=np.bool_)
        if self._extra is not None:
            self.single = _rare(self._plain & _stands_out(*self._extra))

    def spikes(self, pauses: Pauses = NO_PAUSES) -> list[Spike]:
        """Return the spikes, flagged ones too. A cause comes from flags or pauses; else it is
        `unexplained`."""
        if self._extra is None:
            return []
        times, medians = self._extra
        over = times - medians
        flagged = ~self._plain & (over > np.maximum(FLAGGED_MS, FLAGGED_TIMES * medians))
        at = np.flatnonzero(flagged | self.single)
        causes = zip(
            self._rows[at], over[at], _largest_part(self._rows, self._plain, at), strict=True
        )
        return [_spike(row, float(ms), part, pauses) for row, ms, part in causes]


#: The flags that explain each part: a traced step may also have waited for another reason.
_OF_PART = {
    "wait": Flag.SWITCH | Flag.SHUFFLE_FILL | Flag.EPOCH_START,
    "compute": Flag.COMPILE | Flag.RETRACE | Flag.SWITCH,
    "host": Flag.VALIDATION,
}


def flag_cause(flags: int, part: str) -> str:
    """Return the cause of a slow part by the step's flags; empty where they name none."""
    return Flag(flags & _OF_PART[part]).cause


def _spike(row: np.void, extra_ms: float, part: str, pauses: Pauses) -> Spike:
    start_ns, flags = int(row["start_ns"]), int(row["flags"])
    known = flag_cause(flags, part)
    cause = SlowStepCause(known) if known else UNEXPLAINED
    # A validation follows the step with its flag: the delay in the step itself may have another
    # cause.
    if not known or flags & Flag.VALIDATION:
        paused = pauses.cause(start_ns, start_ns + float(step_ms(row)) * 1e6, extra_ms, part)
        cause = cause if paused is UNEXPLAINED else paused
    return Spike(int(row["step"]), start_ns, extra_ms, part, cause.name, cause.detail)


def _stands_out(times: NDArray[np.float32], medians: NDArray[np.float32]) -> NDArray[np.bool_]:
    stands_out: NDArray[np.bool_] = times - medians > np.maximum(LEAST_MS, medians)
    return stands_out


def _extra_ms(
    rows: Rows, plain: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Return each row's step time and the median of the unflagged step times around it; None where
    all are flagged."""
    times = rows["wait_ms"] + rows["compute_ms"] + hosts_over_usual(rows)
    ordinary = times[plain]
    if not len(ordinary):
        return None
    starts = _window_starts(len(ordinary))
    windows = sliding_window_view(ordinary, min(_AROUND, len(ordinary)))
    medians = np.concatenate(
        [
            _medians(windows[starts[at : at + _ANCHORS_AT_ONCE]])
            for at in range(0, len(starts), _ANCHORS_AT_ONCE)
        ]
    )
    return times, medians[_anchors(plain)]


def _medians(windows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the median of each window; `np.median` orders each a second time, in search of NaN."""
    middle, is_odd = divmod(windows.shape[1], 2)
    if not is_odd:
        return np.asarray(np.median(windows, axis=1))
    return np.partition(windows, middle, axis=1)[:, middle]


def _window_starts(count: int) -> NDArray[np.intp]:
    """Return the starts of the windows over `count` unflagged steps, one for each `_STRIDE` steps,
    centred on them."""
    centres = np.arange(0, count, _STRIDE) + _STRIDE // 2
    return np.clip(centres - _AROUND // 2, 0, max(count - _AROUND, 0))


def _anchors(plain: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the number of each row's window: that of the nearest unflagged step before it, or of
    the first."""
    anchors: NDArray[np.int32] = np.maximum(np.cumsum(plain, dtype=np.int32) - 1, 0) // _STRIDE
    return anchors


def _rare(is_spike: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return those of `found` that have few others near."""
    at = np.flatnonzero(is_spike)
    near = np.searchsorted(at, at + _NEAR, side="right") - np.searchsorted(
        at, at - _NEAR, side="left"
    )
    rare = np.zeros(len(is_spike), dtype=np.bool_)
    rare[at[near <= _SINGLE]] = True
    return rare


def _largest_part(rows: Rows, plain: NDArray[np.bool_], at: NDArray[np.intp]) -> list[str]:
    """Return the part of each row in `at` that is furthest above the median of that part around
    it."""
    if not len(at):
        return []
    ordinary = np.flatnonzero(plain)
    windows = _window_starts(len(ordinary))[_anchors(plain)[at]][:, np.newaxis] + np.arange(
        min(_AROUND, len(ordinary))
    )
    parts = (rows["wait_ms"], rows["compute_ms"], hosts_over_usual(rows))
    extra = np.array([part[at] - np.median(part[ordinary[windows]], axis=1) for part in parts])
    return [_PARTS[index] for index in np.argmax(extra, axis=0)]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A step that took `took_ms` because its graph was traced; `again`: for another input shape or
    type."""

    step: int
    start_ns: int
    took_ms: float
    again: bool


def find_compiles(rows: Rows) -> list[Compiled]:
    """Find the traced steps among rows of `core.rows.STEP`, in their order."""
    made = rows[(rows["flags"] & np.uint16(Flag.COMPILE | Flag.RETRACE)) != 0]
    took_ms = step_ms(made)
    return [
        Compiled(
            int(row["step"]),
            int(row["start_ns"]),
            float(took),
            bool(row["flags"] & np.uint16(Flag.RETRACE)),
        )
        for row, took in zip(made, took_ms, strict=True)
    ]
