"""The switches that take effect with an epoch: a shuffle, a cache, and the workers of some scripts' pipelines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.core.events import SwitchAsked, SwitchMissed
from tfwatch.core.knobs import PY_DATASET_KNOBS, as_value, epochs_until, show
from tfwatch.core.refusals import Refusal
from tfwatch.tfdata.cache import NoRoomError

if TYPE_CHECKING:
    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.control.requests import Request
    from tfwatch.watch.fit.script_pipeline import ScriptPipeline
    from tfwatch.watch.session import Session


class DeferredSwitches:
    """The switches that take effect with an epoch."""

    def __init__(self, session: Session, script: ScriptPipeline) -> None:
        self._control, self._shuffle, self._store = session.control, session.shuffle, session.store
        self._script = None if session.source is not None else script
        self._py_dataset = session.py_dataset
        self._writer = session.writer
        self._waiting: dict[str, SwitchAsked] = {}
        self._epochs_begun = 0

    def state(self) -> object:
        """Return what a build depends on beside the knobs."""
        return self._store and self._store.state

    def refusal(self, request: Request) -> str:
        """Return the reason to refuse a request, empty if there is none. Opens a cache that is requested."""
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

    def cancelled_by(self, request: Request) -> list[tuple[str, str, str]]:
        """Return the deferred switch that a request cancels: (knob, value, the same value)."""
        waiting = self._waiting.get(request.knob)
        is_cancelled = waiting and show(request.value) == waiting.old
        return [(request.knob, waiting.old, waiting.old)] if waiting and is_cancelled else []

    def defer(self, asked: SwitchAsked, turned: Knobs) -> bool:
        """Defer a switch to an epoch, and return whether that is needed. turned: the knobs after the switch."""
        self._waiting.pop(asked.knob, None)
        if self.epochs_until(asked.knob, asked.new) == 0:
            return False
        waits = asked.new != asked.old
        if waits:
            self._waiting[asked.knob] = asked
        if asked.knob == "shuffle":
            self._control.shuffle = turned.shuffle if waits else None
        elif waits:
            self._epochs_begun = 0
        return True

    def epochs_until(self, knob: str, value: str) -> int:
        """Return the number of epochs that must begin before a setting is in effect; 0: the next batch."""
        return epochs_until(knob, value) or int(self._waits_for_epoch(knob))

    def _waits_for_epoch(self, knob: str) -> bool:
        """Return whether a knob of a script's own pipeline takes effect with an epoch."""
        if self._py_dataset is not None:
            return knob in PY_DATASET_KNOBS
        return self._script is not None and knob == "workers" and self._script.waits_for_epoch

    def without_deferred(self, turned: Knobs, now: Knobs) -> Knobs:
        """Return the knobs after a switch, without what takes effect with an epoch: its order never changes."""
        kept = {knob: getattr(now, knob) for knob in PY_DATASET_KNOBS if knob in self._waiting}
        return replace(turned, shuffle=now.shuffle, **kept)

    @property
    def waits(self) -> bool:
        """True while a switch waits for the next epoch of a script's own pipeline."""
        return any(knob in self._waiting for knob in PY_DATASET_KNOBS)

    def with_waiting(self, knobs: Knobs) -> Knobs:
        """Return the knobs of a script's own pipeline in its next epoch."""
        for knob in PY_DATASET_KNOBS:
            if asked := self._waiting.get(knob):
                knobs = knobs.with_value(knob, as_value(knob, asked.new))
        return knobs

    def begin_script_epoch(self, knobs: Knobs) -> tuple[Knobs, list[SwitchAsked]]:
        """Begin an epoch of a script's own pipeline; return its knobs, and the switches that take effect with it."""
        knobs = self.with_waiting(knobs)
        return knobs, [self._waiting.pop(knob) for knob in PY_DATASET_KNOBS if knob in self._waiting]

    def begin_epoch(self, knobs: Knobs) -> tuple[Knobs, list[SwitchAsked]]:
        """Begin an epoch; return its knobs, and the switches that take effect with it."""
        effective = []
        if (buffer := self._control.shuffle) is not None:
            effective.append(self._waiting.pop("shuffle"))
            knobs, self._control.shuffle = replace(knobs, shuffle=buffer), None
        if self._shuffle is not None:
            self._shuffle.set(knobs.shuffle)
        if "cache" in self._waiting and self._store is not None:
            self._epochs_begun += 1
            if self._store.is_settled or self._epochs_begun >= epochs_until("cache", "on"):
                effective.append(self._waiting.pop("cache"))
        return knobs, effective

    def close_unused_cache(self, knobs: Knobs) -> None:
        """Close the cache if the pipeline of `knobs`, which has taken over, does not use it."""
        if self._store is not None and self._store.is_open and not knobs.cache:
            self._store.close()

    def cancel_cache(self, knobs: Knobs) -> list[SwitchAsked]:
        """Return the switch to a cache whose pipeline could not be built; the pipeline of `knobs` continues."""
        self.close_unused_cache(knobs)
        waits = "cache" in self._waiting and not knobs.cache
        return [self._waiting.pop("cache")] if waits else []

    def close(self) -> None:
        """End with the training."""
        for asked in self._waiting.values():
            missed = SwitchMissed(self._writer.now_ns(), asked.knob, asked.old, asked.new, asked.step)
            self._writer.event(missed)
        if self._store is not None:
            self._store.close()
