"""Patterns of slow steps: a part that takes longer every n steps, and a part that grows slowly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core import units
from tfwatch.core.rows import Flag, chosen, step_ms
from tfwatch.judge.steps.causes import THERMAL, UNEXPLAINED, SlowStepCause
from tfwatch.judge.steps.quantiles import median
from tfwatch.judge.steps.spikes import NO_PAUSES, flag_cause, spread_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.judge.steps.causes import Pauses

_PARTS = ("wait", "compute", "host")
#: A part stands out by this much, and by this share of the median step.
_LEAST_MS = 5.0
_SHARE = 0.5
#: This many slow steps make a period where this share of the distances between them fits it, within
#: 5 %.
LEAST_TIMES = 6
_FIT = 0.8
_OFF = 0.05
#: A drift is searched in this many pieces of at least this many steps; no single rise may be most
#: of it.
_PIECES = 8
_PIECE_STEPS = 50
_DRIFT_MS = 2.0
_DRIFT_SHARE = 0.25
_JUMP = 0.6
#: A period has a cause where the cause explains this share of its first steps, and nearly all of
#: those that have any cause. Sensors report twenty pauses of one name in a row and then one per
#: second.
_CHECKED = 20
_EXPLAINS, _ALONE = 0.5, 0.8
#: A limit of the machine explains a drift where it covers this share of the last piece, and at most
#: this of the first.
_LIMITS = (THERMAL, "swap", "CPU contention")
_COVERS, _COVERED = 0.5, 0.1
_WORDS = {
    "wait": ("waits {} longer for data", "data wait grew slowly by {}"),
    "compute": ("computes {} longer", "compute grew slowly by {}"),
    "host": ("has {} more host time", "host time grew slowly by {}"),
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """Slow steps over a stretch of one setting, from `step` (at `start_ns`) over `steps` steps."""

    step: int
    start_ns: int
    steps: int
    #: Steps from one slow one to the next; 0 for a drift.
    period: int
    #: The excess of the part over its median in a slow step; in a drift, its growth.
    extra_ms: float
    #: The sum over the stretch.
    lost_ms: float
    #: `wait`, `compute` or `host`.
    part: str = "wait"
    #: As in `Spike`; `unexplained` without a known cause.
    cause: str = UNEXPLAINED.name
    detail: str = ""


def find_patterns(rows: Rows, pauses: Pauses = NO_PAUSES) -> list[Pattern]:
    """Find the period or the drift of each part in each stretch between two switches."""
    patterns: list[Pattern] = []
    for stretch in np.split(rows, np.flatnonzero(rows["flags"] & Flag.SWITCH)):
        # A buffer that fills repeatedly makes a period, which its flag explains.
        flagged = (stretch["flags"] & ~np.uint16(Flag.SHUFFLE_FILL)) != 0
        plain = chosen(stretch, ~flagged) if flagged.any() else stretch
        if len(plain) > LEAST_TIMES:
            patterns.extend(_of_parts(plain, pauses))
    return patterns


def pattern_text(pattern: Pattern) -> str:
    """Return `every 10th step waits 95 ms longer for data (shuffle fill)`."""
    periodic, grew = _WORDS[pattern.part]
    more = units.milliseconds(pattern.extra_ms)
    words = (
        f"every {_ordinal(pattern.period)} step {periodic.format(more)}"
        if pattern.period
        else grew.format(more)
    )
    if pattern.cause == UNEXPLAINED.name:
        return words
    return (
        f"{words}"
        f" ({pattern.detail if pattern.cause in ('callback', 'checkpoint') else pattern.cause})"
    )


def _ordinal(number: int) -> str:
    last = (
        "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number}{last}"


def _of_parts(rows: Rows, pauses: Pauses) -> Iterator[Pattern]:
    columns = {part: np.ascontiguousarray(rows[f"{part}_ms"]) for part in _PARTS}
    columns["host"] = spread_hosts(columns["host"])
    median_ms = median(columns["wait"] + columns["compute"] + columns["host"])
    for part, times in columns.items():
        pattern = _periodic(rows, part, times, median_ms, pauses) or _drift(
            rows, part, times, median_ms, pauses
        )
        if pattern:
            yield pattern


def _periodic(
    rows: Rows, part: str, times: NDArray[np.float32], median_ms: float, pauses: Pauses
) -> Pattern | None:
    extra = times - median(times)
    slow = extra > max(_LEAST_MS, _SHARE * median_ms)
    begins = np.flatnonzero(slow & ~np.concatenate([[False], slow[:-1]]))
    if len(begins) < LEAST_TIMES:
        return None
    period = find_period(np.diff(rows["step"][begins].astype(np.int64)))
    if period is None:
        return None
    each_ms = float(np.median(extra[begins]))
    cause = _cause(rows, begins, each_ms, part, pauses)
    return _pattern(
        rows[int(begins[0]) :],
        part,
        period,
        each_ms,
        float(extra[slow].sum(dtype=np.float64)),
        cause,
    )


def find_period(distances: NDArray[Any]) -> int | None:
    """Return the distance between slow steps, if nearly all distances are one to three times as
    long; else None."""
    period = int(np.median(distances))
    if period < 2:
        return None
    times = np.clip(np.rint(distances / period), 1, 3 if period > 5 else 1)
    fits = np.abs(distances - times * period) <= _OFF * period * times
    return period if fits.mean() >= _FIT else None


def _cause(
    rows: Rows, begins: NDArray[np.intp], extra_ms: float, part: str, pauses: Pauses
) -> SlowStepCause:
    """Return the one cause that explains the steps of a period, if there is one."""
    if _begin_calls(rows, begins):
        return SlowStepCause("steps_per_execution")
    some = rows[begins[:_CHECKED]]
    causes = (_cause_of(row, extra_ms, part, pauses) for row in some)
    counts = Counter(
        cause for cause in causes if cause is not UNEXPLAINED and cause.name not in _LIMITS
    )
    best, times = max(counts.items(), key=lambda counted: counted[1], default=(UNEXPLAINED, 0))
    return best if times >= max(_EXPLAINS * len(some), _ALONE * counts.total()) else UNEXPLAINED


def _cause_of(row: np.void, extra_ms: float, part: str, pauses: Pauses) -> SlowStepCause:
    known = flag_cause(int(row["flags"]), part)
    start_ns = int(row["start_ns"])
    took_ms = float(step_ms(row))
    return (
        SlowStepCause(known)
        if known
        else pauses.cause(start_ns, start_ns + took_ms * 1e6, extra_ms, part)
    )


def _begin_calls(rows: Rows, at: NDArray[np.intp]) -> bool:
    """Return True if each step is the first of a call of several steps: only the last row has a
    host part."""
    return bool((rows["host_ms"][at] == 0).all() and (rows["host_ms"][at[at > 0] - 1] > 0).all())


def _drift(
    rows: Rows, part: str, times: NDArray[np.float32], median_ms: float, pauses: Pauses
) -> Pattern | None:
    if len(rows) < _PIECES * _PIECE_STEPS:
        return None
    pieces = np.array_split(times, _PIECES)
    grown = float(np.median(pieces[-1]) - np.median(pieces[0]))
    if grown < max(_DRIFT_MS, _DRIFT_SHARE * median_ms):
        return None
    medians = np.array([np.median(piece) for piece in pieces])
    rises = np.diff(medians)
    if rises.min() < -0.05 * grown or rises.max() > _JUMP * grown:
        return None
    lost_ms = float(np.maximum(times - medians[0], 0).sum(dtype=np.float64))
    return _pattern(rows, part, 0, grown, lost_ms, _limit(rows, pauses))


def _limit(rows: Rows, pauses: Pauses) -> SlowStepCause:
    """Return the limit of the machine at the end of a drift that was not there at its start."""
    starts = rows["start_ns"]
    early = float(starts[0]), float(starts[len(rows) // _PIECES])
    late = float(starts[-len(rows) // _PIECES]), float(starts[-1])
    held = (name for name in _LIMITS if pauses.covered(name, *late) >= _COVERS)
    return next(
        (SlowStepCause(name) for name in held if pauses.covered(name, *early) <= _COVERED),
        UNEXPLAINED,
    )


def _pattern(
    rows: Rows, part: str, period: int, extra_ms: float, lost_ms: float, cause: SlowStepCause
) -> Pattern:
    first, steps = rows[0], int(rows["step"][-1]) - int(rows["step"][0]) + 1
    step, start_ns = int(first["step"]), int(first["start_ns"])
    return Pattern(step, start_ns, steps, period, extra_ms, lost_ms, part, cause.name, cause.detail)
