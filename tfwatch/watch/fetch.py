"""Where the next batch comes from, and the switches that are carried out on the way.

Where the next batch comes from, and the switches asked on the way.

What is asked now and in effect only once an epoch begins: another shuffle, a cache that serves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed, SwitchMissed
from tfwatch.core.knobs import epochs_until, show
from tfwatch.core.refusals import Refusal
from tfwatch.core.rows import Flag
from tfwatch.runs.control import Request
from tfwatch.tfdata.batches import Shape, Tap, bytes_of
from tfwatch.tfdata.cache import NoRoomError
from tfwatch.tfdata.disposal import let_go
from tfwatch.tfdata.live_switch import Feed
from tfwatch.tfdata.stage_model import Filling
from tfwatch.tfdata.stage_reader import StageReader
from tfwatch.tfdata.work_ahead import buffer_size

if TYPE_CHECKING:
    from tfwatch.core.knobs import Knobs
    from tfwatch.watch.session import Session

_SWITCH, _SHUFFLE_FILL = int(Flag.SWITCH), int(Flag.SHUFFLE_FILL)


class Fetch:
    """Gives batches: from Keras' own iterator as long as nothing was asked, else through a `Feed`.

    flags: of the step whose batch came last.
    """

    def __init__(self, session: Session) -> None:
        self.flags = 0
        self._session = session
        self._writer = session.writer
        self._control = session.control
        self._own = session.source is not None
        self._through_feed = self._own
        self._iterator: Any = None
        self._tap: Any = None
        self._filling = Filling(None)
        self._asked: list[SwitchAsked] = []
        self._later = Later(session)
        self._feed = Feed(session.build, self._later.state)
        self._build_ms = 0.0
        self._weighed = False
        self._schedule = sorted(session.switches, key=lambda scheduled: scheduled.step)
        self._stages = StageReader(self._writer, self.iterators)
        self._stages.start()

    def begin_epoch(self, steps: int) -> None:
        """An epoch begins after `steps` steps: with a source of tfwatch's own, make its iterator and pipeline."""
        if self._session.source is not None:
            knobs, begun = self._later.begin_epoch(self._accept(steps))
            self._asked += begun
            self._control.knobs = knobs
            start_ns = self._writer.now_ns()
            self._feed.start(iter(self._session.source), knobs)
            self._build_ms = (self._writer.now_ns() - start_ns) / 1e6

    def adopt(self, iterator: Any) -> Shape:
        """Keras made another iterator: where prefetch was asked for, it goes through the feed from the start.

        Returns the shape of the batches to come.
        """
        self._iterator = iterator
        self._filling = Filling(iterator)
        if self._own:
            return self._feed.shape
        self._through_feed = buffer_size(self._control.knobs.prefetch) is not None and not why_not_gated(iterator)
        if self._through_feed:
            self._feed.start(iterator, self._control.knobs)
        else:
            self._feed.close()
        tap, old = Tap(iterator), [self._tap]
        self._tap = tap
        let_go(old, [], [])
        return tap.shape

    def like(self, iterator: Any) -> Any:
        """An iterator whose batches look like those to come, before Keras' new one is adopted."""
        return self._feed.iterator if self._own else iterator

    def next(self, steps: int) -> Any:
        """The batch after `steps` steps.

        Raises:
            StopIteration: the data is exhausted.
        """
        self._obey(steps)
        batch = self._feed.get() if self._through_feed else self._tap.next()
        if not self._weighed:
            self._weigh(batch)
        if self._asked and not self._feed.switching:
            self._tell_switched(steps + 1)
        return batch

    def _weigh(self, batch: Any) -> None:
        self._weighed = True
        try:
            size = bytes_of(batch)
        except Exception:  # noqa: BLE001  the batch is the user's, of any kind, and its parts may raise anything
            size = None
        if size is None:
            self._writer.note("a batch's size is not known, nor what buffers take: it holds more than plain numbers")
        self._writer.describe(batch_bytes=size)

    def late(self, wait_ns: float) -> None:
        """The last batch was waited for so long: say by a flag what for, where it is known."""
        with fails_open(self._without_filling):
            if self._filling.explains(wait_ns):
                self.flags |= _SHUFFLE_FILL

    def _without_filling(self, why: str) -> None:
        self._filling = Filling(None)
        self._writer.note(f"whether a wait filled a shuffle buffer is not known: {why}")

    def source(self, steps: int) -> Any:
        """The iterator to fetch from after `steps` steps, for who does it by himself: see `arrived`, `successor`."""
        self._obey(steps)
        return self._feed.iterator if self._through_feed else self._iterator

    def arrived(self, step: int) -> None:
        """The first batch of the last `source` or `successor` was that of `step`."""
        if self._asked and not self._feed.switching:
            self._tell_switched(step)

    def successor(self) -> Any:
        """The iterator that goes on where the last one has ended; None where the data is exhausted."""
        self.flags = 0
        if not self._through_feed or not self._feed.goes_on:
            return None
        self._feed.take_over()
        return self._feed.iterator

    def iterators(self) -> tuple[Any, Any]:
        """The source below the gate, None without one, and the iterator that gives the batches, for who looks on.

        For any thread: both are None between two epochs.
        """
        if not self._through_feed:
            return None, self._iterator
        source, batches = self._feed.source, self._feed.iterator
        return (source, batches) if source is not None else (None, None)

    def close(self) -> None:
        """The training is over."""
        self._stages.stop()
        self._tell_missed()
        old = [self._tap]
        self._iterator = self._tap = None
        let_go(old, [], [])
        self._feed.close()
        self._later.close()

    def _tell_missed(self) -> None:
        """What was ordered of steps that did not come."""
        knobs = self._control.knobs
        for due in self._schedule:
            turned = knobs.turned(due.knob, due.value)
            for knob, old, new in knobs.differences(turned):
                self._writer.event(SwitchMissed(self._writer.now_ns(), knob, old, new, due.step))
            knobs = turned

    # -- switches ---------------------------------------------------------------------------------

    def _obey(self, steps: int) -> None:
        self.flags = 0
        while self._schedule and self._schedule[0].step <= steps:
            scheduled = self._schedule.pop(0)
            self._control.ask(Request(scheduled.knob, scheduled.value, "command"))
        if self._control.pending and not self._feed.switching:
            self._switch(self._accept(steps))

    def _accept(self, steps: int) -> Knobs:
        """Take what was asked; returns the knobs that result."""
        knobs = self._control.knobs
        for request in self._control.take():
            refusal = self._refusal(request)
            now = self._writer.now_ns()
            if refusal:
                self._writer.event(SwitchFailed(now, request.knob, refusal))
                continue
            turned = knobs.turned(request.knob, request.value)
            for name, old, new in self._later.taken_back(request) or knobs.differences(turned):
                asked = SwitchAsked(now, name, old, new, steps, request.by)
                self._writer.event(asked)
                if not self._later.keeps(asked, turned):
                    self._asked.append(asked)
            knobs = replace(turned, shuffle=knobs.shuffle)  # the order of an epoch is a promise
        return knobs

    def _refusal(self, request: Request) -> str:
        if self._own:
            return self._later.refusal(request)
        if request.knob != "prefetch":
            return Refusal.NOT_OURS.words
        refused = why_not_gated(self._iterator)
        return refused.words if refused else ""

    def refuse(self) -> None:
        """Refuse what was asked: the batches go past this, straight from Keras' iterator."""
        if self._control.pending:
            for request in self._control.take():
                self._writer.event(SwitchFailed(self._writer.now_ns(), request.knob, Refusal.NOT_SPLIT.words))

    def _switch(self, knobs: Knobs) -> None:
        if knobs == self._control.knobs:
            return
        start_ns = self._writer.now_ns()
        self.flags = _SWITCH
        # The pipeline may be built by the user's code: where it or tf.data refuses, the pipeline that runs goes on.
        with fails_open(self._refuse):
            if self._through_feed:
                self._feed.switch(knobs)
            else:
                self._feed.start(self._iterator, knobs)
            self._through_feed = True
            self._control.knobs = knobs
            self._build_ms = (self._writer.now_ns() - start_ns) / 1e6

    def _refuse(self, reason: str) -> None:
        for asked in [*self._asked, *self._later.failed(self._control.knobs)]:
            self._writer.event(SwitchFailed(self._writer.now_ns(), asked.knob, reason))
        self._asked.clear()

    def _tell_switched(self, step: int) -> None:
        now = self._writer.now_ns()
        self.flags = _SWITCH
        for asked in self._asked:
            if asked.new != asked.old:  # a cache taken back while it fills was never in effect: nothing was switched
                self._writer.event(
                    PipelineSwitched(now, asked.knob, asked.old, asked.new, asked.step, step, self._build_ms, asked.by)
                )
        self._asked.clear()
        self._later.switched(self._control.knobs)
        # Without prefetch the gate only costs: nothing is buffered, so Keras' iterator goes on where it stands.
        if not self._own and buffer_size(self._control.knobs.prefetch) is None:
            self._through_feed = False


def why_not_gated(iterator: Any) -> Refusal | None:
    """Why no pipeline can stand on an iterator of the script's own; None where one can."""
    if not isinstance(iterator, tf.data.Iterator):
        return Refusal.SPREAD
    device = getattr(getattr(iterator, "_iterator_resource", None), "device", None) or "CPU"
    # tf.data works in host memory: a gate over batches in a GPU's made training hang or crash.
    return None if "CPU" in device.upper() else Refusal.ON_DEVICE


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
