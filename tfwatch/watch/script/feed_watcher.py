"""Looks after the tf.data service of a training: names lost processes, has them started again, records its figures."""

from __future__ import annotations

import threading
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import fails_open, warn_user
from tfwatch.core.events import FeedFound
from tfwatch.tfdata.feed.figures import FigureReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.feed.processes import LocalFeed
    from tfwatch.tfdata.feed.remote import RemoteFeed

    Service: TypeAlias = LocalFeed | RemoteFeed

_LOOK_S = 1.0
_ELSEWHERE = "its process is not one of this machine"


class FeedWatcher:
    """One service. find_writer: returns the writer of the run that trains; None while none does."""

    def __init__(self, service: Service, find_writer: Callable[[], RunWriter | None]) -> None:
        self._service = service
        self._find_writer = find_writer
        self._figures = FigureReader()
        self._described: tuple[RunWriter | None, list[str]] = (None, [])

    def start(self) -> None:
        """Watch in a thread of its own."""
        threading.Thread(target=self._run, name="tfwatch-feed", daemon=True).start()

    def _run(self) -> None:
        with fails_open(lambda why: warn_user(f"the feed is no longer watched: {why}")):
            while self._service.can_serve:
                threading.Event().wait(_LOOK_S)
                self.look()

    def look(self) -> None:
        """Name what is lost, record the figures, start again what can be."""
        sentences = self._service.newly_lost()
        self._record()
        for sentence in chain(sentences, self._service.restart_lost()):
            warn_user(sentence)
            if writer := self._find_writer():
                writer.note(sentence)

    def _record(self) -> None:
        service, writer = self._service, self._find_writer()
        members, lost = service.members, service.lost
        figures = self._figures.read(members, SYSTEM.now_ns() / 1e9)
        if writer is None:
            return
        if self._described != (writer, list(members)):
            self._described = writer, list(members)
            writer.event(
                FeedFound(writer.now_ns(), service.address, list(members), self._missing(members))
            )
        for n, (address, one) in enumerate(zip(members, figures, strict=True)):
            who = (address in lost) + 2 * (service.address in lost)
            writer.feed(writer.now_ns(), n, who, one.cores, one.bytes_s)

    def _missing(self, members: dict[str, int | None]) -> dict[str, str]:
        elsewhere = {"cores": _ELSEWHERE} if None in members.values() else {}
        return {**self._figures.missing, **elsewhere}
