"""Stretches of steps in which the device starves for much longer than it usually does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.spikes import NO_PAUSES, flag_cause

if TYPE_CHECKING:
    from tfwatch.analysis.causes import Pauses
    from tfwatch.core.rows import Rows

#: What a stall costs at least, in one wait or in several that follow one another.
LEAST_LOST_MS = 1000.0
#: A wait belongs to a stall where it is longer than usual by this, and by so many median steps.
_LONGER_MS = 30.0
_LONGER_STEPS = 3.0


@dataclass(frozen=True, slots=True)
class Stall:
    """Steps that waited one after another. `lost_ms` is their data wait, `step` the first of `steps`."""

    step: int
    start_ns: int
    steps: int
    lost_ms: float
    cause: str


def find_stalls(rows: Rows, pauses: Pauses = NO_PAUSES) -> list[Stall]:
    """The stretches of steps that wait much longer than the median step does, and lose a second or more.

    Much longer: by a second, or by 30 ms and three median steps. A run that always waits
    as long has a verdict, not a stall. A cause comes from the flags of the step that waited longest, or from
    a pause that covers half of that wait; else it is `unexplained`.
    """
    if not len(rows):
        return []
    waits = rows["wait_ms"].astype(np.float64)
    median_step = float(np.median(rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]))
    extra = waits - np.median(waits)
    starves = extra > min(LEAST_LOST_MS, max(_LONGER_MS, _LONGER_STEPS * median_step))
    edges = np.flatnonzero(np.diff(starves, prepend=False, append=False))
    stretches = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [stall for first, end in stretches if (stall := _stall(rows[first:end], pauses)).lost_ms >= LEAST_LOST_MS]


def _stall(rows: Rows, pauses: Pauses) -> Stall:
    longest = int(np.argmax(rows["wait_ms"]))
    start_ns, wait_ms = int(rows["start_ns"][longest]), float(rows["wait_ms"][longest])
    known = flag_cause(int(rows["flags"][longest]), "wait")
    return Stall(
        step=int(rows["step"][0]),
        start_ns=int(rows["start_ns"][0]),
        steps=len(rows),
        lost_ms=float(rows["wait_ms"].sum(dtype=np.float64)),
        cause=known or pauses.cause(start_ns, start_ns + wait_ms * 1e6, wait_ms, "wait").name,
    )
