"""A tf.data service that another program runs, as this training sees it: its workers, and those that do not respond."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from tfwatch.tfdata.feed.figures import responding
from tfwatch.tfdata.feed.processes import LOCAL, FeedError, find_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A worker or dispatcher is lost with the second connection in a row that is refused, or not accepted within a second.
_LOST_AFTER = 2
#: The dispatcher is asked for new workers with every look of so many: that takes a Python of its own.
_ASKS_EACH = 30


@dataclass
class RemoteFeed:
    """The service behind a dispatcher's HOST:PORT. Its own program starts lost processes again; this only looks."""

    address: str
    workers: list[str]
    _looks: int = 0
    _refused: dict[str, int] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)
    _processes: dict[str, int | None] = field(default_factory=dict)

    @property
    def can_serve(self) -> bool:
        """True: a process that is lost may come back."""
        return True

    @property
    def members(self) -> dict[str, int | None]:
        """The workers by HOST:PORT, each with its process where that is found on this machine."""
        for address in self.workers:
            if address not in self._processes:
                self._processes[address] = _find_process(address)
        return {address: self._processes[address] for address in self.workers}

    @property
    def lost(self) -> frozenset[str]:
        """The addresses that do not respond."""
        return frozenset(self._reported)

    def newly_lost(self) -> list[str]:
        """Look at all; return a sentence for each that no longer responds."""
        self._looks += 1
        if self._looks % _ASKS_EACH == 0:
            self._find_new_workers()
        addresses = [self.address, *self.workers]
        for address, responds in zip(addresses, responding(addresses), strict=True):
            self._refused[address] = 0 if responds else self._refused.get(address, 0) + 1
        lost = [
            one
            for one in addresses
            if self._refused[one] >= _LOST_AFTER and one not in self._reported
        ]
        self._reported.update(lost)
        return [self._loss(one) for one in lost]

    def _find_new_workers(self) -> None:
        with suppress(FeedError):
            self.workers += [one for one in find_workers(self.address) if one not in self.workers]

    def stop(self) -> None:
        """Leave the service as it is: its own program ends it."""

    def _loss(self, address: str) -> str:
        if address == self.address:
            return f"feed: the dispatcher at {address} does not respond; the training waits for it where it needs it"
        left = f"{len(self.workers) - len(self._reported - {self.address})} of {len(self.workers)} left"
        return f"feed: the worker at {address} does not respond, {left}; the training waits for its elements"

    def restart_lost(self) -> Iterator[str]:
        """Yield a sentence for each that responds again."""
        for address in sorted(self._reported):
            if not self._refused[address]:
                self._reported.discard(address)
                self._processes.pop(address, None)
                who = "dispatcher" if address == self.address else "worker"
                yield f"feed: the {who} at {address} responds again"


def _find_process(address: str) -> int | None:
    """Return the process of this machine and user that listens there; None where there is none."""
    host, _, port = address.rpartition(":")
    if host != LOCAL:
        return None
    with suppress(psutil.Error, OSError):
        found = psutil.net_connections("tcp")
        listens = (
            one.pid
            for one in found
            if one.status == psutil.CONN_LISTEN and one.laddr.port == int(port)
        )
        return next(listens, None)
    return None
