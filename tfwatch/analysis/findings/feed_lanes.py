"""The workers of the tf.data service that feed a run: the figures of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import FeedFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.core.rows import Rows

#: The window of current figures, nanoseconds.
_NOW_NS = 5 * 10**9
_NO_EXAMPLES = "no batch of known size yet"
#: The bits of a row's `lost`.
_WORKER, _DISPATCHER = 1, 2


@dataclass(frozen=True, slots=True)
class FeedLane:
    """One worker over some seconds; None is n/a.

    is_lost: it did not respond at the end. cores: that it uses. bytes_s, elements_s: that the training receives.
    """

    address: str
    is_lost: bool
    cores: float | None = None
    bytes_s: float | None = None
    elements_s: float | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """The service that feeds a run.

    missing: why figures are unknown, by column. is_dispatcher_lost: it did not respond at the end.
    """

    lanes: tuple[FeedLane, ...]
    missing: dict[str, str]
    is_dispatcher_lost: bool = False

    @property
    def lost(self) -> int:
        """The number of processes that do not respond."""
        return sum(lane.is_lost for lane in self.lanes) + self.is_dispatcher_lost

    @property
    def missing_text(self) -> list[str]:
        """`cores n/a: its process is not one of this machine`, one for each such column."""
        names = {"bytes_s": "received/s", "elements_s": "elements/s"}
        return [f"{names.get(column, column)} n/a: {why}" for column, why in self.missing.items()]

    @property
    def cores_each(self) -> float | None:
        """The cores that a worker uses in the mean."""
        known = [lane.cores for lane in self.lanes if lane.cores is not None]
        return sum(known) / len(known) if known else None

    @property
    def counted(self) -> str:
        """`4 workers, 2 and the dispatcher lost`; of a single lost worker, its address."""
        workers = [lane.address for lane in self.lanes if lane.is_lost]
        lost = workers if len(workers) < 2 else [str(len(workers))]
        lost += ["the dispatcher"] if self.is_dispatcher_lost else []
        named = f", {' and '.join(lost)} lost" if lost else ""
        return f"{units.counted(len(self.lanes), 'worker')}{named}"

    @property
    def words(self) -> str:
        """`4 workers, 1 lost: 3.9 cores, 412 elements/s, 62 MB/s`, without the figures that are not known."""
        cores, elements, sent = (
            total(self.lanes, name) for name in ("cores", "elements_s", "bytes_s")
        )
        figures = [f"{cores:.1f} cores"] if cores is not None else []
        figures += [f"{units.count(round(elements))} elements/s"] if elements is not None else []
        figures += [f"{units.memory(sent)}/s"] if sent is not None else []
        return f"{self.counted}: {', '.join(figures)}" if figures else self.counted


def find_feed(
    rows: Rows, events: Iterable[object], examples_s: float | None = None, *, whole: bool = False
) -> Feed | None:
    """Return the service of a run from rows of `core.rows.FEED`; None for a run that has none.

    examples_s: that the training takes; they are shared out by bytes. whole: over all rows, not the last seconds.
    """
    latest = next((event for event in reversed(list(events)) if isinstance(event, FeedFound)), None)
    if latest is None:
        return None
    newest = (
        rows
        if whole or not len(rows)
        else rows[rows["at_ns"] >= max(int(rows["at_ns"][-1]) - _NOW_NS, 0)]
    )
    lanes = [
        _lane(address, newest[newest["worker"] == n]) for n, address in enumerate(latest.workers)
    ]
    is_dispatcher_lost = bool(len(newest) and newest["lost"][-1] & _DISPATCHER)
    missing = (
        latest.missing if examples_s is not None else {**latest.missing, "elements_s": _NO_EXAMPLES}
    )
    return Feed(tuple(_with_elements(lanes, examples_s)), missing, is_dispatcher_lost)


def total(lanes: Iterable[FeedLane], figure: str) -> float | None:
    """Return the sum of a figure over all workers that have it; None where none has."""
    known = [value for lane in lanes if (value := getattr(lane, figure)) is not None]
    return sum(known) if known else None


def _lane(address: str, rows: Rows) -> FeedLane:
    if not len(rows):
        return FeedLane(address, is_lost=False)
    return FeedLane(
        address, bool(rows["lost"][-1] & _WORKER), _mean(rows["cores"]), _mean(rows["bytes_s"])
    )


def _mean(values: Any) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean(dtype=np.float64)) if len(known) else None


def _with_elements(lanes: list[FeedLane], examples_s: float | None) -> list[FeedLane]:
    sent = total(lanes, "bytes_s")
    if not sent or examples_s is None:
        return lanes
    shares = [None if lane.bytes_s is None else lane.bytes_s / sent for lane in lanes]
    return [
        FeedLane(
            lane.address,
            lane.is_lost,
            lane.cores,
            lane.bytes_s,
            None if share is None else share * examples_s,
        )
        for lane, share in zip(lanes, shares, strict=True)
    ]
