"""The requested switches of a `fit`'s pipeline: taken before a batch, refused or carried out, and
reported.

Most take effect after the buffered batches. A cache, and the workers of some pipelines, take effect
with an epoch. The first switch of a script's pipeline takes effect late in an epoch, once another
iterator has caught up with the training.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfwatch.core import units
from tfwatch.core.errors import fails_open, raise_interrupt, reason
from tfwatch.core.events import PipelineSwitched, RandomDrawsAllowed, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import (
    CACHE,
    COPY_KNOBS,
    DEFAULT,
    DEVICE_PREFETCH,
    MULTIPROCESSING,
    OFF,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
    NotTimed,
    Refusal,
    epochs_until,
    option_name,
)
from tfwatch.tfdata.pipeline_tree import CannotRebuildError
from tfwatch.tfdata.stage_names import dataset_of
from tfwatch.tfdata.work_ahead import ends_in_pinned_memory, first_on_device
from tfwatch.watch.fit.stepping.batch_step import Placement
from tfwatch.watch.fit.stepping.device_copy import why_no_device_prefetch
from tfwatch.watch.fit.stepping.instances import BesideTraining
from tfwatch.watch.fit.switching.current_pipeline import CurrentPipeline
from tfwatch.watch.fit.switching.script_pipeline import (
    ScriptPipeline,
    written_prefetch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.requests import SwitchRequest
    from tfwatch.tfdata.replay import Replay
    from tfwatch.watch.session import Session

_RUN_ENDED = "the run ended before it was in effect"
_BUILDS = "the switch takes effect once TensorFlow has built the step for batches on the GPU"


class RequestedSwitches:
    """The switches of a `fit`, in the thread that trains.

    current: where the batches come from. script: the script's own pipeline, as it was read.
    requested: carried out, and reported with the first batch of their pipeline.
    placement: of the batches of the step.
    note_failure: notes that a part of the record is missing.
    on_rebuilt: called with the source of a rebuilt pipeline once its batches are those that train.
    """

    def __init__(
        self,
        session: Session,
        on_rebuilt: Callable[[Any], None],
        note_failure: Callable[[str], None],
    ) -> None:
        self.placement = Placement()
        self.script = ScriptPipeline()
        self._on_rebuilt, self._note_failure = on_rebuilt, note_failure
        self._writer, self._control = session.writer, session.control
        self._py_dataset = session.py_dataset
        self.script.written = session.control.written
        self.script.random_draws = session.control.random_draws
        if self._py_dataset is not None and session.control.random_draws:
            self._py_dataset.allow_random_draws()
        self.current = CurrentPipeline(self.script, note_failure)
        self.requested: list[SwitchAsked] = []
        #: Those that take effect with an epoch, or once the step is built for them, by their knob.
        self._deferred: dict[str, SwitchAsked] = {}
        #: The epochs of a cache that fills.
        self._cache_epochs = 0
        #: A replay of the epoch's batches that has to catch up with the training before the switch
        #: to these knobs.
        self._late: tuple[Replay, Knobs] | None = None
        self._build_ms = 0.0

    # -- the epochs -------------------------------------------------------------------------------

    def begin_epoch(self, steps: int) -> None:
        """Begin an epoch after `steps` steps, before Keras makes its iterator: the settings of a
        `PyDataset` take effect with it."""
        if self._py_dataset is None or self.current.keras is None:
            return
        with fails_open(self._refuse):
            knobs, begun = self._take_deferred(self._accept(steps))
            self.requested += begun
            start_ns = self._writer.now_ns()
            if any(asked.knob in PY_DATASET_KNOBS for asked in begun):
                self._py_dataset.apply(knobs)
                own = {knob: getattr(knobs, knob) for knob in PY_DATASET_KNOBS}
                self._control.written = replace(self._control.written, **own)
            self._control.knobs = knobs
            self._note_built(start_ns)

    def begin_iterator(self, iterator: Any, *, is_new: bool) -> None:
        """Begin to fetch from an iterator of Keras', rebuilt or with stages above it if the knobs
        ask for it."""
        if is_new:
            if not self.current.refusal:
                self.script.note_order(iterator)
            with fails_open(self._note_failure):
                self._read_written(iterator)
        was_late = is_new and self._late is not None
        if not (is_new and self._begin_rebuilt(iterator)):
            if was_late and self.requested:
                refused = self.current.refusal
                self._refuse(refused.words if refused else self.script.why_not)
            self.current.start_as_written(self._control.knobs)
        self.current.open_direct()

    def _read_written(self, iterator: Any) -> None:
        """Read whether the script's pipeline prefetches; a knob that nobody switched says so."""
        was = self._control.written
        prefetch = DEFAULT if self.current.refusal else written_prefetch(iterator)
        self._control.written = self.script.written = replace(was, prefetch=prefetch)
        knobs = self._control.knobs
        if knobs.prefetch != was.prefetch or knobs.prefetch == prefetch:
            return
        self._control.knobs = replace(knobs, prefetch=prefetch)
        if step := self._writer.status[2]:
            self._note_by_data(PREFETCH, knobs.prefetch, prefetch, step)
        else:
            begun = self._writer.manifest().knobs
            self._writer.describe(knobs={**begun, PREFETCH: prefetch})

    def _begin_rebuilt(self, iterator: Any) -> bool:
        """Begin an epoch with the rebuilt pipeline if the knobs ask for it; return whether it
        began."""
        knobs, begun = self._take_deferred(self._leave_late())
        is_own = replace(knobs, device_prefetch=OFF, pinned=OFF) == self.script.written
        if (is_own and not begun) or self.current.refusal:
            return False
        self.script.read(iterator)
        self.requested += begun
        if self.script.needs_rebuild(knobs):
            with fails_open(self._refuse):
                self._start_rebuilt(knobs, 0)
                return True
        elif begun and any(asked.knob == WORKERS for asked in begun) and self.script.why_not:
            self._refuse(self.script.why_not)
        elif begun:
            self._control.knobs = knobs
        for knob in self._return_to_written((WORKERS, CACHE), self._writer.status[2]):
            if why := self.script.why_not_again(knob):
                self._writer.note(f"{option_name(knob)} as the script has it in this epoch: {why}")
        return False

    def _return_to_written(self, names: Iterable[str], step: int) -> list[str]:
        """Record that these knobs are as in the script after so many steps; return those that were
        not."""
        written = {name: getattr(self.script.written, name) for name in names}
        kept = replace(self._control.knobs, **written)
        changes = list(self._control.knobs.differences(kept))
        for name, old, new in changes:
            self._note_by_data(name, old, new, step)
        self._control.knobs = kept
        return [name for name, _, _ in changes]

    def _note_by_data(self, knob: str, old: str, new: str, step: int) -> None:
        """Record a switch that the script's data set makes, after so many steps."""
        now_ns = self._writer.now_ns()
        self._writer.event(PipelineSwitched(now_ns, knob, old, new, step, step + 1, 0.0, "data"))

    def _take_deferred(self, knobs: Knobs) -> tuple[Knobs, list[SwitchAsked]]:
        """Begin an epoch: return its knobs, and the deferred switches that take effect with it."""
        due = [asked for asked in self._deferred.values() if asked.knob != DEVICE_PREFETCH]
        for asked in due:
            knobs = knobs.with_value(asked.knob, asked.new)
        self._close_cache_without(knobs)
        begun = [one.knob for one in due if one.knob != CACHE or self._has_filled(knobs)]
        return knobs, [self._deferred.pop(knob) for knob in begun]

    def _has_filled(self, knobs: Knobs) -> bool:
        """Return whether a switch of the cache takes effect with the epoch that begins: on, it
        fills in one before."""
        self._cache_epochs += 1
        store = self.script.store
        is_settled = store is not None and store.is_settled
        return knobs.cache == OFF or is_settled or self._cache_epochs >= epochs_until(CACHE, "on")

    def _close_cache_without(self, knobs: Knobs) -> None:
        """Close a cache that the pipeline of these knobs does not use."""
        if knobs.cache == OFF and CACHE not in self._deferred:
            self.script.close_cache()

    # -- before a batch ---------------------------------------------------------------------------

    def apply(self, steps: int) -> bool:
        """Carry out what is requested and due after `steps` steps; return whether the next batch is
        that of a switch.

        The user's code may build the pipeline: if it or tf.data raises, the current pipeline
        continues.
        """
        if self._control.planned:
            self._control.release(steps)
        if self._late is not None:
            return self._follow(*self._late, self.current.batches_given(steps))
        is_asked = self._control.has_requests or DEVICE_PREFETCH in self._deferred
        if not is_asked or self.current.pipeline.is_switching:
            return False
        with fails_open(self._refuse):
            knobs = self._take_built(self._accept(steps))
            if knobs == self._control.knobs:
                return False
            with fails_open(self._refuse):
                self._switch(knobs, self.current.batches_given(steps))
            return True
        return False

    def _take_built(self, knobs: Knobs) -> Knobs:
        """Return the knobs with the deferred prefetch to the device, once TensorFlow has built what
        its first batch needs. One that cannot be built is refused."""
        asked = self._deferred.get(DEVICE_PREFETCH)
        if asked is None or not self._is_built():
            return knobs
        del self._deferred[DEVICE_PREFETCH]
        if (ahead := self.placement.ahead) is not None and ahead.failure:
            why = f"the step cannot be built for batches on the GPU: {ahead.failure}"
            self._note_failed(asked.knob, asked.old, asked.new, asked.step, why)
            return knobs
        self.requested.append(asked)
        return knobs.with_value(asked.knob, asked.new)

    def _is_built(self) -> bool:
        """Return whether it is built, or cannot be; begin to build it beside the training."""
        placement = self.placement
        step, flat = placement.step(), self.current.spec.flat
        if step is None or flat is None:
            return True
        if not step.is_ready:
            return False
        if placement.ahead is None:
            placement.ahead = BesideTraining(lambda: step.build(first_on_device(flat)))
            self._writer.note(_BUILDS)
        return placement.ahead.is_over()

    def _switch(self, knobs: Knobs, batches: int) -> None:
        """Switch to the knobs after so many batches: at once, or when another iterator has caught
        up."""
        if not self.script.needs_rebuild(knobs) or self.script.is_rebuilt:
            start_ns = self._writer.now_ns()
            self.current.switch(knobs)
            self._control.knobs = knobs
            self._note_built(start_ns)
        elif self.script.is_far(batches):
            self._late = self.script.replay(self.current.keras, batches), knobs
            again = f"{units.count(batches)} batches of this epoch are read again"
            self._writer.note(f"the switch takes effect once {again}")
        else:
            self._start_rebuilt(knobs, batches)

    def _start_rebuilt(self, knobs: Knobs, batches: int) -> None:
        """Continue after so many batches of Keras' iterator with the rebuilt pipeline."""
        start_ns = self._writer.now_ns()
        self._use_source(self.script.source(self.current.keras, batches, knobs), knobs, batches)
        self._note_built(start_ns)

    def _follow(self, replay: Replay, knobs: Knobs, batches: int) -> bool:
        """Return whether the source has caught up with the training, and switch if it has."""
        if not replay.follow(batches):
            return False
        self._late, start_ns = None, self._writer.now_ns()
        with fails_open(self._refuse):
            self._use_source(replay.finish(), knobs, batches)
            self._note_built(start_ns)
        return True

    def _use_source(self, source: Any, knobs: Knobs, batches: int) -> None:
        """Continue with the rebuilt pipeline over a source that so many batches of Keras' iterator
        precede."""
        self.current.start_rebuilt(source, knobs, batches)
        self._control.knobs = knobs
        self._on_rebuilt(source)

    def _note_built(self, start_ns: int) -> None:
        self._build_ms = (self._writer.now_ns() - start_ns) / 1e6

    def _leave_late(self) -> Knobs:
        """Give up a switch in the middle of an epoch; return the knobs that it leaves to the next
        one."""
        late, self._late = self._late, None
        if late is None:
            return self._control.knobs
        replay, knobs = late
        replay.leave()
        return knobs

    def take_over(self, steps: int) -> None:
        """Continue after `steps` steps with the pipeline's successor; if that fails, with Keras'
        iterator.

        The pipeline that has ended holds nothing, so no batch is lost.
        """
        try:
            self.current.pipeline.take_over()
        except Exception as error:  # noqa: BLE001  the training's boundary
            raise_interrupt(error)
            why = reason(error)
            self._control.knobs = self.current.pipeline.knobs
            self.hand_back(steps)
            self._note_failure(f"the script's own pipeline continues: {why}")
            if self.requested:
                with fails_open(self._note_failure):
                    self._refuse(why)

    def hand_back(self, steps: int) -> None:
        """Continue with Keras' iterator after `steps` steps. A pipeline over that iterator must
        hold no batch."""
        if self._late is not None:
            self._leave_late()
            self._refuse(Refusal.NOT_SPLIT.words)
        if self.current.is_switchable:
            with fails_open(self._note_failure):
                self._return_to_written(self._control.knobs.values(), steps)
        self.current.hand_back(steps)

    # -- requests ---------------------------------------------------------------------------------

    def _accept(self, steps: int) -> Knobs:
        """Take the requests, and return the knobs that result."""
        knobs = self._control.knobs
        for request in self._control.take(steps):
            if request.random_draws:
                self._allow_random_draws(steps, request.by)
            if refusal := self._refusal(request):
                self._refuse_request(request, refusal, steps)
                continue
            turned = knobs.with_value(request.knob, request.value)
            for name, old, new in self._cancelled_by(request) or knobs.differences(turned):
                now, epochs = self._writer.now_ns(), self._epochs_until(name, new)
                asked = SwitchAsked(now, name, old, new, steps, request.by, epochs)
                self._writer.event(asked)
                if epochs or (name == DEVICE_PREFETCH and new != OFF):
                    self._defer(asked)
                else:
                    self._deferred.pop(name, None)
                    self.requested.append(asked)
            # What is deferred is not in effect yet: the order of the epoch never changes.
            knobs = replace(turned, **{knob: getattr(knobs, knob) for knob in self._deferred})
        return knobs

    def _allow_random_draws(self, steps: int, by: str) -> None:
        """Let the script's maps or its `PyDataset` draw other random numbers, where they draw
        any."""
        if self._py_dataset is not None:
            asks, why = self._py_dataset.asks, self._py_dataset.draws
            self._py_dataset.allow_random_draws()
        else:
            self.script.read(self.current.keras)
            asks, why = self.script.asks, self.script.random_maps
        if asks:
            self._control.random_draws = True
            self.script.allow_random_draws(self.current.keras)
            self._writer.event(RandomDrawsAllowed(self._writer.now_ns(), steps, by, why))

    def _cancelled_by(self, request: SwitchRequest) -> list[tuple[str, str, str]]:
        """Return the deferred switch that a request cancels: (knob, value, the same value)."""
        waiting = self._deferred.get(request.knob)
        is_cancelled = waiting and request.value == waiting.old
        return [(request.knob, waiting.old, waiting.old)] if waiting and is_cancelled else []

    def _epochs_until(self, knob: str, value: str) -> int:
        """Return the number of epochs that must begin before a setting is in effect; 0: the next
        batch."""
        waits = self._py_dataset is not None or self.script.workers_from_epoch
        return int(knob == WORKERS and waits) or epochs_until(knob, value)

    def _defer(self, asked: SwitchAsked) -> None:
        """Defer a switch to an epoch, or until the step is built for it; one back to the setting in
        effect cancels the one before."""
        self._deferred.pop(asked.knob, None)
        if asked.new != asked.old:
            self._deferred[asked.knob] = asked
            self._cache_epochs = 0 if asked.knob == CACHE else self._cache_epochs

    def _refusal(self, request: SwitchRequest) -> str:
        """Return the reason to refuse a request; empty if there is none."""
        if request.knob in COPY_KNOBS and (why := self._why_not_copied(request)):
            return why
        if refused := self.current.refusal:  # run.json has the line to change in place of it
            return self._writer.manifest().fixed.get(request.knob, refused.words)
        if self._py_dataset is not None and request.knob in PY_DATASET_KNOBS:
            return self._py_dataset.refusal(request)
        self.script.read(self.current.keras)
        if request.knob == WORKERS:
            return self.script.why_not
        if request.knob == CACHE:
            return self.script.why_no_cache or self._open_cache()
        return Refusal.NO_PY_DATASET.words if request.knob == MULTIPROCESSING else ""

    def _why_not_copied(self, request: SwitchRequest) -> str:
        """Return why a request for a knob of the copy is refused."""
        why, is_ahead = self._why_no_copy(request.knob), request.knob == DEVICE_PREFETCH
        is_refused = request.value != OFF or (is_ahead and why is NotTimed.DRAWS)
        return why.value if why and is_refused else ""

    def _why_no_copy(self, knob: str) -> NotTimed | None:
        """Return why a knob of the copy stays as it is: it copies plain tensors before the step's
        call."""
        if why := self.placement.why_not(knob):
            return why
        is_plain = self.current.spec.flat is not None
        return why_no_device_prefetch() or (None if is_plain else NotTimed.NOT_PLAIN)

    def gives_pinned(self, iterator: Any) -> bool:
        """Return whether the batches of an iterator of Keras' are in memory that the GPU reads
        directly, before a prefetch to the device."""
        knobs, dataset = self._control.knobs, dataset_of(iterator)
        if knobs.pinned != OFF:
            return True
        keeps_fused = OFF not in (knobs.prefetch, knobs.workers)
        return keeps_fused and dataset is not None and ends_in_pinned_memory(dataset)

    def _open_cache(self) -> str:
        """Open the cache; return the reason where it cannot be."""
        store = self.script.store
        if store is None:
            return Refusal.NOTHING_TO_CACHE.words
        store.notify = self._writer.note
        try:
            store.open()
        except CannotRebuildError as error:
            return str(error)
        return ""

    def refuse_all(self, steps: int) -> None:
        """Refuse all requests: the batches come straight from Keras' iterator."""
        for request in self._control.take(steps) if self._control.has_requests else ():
            self._refuse_request(request, Refusal.NOT_SPLIT.words, steps)

    def _refuse_request(self, request: SwitchRequest, why: str, steps: int) -> None:
        now_ns, now = self._writer.now_ns(), getattr(self._control.knobs, request.knob)
        self._writer.event(SwitchFailed(now_ns, request.knob, why, now, request.value, steps, now))

    def _refuse(self, reason: str) -> None:
        """Record that the requested switches that are not in effect failed."""
        if not self.requested:
            self._writer.note(f"a request is not carried out: {reason}", is_refusal=True)
        requested, self.requested = self.requested, []
        if CACHE in self._deferred and self._control.knobs.cache == OFF:
            # Its pipeline could not be built; the one before continues.
            requested.append(self._deferred.pop(CACHE))
        self._close_unused_cache()
        for asked in requested:
            now_ns, now = self._writer.now_ns(), getattr(self._control.knobs, asked.knob)
            if now == asked.new:  # what failed came after it
                self.requested.append(asked)
            else:
                self._writer.event(
                    SwitchFailed(now_ns, asked.knob, reason, asked.old, asked.new, asked.step, now)
                )

    def _close_unused_cache(self) -> None:
        """Close the cache where no pipeline uses it; a source may read it until its epoch ends."""
        if not self.script.reads_cache:
            self._close_cache_without(self._control.knobs)

    # -- reports ----------------------------------------------------------------------------------

    def report(self, step: int) -> bool:
        """Report the switches whose first batch is that of `step`, or came before; return whether
        there are any."""
        if self._late is not None or self.current.pipeline.is_switching:
            return False
        now = self._writer.now_ns()
        requested, self.requested = self.requested, []
        for asked in requested:
            if asked.new != asked.old:  # a cache turned off while it fills was never in effect
                change = (asked.knob, asked.old, asked.new, asked.step)
                self._writer.event(PipelineSwitched(now, *change, step, self._build_ms, asked.by))
        self._close_unused_cache()
        self.current.leave_gate(self._control.knobs)
        return True

    def close(self) -> None:
        """End with the training: report the switches that it did not wait for."""
        for part in (
            self._report_missed,
            self.current.drop,
            lambda: self.current.pipeline.close(),
            self.script.close_cache,
        ):
            with fails_open(self._note_failure):
                part()

    def _report_missed(self) -> None:
        """Record the switches whose step or epoch was never reached, and those whose data was still
        read again."""
        knobs, missed = self._control.knobs, [*self._deferred.values()]
        if self._late is not None:
            self._leave_late()
            missed += self.requested
            self.requested.clear()
        for asked in missed:
            self._note_failed(asked.knob, asked.old, asked.new, asked.step, _RUN_ENDED)
        planned, self._control.planned = self._control.planned, []
        for due in planned:
            turned = knobs.with_value(due.knob, due.value)
            for knob, old, new in knobs.differences(turned):
                self._note_failed(knob, old, new, due.at_step, _RUN_ENDED)
            knobs = turned

    def _note_failed(self, knob: str, old: str, new: str, step: int, why: str) -> None:
        self._writer.event(SwitchFailed(self._writer.now_ns(), knob, why, old, new, step, old))
