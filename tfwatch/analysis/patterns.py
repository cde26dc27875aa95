"""Starving that has a shape: a wait that comes back every n steps, and one that grows slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core import units
from tfwatch.core.rows import Flag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: A wait stands out by this much, and by this share of the median step.
_LEAST_MS = 5.0
_SHARE = 0.5
#: So many waits that stand out make a period where this share of the distances between them fit it, within 5 %.
_LEAST_TIMES = 6
_FIT = 0.8
_OFF = 0.05
#: A drift is looked for in so many parts of at least so many steps; no single rise may be most of it.
_PARTS = 8
_PART_STEPS = 50
_DRIFT_MS = 2.0
_DRIFT_SHARE = 0.25
_JUMP = 0.6


@dataclass(frozen=True, slots=True)
class Pattern:
    """Starving over a stretch of one setting, from `step` (at `start_ns`) over `steps` steps.

    period: steps from one slow wait to the next; 0 for a drift.
    extra_ms: what each slow wait takes over the median wait; of a drift, by how much the wait has grown.
    lost_ms: the sum over the stretch.
    """

    step: int
    start_ns: int
    steps: int
    period: int
    extra_ms: float
    lost_ms: float


def find_patterns(rows: Rows) -> list[Pattern]:
    """The period and the drift of each stretch between two switches, where there is one."""
    found = []
    for stretch in np.split(rows, np.flatnonzero(rows["flags"] & Flag.SWITCH)):
        plain = stretch[stretch["flags"] == 0]
        if len(plain) > _LEAST_TIMES:
            pattern = _periodic(plain) or _drift(plain)
            found.extend([pattern] if pattern else [])
    return found


def shape(pattern: Pattern) -> str:
    """`every 10th step waits 95 ms longer`."""
    more = units.milliseconds(pattern.extra_ms)
    if not pattern.period:
        return f"the wait grew slowly by {more}"
    return f"every {_ordinal(pattern.period)} step waits {more} longer"


def _ordinal(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _periodic(rows: Rows) -> Pattern | None:
    waits = rows["wait_ms"].astype(np.float64)
    extra = waits - np.median(waits)
    starves = extra > max(_LEAST_MS, _SHARE * _median_step_ms(rows))
    begins = np.flatnonzero(starves & ~np.concatenate([[False], starves[:-1]]))
    if len(begins) < _LEAST_TIMES:
        return None
    period = _period(np.diff(rows["step"].astype(np.int64)[begins]))
    if period is None:
        return None
    first = int(begins[0])
    each_ms = float(np.median(extra[begins]))
    return _pattern(rows[first:], period, each_ms, float(extra[starves].sum()))


def _period(distances: NDArray[Any]) -> int | None:
    """The distance that nearly all distances are, or are twice or three times of where one did not stand out."""
    period = int(np.median(distances))
    if period < 2:
        return None
    times = np.clip(np.rint(distances / period), 1, 3 if period > 5 else 1)
    fits = np.abs(distances - times * period) <= _OFF * period * times
    return period if fits.mean() >= _FIT else None


def _drift(rows: Rows) -> Pattern | None:
    if len(rows) < _PARTS * _PART_STEPS:
        return None
    medians = np.array([np.median(part) for part in np.array_split(rows["wait_ms"].astype(np.float64), _PARTS)])
    rises = np.diff(medians)
    grown = float(medians[-1] - medians[0])
    slow = grown >= max(_DRIFT_MS, _DRIFT_SHARE * _median_step_ms(rows))
    if not slow or rises.min() < -0.05 * grown or rises.max() > _JUMP * grown:
        return None
    lost_ms = float(np.maximum(rows["wait_ms"] - medians[0], 0).sum(dtype=np.float64))
    return _pattern(rows, 0, grown, lost_ms)


def _median_step_ms(rows: Rows) -> float:
    return float(np.median(rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]))


def _pattern(rows: Rows, period: int, extra_ms: float, lost_ms: float) -> Pattern:
    steps = int(rows["step"][-1]) - int(rows["step"][0]) + 1
    return Pattern(int(rows["step"][0]), int(rows["start_ns"][0]), steps, period, extra_ms, lost_ms)
