"""The switches that take effect later than with the next batch.

With an epoch: a cache, and the workers of some scripts' pipelines. Late in an epoch: the first
switch of a script's pipeline, once another iterator has caught up with the training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import SwitchAsked, SwitchMissed
from tfwatch.core.knobs import CACHE, OFF, WORKERS, Refusal, epochs_until
from tfwatch.tfdata.cache import NoRoomError

if TYPE_CHECKING:
    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.requests import SwitchRequest
    from tfwatch.tfdata.cache import ExampleStore
    from tfwatch.tfdata.replay import Replay
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline
    from tfwatch.watch.session import Session


@dataclass(frozen=True, slots=True)
class LateSwitch:
    """A switch to `knobs` once a replay of the epoch's batches has caught up with the training."""

    replay: Replay
    knobs: Knobs


def waiting_note(batches: int) -> str:
    """Return the sentence that says why a switch does not take effect with the next batch."""
    return (
        f"the switch takes effect once {units.count(batches)} batches of this epoch are read again"
    )


class DeferredSwitches:
    """The switches that take effect with an epoch."""

    def __init__(self, session: Session, script: ScriptPipeline) -> None:
        self._script = script
        self._py_dataset = session.py_dataset
        self._writer = session.writer
        self._waiting: dict[str, SwitchAsked] = {}
        self._epochs_begun = 0

    @property
    def _store(self) -> ExampleStore | None:
        return self._script.store

    def refusal(self, request: SwitchRequest) -> str:
        """Return the reason to refuse a request, empty if there is none. Opens a cache that is
        requested."""
        return self._open() if request.knob == CACHE and request.value else ""

    def _open(self) -> str:
        if self._store is None:
            return Refusal.NOTHING_TO_CACHE.words
        self._store.notify = self._writer.note
        try:
            self._store.open()
        except NoRoomError as error:
            return str(error)
        return ""

    def cancelled_by(self, request: SwitchRequest) -> list[tuple[str, str, str]]:
        """Return the deferred switch that a request cancels: (knob, value, the same value)."""
        waiting = self._waiting.get(request.knob)
        is_cancelled = waiting and request.value == waiting.old
        return [(request.knob, waiting.old, waiting.old)] if waiting and is_cancelled else []

    def defer(self, asked: SwitchAsked) -> bool:
        """Defer a switch to an epoch, and return whether that is needed."""
        self._waiting.pop(asked.knob, None)
        if self.epochs_until(asked.knob, asked.new) == 0:
            return False
        waits = asked.new != asked.old
        if waits:
            self._waiting[asked.knob] = asked
        if waits and asked.knob == CACHE:
            self._epochs_begun = 0
        return True

    def epochs_until(self, knob: str, value: str) -> int:
        """Return the number of epochs that must begin before a setting is in effect; 0: the next
        batch."""
        workers_wait = self._py_dataset is not None or self._script.workers_from_epoch
        return int(knob == WORKERS and workers_wait) or epochs_until(knob, value)

    def without_deferred(self, turned: Knobs, now: Knobs) -> Knobs:
        """Return the knobs after a switch, without what takes effect with an epoch: its order never
        changes."""
        kept = {knob: getattr(now, knob) for knob in self._waiting}
        return replace(turned, **kept)

    @property
    def waits(self) -> bool:
        """True while a switch waits for the next epoch of a script's own pipeline."""
        return bool(self._waiting)

    def with_waiting(self, knobs: Knobs) -> Knobs:
        """Return the knobs of a script's own pipeline in its next epoch."""
        for knob in self._waiting:
            knobs = knobs.with_value(knob, self._waiting[knob].new)
        return knobs

    def begin_script_epoch(self, knobs: Knobs) -> tuple[Knobs, list[SwitchAsked]]:
        """Begin an epoch of a script's own pipeline; return its knobs, and the switches that take
        effect with it."""
        knobs = self.with_waiting(knobs)
        self._close_cache_without(knobs)
        begun = [knob for knob in self._waiting if knob != CACHE or self._has_filled(knobs)]
        return knobs, [self._waiting.pop(knob) for knob in begun]

    def _has_filled(self, knobs: Knobs) -> bool:
        """Return whether a switch of the cache takes effect with the epoch that begins: on, it
        fills in one before."""
        self._epochs_begun += 1
        is_settled = self._store is not None and self._store.is_settled
        return knobs.cache == OFF or is_settled or self._epochs_begun >= epochs_until(CACHE, "on")

    def close_unused_cache(self, knobs: Knobs) -> None:
        """Close the cache if the pipeline of `knobs`, which has taken over, does not use it.

        The source of a script's own pipeline may read it until its epoch ends, whatever the knobs
        are.
        """
        if not self._script.reads_cache:
            self._close_cache_without(knobs)

    def _close_cache_without(self, knobs: Knobs) -> None:
        waits = CACHE in self._waiting
        if self._store is not None and self._store.is_open and knobs.cache == OFF and not waits:
            self._store.close()

    def cancel_cache(self, knobs: Knobs) -> list[SwitchAsked]:
        """Return the switch to a cache whose pipeline could not be built; the pipeline of `knobs`
        continues."""
        waits = CACHE in self._waiting and knobs.cache == OFF
        cancelled = [self._waiting.pop(CACHE)] if waits else []
        self.close_unused_cache(knobs)
        return cancelled

    def close(self) -> None:
        """End with the training."""
        for asked in self._waiting.values():
            missed = SwitchMissed(
                self._writer.now_ns(), asked.knob, asked.old, asked.new, asked.step
            )
            self._writer.event(missed)
        if self._store is not None:
            self._store.close()
