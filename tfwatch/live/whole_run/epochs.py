"""The epochs of a run in figures, made one by one as they are asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, overload

from tfwatch.core.events import EpochEnded, PipelineSwitched, ValidationEnded, without_experiments

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from tfwatch.analysis.steps.stalls import Stall
    from tfwatch.core.rows import Rows
    from tfwatch.runs.in_memory.buffers import Events

_LAST_NS = 2**63
#: Rows of steps hold the lower bits of an epoch's number.
_NUMBER = 0xFFFF


@dataclass(frozen=True, slots=True)
class EpochFigures:
    """One epoch, counted from 0, of `steps` steps so far.

    step_ms: its mean step. wait_share: its data wait as a share of step time, 0 to 1. metrics: empty before its end.
    validation_ms: None without a validation.
    """

    epoch: int
    begin_ns: int
    steps: int
    step_ms: float
    wait_share: float
    metrics: Mapping[str, float]
    switches: tuple[PipelineSwitched, ...] = ()
    stalls: tuple[Stall, ...] = ()
    traced: int = 0
    validation_ms: float | None = None


class EpochTable(Sequence[EpochFigures]):
    """The epochs of a run, oldest first. rows: of `core.rows.EPOCH`. stalls: oldest first."""

    def __init__(self, rows: Rows, events: Events, stalls: Sequence[Stall]) -> None:
        self._rows = rows
        self._events = events
        self._stalls = stalls

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> EpochFigures: ...
    @overload
    def __getitem__(self, at: slice) -> list[EpochFigures]: ...
    def __getitem__(self, at: int | slice) -> EpochFigures | list[EpochFigures]:
        found = range(len(self._rows))[at]
        return self._figures(found) if isinstance(found, int) else [self._figures(each) for each in found]

    def _figures(self, at: int) -> EpochFigures:
        row = self._rows[at]
        begin_ns = int(row["first_ns"])
        end_ns = int(self._rows["first_ns"][at + 1]) if at + 1 < len(self._rows) else _LAST_NS
        number = int(row["epoch"])
        ended = [one for one in self._events.between(EpochEnded, begin_ns, end_ns) if one.epoch & _NUMBER == number]
        validated = self._events.between(ValidationEnded, begin_ns, end_ns)
        total_ms = _total_ms(row)
        return EpochFigures(
            epoch=ended[-1].epoch if ended else number,
            begin_ns=begin_ns,
            steps=int(row["steps"]),
            step_ms=total_ms / int(row["steps"]),
            wait_share=float(row["wait_ms"]) / total_ms if total_ms > 0 else 0.0,
            metrics=ended[-1].metrics if ended else {},
            switches=tuple(without_experiments(self._events.between(PipelineSwitched, begin_ns, end_ns))),
            stalls=tuple(self._stalls_between(begin_ns, end_ns)),
            traced=int(row["traced"]),
            validation_ms=sum(one.took_ms for one in validated) if validated else None,
        )

    def _stalls_between(self, begin_ns: int, end_ns: int) -> Sequence[Stall]:
        first, end = (bisect_left(self._stalls, at_ns, key=attrgetter("start_ns")) for at_ns in (begin_ns, end_ns))
        return self._stalls[first:end]


def _total_ms(row: np.void) -> float:
    """Return the time of an epoch's steps; compute stands there without the copies."""
    return sum(float(row[name]) for name in ("wait_ms", "compute_ms", "copy_ms", "host_ms"))
