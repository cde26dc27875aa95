"""What is asked now and in effect only once an epoch begins: another shuffle, a cache that serves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core.events import SwitchMissed
from tfwatch.core.knobs import epochs_until, show
from tfwatch.core.refusals import Refusal
from tfwatch.training.store import NoRoomError

if TYPE_CHECKING:
    from tfwatch.core.events import SwitchAsked
    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.control import Request
    from tfwatch.training.session import Session


class Later:
    """The requests of one training that wait for an epoch, its source's shuffle and its pipeline's cache."""

    def __init__(self, session: Session) -> None:
        self._control, self._shuffle, self._store = session.control, session.shuffle, session.store
        self._writer = session.writer
        self._waiting: dict[str, SwitchAsked] = {}
        self._begun = 0

    def state(self) -> object:
        """What a build goes by beside the knobs."""
        return self._store and self._store.state

    def refusal(self, request: Request) -> str:
        """Why a request cannot be obeyed; empty where it can. A cache that is asked for is opened."""
        if request.knob == "shuffle" and self._shuffle is None:
            return Refusal.OWN_SHUFFLE.words
        if request.knob == "cache" and request.value:
            return self._open()
        return ""

    def _open(self) -> str:
        if self._store is None:
            return Refusal.NOTHING_TO_CACHE.words
        try:
            self._store.open()
        except NoRoomError as error:
            return str(error)
        return ""

    def taken_back(self, request: Request) -> list[tuple[str, str, str]]:
        """What a request takes back that is not in effect yet: (knob, value, the same value)."""
        waiting = self._waiting.get(request.knob)
        back = waiting and show(request.value) == waiting.old
        return [(request.knob, waiting.old, waiting.old)] if waiting and back else []

    def keeps(self, asked: SwitchAsked, turned: Knobs) -> bool:
        """Whether a request waits for an epoch; `turned`: the knobs that it asks for."""
        self._waiting.pop(asked.knob, None)
        if epochs_until(asked.knob, asked.new) == 0:
            return False
        waits = asked.new != asked.old
        if waits:
            self._waiting[asked.knob] = asked
        if asked.knob == "shuffle":
            self._control.shuffle = turned.shuffle if waits else None
        elif waits:
            self._begun = 0
        return True

    def begin_epoch(self, knobs: Knobs) -> tuple[Knobs, list[SwitchAsked]]:
        """An epoch begins: its knobs, and the requests that are in effect with it."""
        effective = []
        if (buffer := self._control.shuffle) is not None:
            effective.append(self._waiting.pop("shuffle"))
            knobs, self._control.shuffle = replace(knobs, shuffle=buffer), None
        if self._shuffle is not None:
            self._shuffle.set(knobs.shuffle)
        if "cache" in self._waiting and self._store is not None:
            self._begun += 1
            if self._store.is_settled or self._begun >= epochs_until("cache", "on"):
                effective.append(self._waiting.pop("cache"))
        return knobs, effective

    def switched(self, knobs: Knobs) -> None:
        """The pipeline before the one of `knobs` has ended: a cache that is off is forgotten."""
        if self._store is not None and self._store.is_open and not knobs.cache:
            self._store.close()

    def failed(self, knobs: Knobs) -> list[SwitchAsked]:
        """A pipeline could not be built, and that of `knobs` goes on: the request for a cache, where it was one."""
        self.switched(knobs)
        waits = "cache" in self._waiting and not knobs.cache
        return [self._waiting.pop("cache")] if waits else []

    def close(self) -> None:
        """The training is over."""
        for asked in self._waiting.values():
            missed = SwitchMissed(self._writer.now_ns(), asked.knob, asked.old, asked.new, asked.step)
            self._writer.event(missed)
        if self._store is not None:
            self._store.close()
