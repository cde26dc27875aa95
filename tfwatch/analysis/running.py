"""The ledger of a run that goes on: what lies long back is summed up once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.ledger import Entry, Ledger, make_ledger, total_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Phase, Rows

#: Epochs that are looked at again: the one that runs, and those that a late event may still belong to.
_KEPT = 3


class RunningLedger:
    """The total and the newest whole epoch, at the same cost however many epochs there were."""

    def __init__(self) -> None:
        self._closed = Entry()
        self._begin_ns = 0
        self._rows = self._events = 0

    def take(
        self, epochs: Rows, events: Sequence[Event], length_s: float, doing: Phase | None
    ) -> tuple[Entry, Entry | None]:
        """As `make_ledger`; every call hands in all epochs and events of the same run."""
        newer = events[self._events :]
        ledger = make_ledger(epochs[self._rows :], newer, length_s, doing, self._begin_ns)
        total = total_of((self._closed, ledger.total))
        if len(ledger.epochs) > 2 * _KEPT:
            self._close(ledger, newer)
        return total, ledger.newest_whole

    def _close(self, ledger: Ledger, newer: Sequence[Event]) -> None:
        old = ledger.epochs[:-_KEPT]
        self._closed = total_of((self._closed, ledger.start, *old))
        self._begin_ns = ledger.begins_ns[-_KEPT]
        self._rows += sum(entry.steps > 0 for entry in old)
        self._events += next((at for at, event in enumerate(newer) if event.at_ns >= self._begin_ns), len(newer))
