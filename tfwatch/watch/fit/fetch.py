"""Fetch the next batch, and carry out the requested switches of the pipeline.

Most switches take effect after the buffered batches. A new shuffle and a full cache take effect with an epoch.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open, reason
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed, SwitchMissed
from tfwatch.core.knobs import AS_WRITTEN, PY_DATASET_KNOBS, option_name, show
from tfwatch.core.refusals import NotTimed, Refusal
from tfwatch.core.rows import Flag
from tfwatch.runs.control.requests import Request
from tfwatch.tfdata.disposal import dispose, dispose_unless_referenced
from tfwatch.tfdata.live_switch import BatchIterator, BatchSpec, SwitchablePipeline
from tfwatch.tfdata.stages.shuffle_fill import ShuffleFill
from tfwatch.tfdata.stages.stage_reader import StageReader
from tfwatch.tfdata.work_ahead import is_added
from tfwatch.watch.fit.batch_bytes import count_bytes
from tfwatch.watch.fit.data_errors import without_gate
from tfwatch.watch.fit.stepping.device_copy import why_no_device_prefetch
from tfwatch.watch.fit.stepping.fused_steps import clock_offset_ns
from tfwatch.watch.fit.switching.deferred_switches import DeferredSwitches, LateSwitch, waiting_note
from tfwatch.watch.fit.switching.proved_switch import ProvedSwitch
from tfwatch.watch.fit.switching.script_pipeline import KnobDescriber, ScriptPipeline, why_not_switchable

if TYPE_CHECKING:
    import tensorflow as tf

    from tfwatch.core.knobs import Knobs
    from tfwatch.tfdata.copy_stamps import CopyStamps
    from tfwatch.watch.session import Session

_STAYS = "prefetch off adds none: what the script prefetches itself stays, as its pipeline is not rebuilt now"
_SWITCH, _SHUFFLE_FILL = int(Flag.SWITCH), int(Flag.SHUFFLE_FILL)


class Fetch:
    """Returns batches: from Keras' own iterator until a switch is requested, then through a `SwitchablePipeline`.

    flags: of the step of the last batch. in_graph: several steps run in one call, which fetches their batches.
    """

    def __init__(self, session: Session) -> None:
        self.flags = 0
        self.in_graph = False
        self._session = session
        self._writer = session.writer
        self._control = session.control
        self._is_ours = session.source is not None
        self._is_switchable = self._is_ours
        self._iterator: Any = None
        self._direct: Any = None
        self._filling = ShuffleFill(None)
        self._requested: list[SwitchAsked] = []
        self._script = ScriptPipeline()
        self._deferred = DeferredSwitches(session, self._script)
        self._proved = ProvedSwitch(session.control, session.writer, self._script)
        self._pipeline = SwitchablePipeline(session.build, self._deferred.state)
        self._has_noted_off = False
        self._first_step: int | None = None
        self._rebuilt_after = 0
        self._late: LateSwitch | None = None
        self._py_dataset = session.py_dataset
        self._describer = KnobDescriber(session.writer)
        self._build_ms = 0.0
        self._is_measured = False
        self._stamps: CopyStamps | None = None
        self._schedule = sorted(session.switches, key=lambda scheduled: scheduled.step)
        self._stages = session.stages or StageReader(self._writer)
        self._stages.use(self.iterators)
        if not session.stages:
            self._stages.start()

    def begin_epoch(self, steps: int) -> None:
        """Begin an epoch after `steps` steps: with a source of tfwatch's own, make its iterator and pipeline."""
        if self._session.source is not None:
            knobs, begun = self._deferred.begin_epoch(self._accept(steps))
            self._requested += begun
            before, self._control.knobs = replace(self._control.knobs, shuffle=knobs.shuffle), knobs
            start_ns = self._writer.now_ns()
            source = iter(self._session.source)
            try:
                self._pipeline.start(source, knobs)
            except Exception as error:
                if knobs == before:
                    raise
                self._control.knobs = before
                self._refuse(reason(error))
                self._pipeline.start(source, before)
            self._build_ms = (self._writer.now_ns() - start_ns) / 1e6

    def begin_script_epoch(self, steps: int) -> None:
        """Begin an epoch of a script's `PyDataset` after `steps` steps, before Keras makes its iterator."""
        if self._py_dataset is None or self._iterator is None:
            return
        with fails_open(self._refuse):
            accepted = self._accept(steps) if self._control.has_requests else self._control.knobs
            if accepted == self._control.knobs and not self._deferred.waits:
                return
            knobs, begun = self._deferred.begin_script_epoch(accepted)
            self._requested += begun
            start_ns = self._writer.now_ns()
            if begun:
                self._py_dataset.apply(knobs)
            self._control.knobs = knobs
            self._build_ms = (self._writer.now_ns() - start_ns) / 1e6

    def use_iterator(self, iterator: Any) -> BatchSpec:
        """Fetch from a new iterator of Keras', through a pipeline if prefetch was requested.

        Returns the structure of its batches.
        """
        if self._script.is_rebuilt and iterator is self._iterator:
            return self._direct.shape  # type: ignore[no-any-return]
        is_new, self._iterator = iterator is not self._iterator, iterator
        self._filling = ShuffleFill(iterator)
        if self._is_ours:
            return self._pipeline.batches.shape  # type: ignore[no-any-return]
        self._first_step = None if is_new else self._first_step
        if is_new:
            self._script.note_order(iterator)
        was_late = is_new and self._late is not None
        if not (is_new and self._begin_rebuilt(iterator)):
            if was_late and self._requested:
                refused = why_not_switchable(iterator)
                self._refuse(refused.words if refused else self._script.why_not)
            self._begin_as_written(iterator)
        old, self._direct = [self._direct], BatchIterator(iterator)
        dispose(old, [], [])
        return self._direct.shape  # type: ignore[no-any-return]

    def _begin_as_written(self, iterator: Any) -> None:
        """Begin with Keras' iterator, with the stages that the knobs add."""
        if self._script.is_rebuilt:
            self._use_pipeline(SwitchablePipeline(self._session.build, self._deferred.state), is_rebuilt=False)
        self._is_switchable = is_added(self._control.knobs) and not why_not_switchable(iterator)
        if self._is_switchable:
            self._pipeline.start(iterator, self._control.knobs)
        else:
            self._pipeline.close()

    def _begin_rebuilt(self, iterator: Any) -> bool:
        """Begin an epoch with the rebuilt pipeline if the knobs ask for it; return whether it began."""
        if self._py_dataset is not None:
            return False
        knobs, begun = self._deferred.begin_script_epoch(self._leave_late())
        is_own = knobs.workers == knobs.prefetch == "default" and not (knobs.cache or knobs.fast_pipeline)
        if (is_own and not begun) or why_not_switchable(iterator):
            return False
        self._script.read(iterator)
        self._requested += begun
        if knobs.fast_pipeline and not self._script.is_proved:  # the proof is that of another data set
            knobs = self._leave("fast_pipeline", knobs)
        if isinstance(knobs.workers, tuple) and self._script.why_not_workers(knobs.workers):
            knobs = self._leave("workers", knobs)
        if self._script.needs_rebuild(knobs):
            start_ns = self._writer.now_ns()
            with fails_open(self._refuse):
                self._start_rebuilt(iterator, knobs, 0)
                self._build_ms = (self._writer.now_ns() - start_ns) / 1e6
                return True
        elif begun and any(asked.knob == "workers" for asked in begun) and self._script.why_not:
            self._refuse(self._script.why_not)
        elif begun:
            self._control.knobs = knobs
        knobs = self._control.knobs
        for knob in ("workers", "cache", "fast_pipeline"):
            knobs = self._leave(knob, knobs)
        return False

    def _leave(self, knob: str, knobs: Knobs) -> Knobs:
        """Record that a knob is as in the script again: its next data set cannot be rebuilt so. Return the knobs."""
        kept = replace(knobs, **{knob: getattr(AS_WRITTEN, knob)})
        self._control.knobs = replace(self._control.knobs, **{knob: getattr(AS_WRITTEN, knob)})
        now, step = self._writer.now_ns(), self._writer.status[2]
        for name, old, new in knobs.differences(kept):
            if why := self._script.why_not_again(name):
                self._writer.note(f"{option_name(name)} as the script has it in this epoch: {why}")
            self._writer.event(PipelineSwitched(now, name, old, new, step, step + 1, 0.0, "data"))
        return kept

    def _start_rebuilt(self, iterator: Any, knobs: Knobs, batches: int) -> None:
        """Continue after so many batches of Keras' iterator with the rebuilt pipeline."""
        self._use_source(self._script.source(iterator, batches, knobs), knobs, batches)

    def _use_source(self, source: Any, knobs: Knobs, batches: int) -> None:
        """Continue with the rebuilt pipeline over a source that so many batches of Keras' iterator precede."""
        pipeline = SwitchablePipeline(self._script.build, self._deferred.state)
        pipeline.start(source, knobs)
        # All or nothing: batches come from the rebuilt pipeline from here on.
        self._use_pipeline(pipeline, is_rebuilt=True)
        self._is_switchable, self._control.knobs = True, knobs
        self._rebuilt_after = batches
        with fails_open(self._note_failure):
            self._writer.describe(from_epoch=self._script.from_epoch)
            self._filling = ShuffleFill(source)

    def _use_pipeline(self, pipeline: SwitchablePipeline, *, is_rebuilt: bool) -> None:
        old, self._pipeline, self._script.is_rebuilt = self._pipeline, pipeline, is_rebuilt
        with fails_open(self._note_failure):
            old.close()

    def last_iterator(self, iterator: Any) -> Any:
        """Return the exhausted iterator of the batches, for Keras' function; `iterator` is Keras' own."""
        return self._pipeline.iterator if self._script.is_rebuilt else iterator

    def iterator_like(self, iterator: Any) -> Any:
        """Return an iterator with the structure of the next batches, before `use_iterator` is called."""
        return self._pipeline.iterator if self._is_ours else iterator

    def next(self, steps: int) -> Any:
        """Return the batch after `steps` steps.

        Raises:
            StopIteration: the data is exhausted.
        """
        self._begin(steps)
        while True:
            try:
                batch = (self._pipeline.batches if self._is_switchable else self._direct).next()
                break
            except StopIteration:
                if not self._has_successor:
                    raise
            # Outside the handler: the exception holds the ended iterator and would delete it in this thread.
            self._take_over(steps)
        try:
            self._look_at(batch, steps + 1)
        except Exception as error:  # noqa: BLE001  the training's boundary; a `with` adds 0.3 us per call
            self._note_failure(reason(error))
        return batch

    def _begin(self, steps: int) -> None:
        self.flags = 0
        if self._first_step is None:  # of this iterator: a rebuilt pipeline skips what it has given
            self._first_step = steps
        try:
            self._apply_requests(steps)
        except Exception as error:  # noqa: BLE001  the training's boundary
            self._note_failure(reason(error))

    def _look_at(self, batch: Any, step: int) -> None:
        """Read what there is to know of the batch of a step."""
        self._stamps = self._pipeline.batches.stamps if self._is_switchable else None
        if self._stamps:
            self._stamps.taken += 1
        if not self._is_measured:
            with fails_open(self._note_failure):
                self._measure(batch)
        self.mark_first_batch(step)

    def _take_over(self, steps: int) -> None:
        """Continue after `steps` steps with the pipeline's successor.

        If that fails, with the setting before it, and if that fails too, with Keras' iterator. The pipeline that has
        ended holds nothing, so no batch is lost.
        """
        try:
            self._pipeline.take_over()
        except Exception as error:  # noqa: BLE001  the training's boundary
            why = reason(error)
        else:
            return
        self._control.knobs = self._pipeline.knobs
        try:
            self._pipeline.resume()
        except Exception:
            if self._is_ours:
                raise
            self.hand_back(steps)
            self._note_failure(f"the script's own pipeline continues: {why}")
        if self._requested:
            with fails_open(self._note_failure):
                self._refuse(why)

    def _leave_all(self, steps: int) -> None:
        """Record that Keras' iterator gives the batches after `steps` steps: all its stages are as in the script."""
        own = PY_DATASET_KNOBS if self._py_dataset is not None else ()
        kept = replace(AS_WRITTEN, **{knob: getattr(self._control.knobs, knob) for knob in own})
        for name, old, new in self._control.knobs.differences(kept):
            now_ns = self._writer.now_ns()
            self._writer.event(PipelineSwitched(now_ns, name, old, new, steps, steps + 1, 0.0, "data"))
        self._control.knobs = kept

    def ready_ns(self) -> int | None:
        """Return when the last batch was ready in host memory, to be copied ahead; None where that is unknown."""
        if self._stamps is None:
            return None
        writer = self._writer
        return self._stamps.newest_ns() + clock_offset_ns(writer.now_ns, writer.clock.wall_ns)

    def _measure(self, batch: Any) -> None:
        self._is_measured = True
        try:
            size = count_bytes(batch)
        except Exception:  # noqa: BLE001  the batch is the user's, of any kind, and its parts may raise anything
            size = None
        if size is None:
            self._writer.note("the size of batches and buffers is unknown: a batch holds more than plain numbers")
        self._writer.describe(batch_bytes=size)

    def explain_wait(self, wait_ns: float) -> None:
        """Set the flag of the cause of a long wait for the last batch, if the cause is known."""
        with fails_open(self._stop_explaining):
            if self._filling.is_cause_of(wait_ns):
                self.flags |= _SHUFFLE_FILL
                self._filling.describe_in(self._writer)

    def _stop_explaining(self, why: str) -> None:
        self._filling = ShuffleFill(None)
        self._writer.note(f"waits that fill a shuffle buffer are not marked: {why}")

    def as_written(self, error: tf.errors.OpError) -> None:
        """Word an error of the data as that of the script's own pipeline, without tfwatch's gate over it."""
        if self._is_switchable and not self._is_ours:
            with fails_open(self._note_failure):
                error._message = without_gate(error.message)

    def source(self, steps: int) -> Any:
        """Return the iterator after `steps` steps, for a caller that fetches itself (see `successor`)."""
        self._begin(steps)
        return self._pipeline.iterator if self._is_switchable else self._iterator

    def mark_first_batch(self, step: int) -> None:
        """Record that the first batch of the last `source` or `successor` was that of `step`."""
        if self._requested and self._late is None:
            with fails_open(self._note_failure):
                if not self._pipeline.is_switching:
                    self._report_switched(step)

    def _note_failure(self, why: str) -> None:
        with suppress(Exception):
            self._writer.note(f"a part of the record is missing: {why}")

    def successor(self, steps: int) -> Any:
        """Return the iterator that continues after `steps` steps, where the last one ended; None if the data did."""
        self.flags = 0
        if not self._has_successor:
            return None
        self._take_over(steps)
        return self._pipeline.iterator if self._is_switchable else self._iterator

    @property
    def _has_successor(self) -> bool:
        return self._is_switchable and self._pipeline.has_successor

    def iterators(self) -> tuple[Any, Any]:
        """Return the source below the gate, None without a gate, and the iterator of the batches.

        Any thread may call it. Both are None between two epochs.
        """
        if not self._is_ours and self._py_dataset is None:
            self._describer.describe(self._iterator, self._script)
        if not self._is_switchable:
            return None, self._iterator
        source, batches = self._pipeline.source, self._pipeline.iterator
        return (source, batches) if source is not None else (None, None)

    def close(self) -> None:
        """End with the training."""
        ends = (self._stop_stages, self._proved.close, self._report_missed, self._end_late)
        for part in (*ends, self._drop, self._pipeline.close, self._deferred.close):
            with fails_open(self._note_failure):
                part()

    def _stop_stages(self) -> None:
        self._stages.use(None)
        if not self._session.stages:
            self._stages.stop()

    def _end_late(self) -> None:
        if self._late is not None:
            self._leave_late()
            self._report_late()

    def _drop(self) -> None:
        last = [self._iterator]
        self._iterator = self._direct = None
        dispose_unless_referenced(last)

    def _report_missed(self) -> None:
        """Record the scheduled switches whose step was never reached."""
        knobs = self._control.knobs
        for due in self._schedule:
            turned = knobs.with_value(due.knob, due.value)
            for knob, old, new in knobs.differences(turned):
                self._writer.event(SwitchMissed(self._writer.now_ns(), knob, old, new, due.step))
            knobs = turned

    def _report_late(self) -> None:
        """Record the switches that the fit did not wait for."""
        for asked in self._requested:
            now_ns = self._writer.now_ns()
            self._writer.event(SwitchMissed(now_ns, asked.knob, asked.old, asked.new, asked.step))
        self._requested.clear()

    # -- switches ---------------------------------------------------------------------------------

    def _apply_requests(self, steps: int) -> None:
        while self._schedule and self._schedule[0].step <= steps:
            scheduled = self._schedule.pop(0)
            self._control.ask(Request(scheduled.knob, scheduled.value, "command"))
        if self._late is not None:
            self._follow(self._late, steps)
        elif self._control.has_requests and not self._pipeline.is_switching:
            with fails_open(self._refuse):
                self._switch(self._accept(steps), steps)

    def _follow(self, late: LateSwitch, steps: int) -> None:
        """Switch to the pipeline whose source has caught up with the training after `steps` steps, if it has."""
        batches = steps - (self._first_step or 0)
        if not late.replay.follow(batches):
            return
        self._late, self.flags, start_ns = None, _SWITCH, self._writer.now_ns()
        with fails_open(self._refuse):
            self._use_source(late.replay.finish(), late.knobs, batches)
            self._build_ms = (self._writer.now_ns() - start_ns) / 1e6

    def _leave_late(self) -> Knobs:
        """Give up a switch in the middle of an epoch; return the knobs that it leaves to the next one."""
        late, self._late = self._late, None
        if late is None:
            return self._control.knobs
        late.replay.leave()
        return late.knobs

    def _accept(self, steps: int) -> Knobs:
        """Take the requests, and return the knobs that result."""
        knobs = self._control.knobs
        for request in self._control.take():
            refusal = self._refusal(request)
            now = self._writer.now_ns()
            if refusal:
                setting, new = show(getattr(knobs, request.knob)), show(request.value)
                self._writer.event(SwitchFailed(now, request.knob, refusal, setting, new, steps, setting))
                continue
            turned = knobs.with_value(request.knob, request.value)
            cancelled = self._deferred.cancelled_by(request) or self._proved.cancelled_by(request)
            for name, old, new in cancelled or knobs.differences(turned):
                asked = self._proved.resumed(request)
                if asked is None:
                    asked = SwitchAsked(now, name, old, new, steps, request.by, self._deferred.epochs_until(name, new))
                    self._writer.event(asked)
                if self._proved.defer(asked, request):
                    turned = knobs
                elif not self._deferred.defer(asked, turned):
                    self._requested.append(asked)
                    self._note_off(asked, turned)
            knobs = self._deferred.without_deferred(turned, knobs)
        return knobs

    def _note_off(self, asked: SwitchAsked, turned: Knobs) -> None:
        """Note once that a script's own prefetch stays where only a pipeline above it is switched."""
        is_above = not (self._is_ours or self._script.is_rebuilt or self._script.needs_rebuild(turned))
        if (asked.knob, asked.new) == ("prefetch", "off") and is_above and not self._has_noted_off:
            self._has_noted_off = True
            self._writer.note(_STAYS)

    def _refusal(self, request: Request) -> str:
        if request.knob == "device_prefetch" and request.value != "off":
            no_copy = NotTimed.IN_GRAPH if self.in_graph else why_no_device_prefetch()
            if no_copy:
                return no_copy.value
        if self._is_ours:
            return Refusal.ONE_FOR_ALL.words if isinstance(request.value, tuple) else self._deferred.refusal(request)
        if self._py_dataset is not None and request.knob in PY_DATASET_KNOBS:
            return self._py_dataset.refusal(request, self._deferred.with_waiting(self._control.knobs))
        refused = why_not_switchable(self._iterator)
        if refused:
            return refused.words
        self._script.read(self._iterator)
        if request.knob == "workers":
            return self._script.why_not_workers(request.value)
        if proved := self._proved.refusal(request, self._deferred.with_waiting(self._control.knobs)):
            return proved
        if request.knob == "cache":
            return self._script.why_no_cache or self._deferred.refusal(request)
        is_known = request.knob in ("prefetch", "device_prefetch", "fast_pipeline")
        return "" if is_known else Refusal.NOT_OURS.words

    def hand_back(self, steps: int) -> None:
        """Continue with Keras' iterator after `steps` steps: drop those that the rebuilt pipeline gave.

        A pipeline over that iterator must hold no batch.
        """
        if self._late is not None:
            self._leave_late()
            self._refuse(Refusal.NOT_SPLIT.words)
        if self._is_switchable and not self._is_ours:
            self._is_switchable = False
            with fails_open(self._note_failure):
                self._leave_all(steps)
        if self._script.is_rebuilt:
            self._script.is_rebuilt = False
            with fails_open(self._note_failure):
                self._pipeline.close()
            with suppress(StopIteration):
                first = steps if self._first_step is None else self._first_step
                for _ in range(steps - first - self._rebuilt_after):
                    self._direct.next()

    def refuse(self, steps: int) -> None:
        """Refuse all requests after `steps` steps: the batches come straight from Keras' iterator."""
        if self._control.has_requests:
            now_ns = self._writer.now_ns()
            for request in self._control.take():
                now, new = show(getattr(self._control.knobs, request.knob)), show(request.value)
                failed = SwitchFailed(now_ns, request.knob, Refusal.NOT_SPLIT.words, now, new, steps, now)
                self._writer.event(failed)

    def _switch(self, knobs: Knobs, steps: int) -> None:
        if knobs == self._control.knobs:
            return
        start_ns = self._writer.now_ns()
        self.flags = _SWITCH
        # The user's code may build the pipeline: if it or tf.data raises, the current pipeline continues.
        with fails_open(self._refuse):
            if self._script.needs_rebuild(knobs) and not self._script.is_rebuilt:
                self._rebuild(knobs, steps - (self._first_step or 0))
            elif self._is_switchable:
                self._pipeline.switch(knobs)
                self._control.knobs = knobs
            else:
                self._pipeline.start(self._iterator, knobs)
                self._is_switchable, self._control.knobs = True, knobs
            self._build_ms = (self._writer.now_ns() - start_ns) / 1e6

    def _rebuild(self, knobs: Knobs, batches: int) -> None:
        """Continue with the rebuilt pipeline after so many batches: at once, or when another iterator is there too."""
        if self._script.is_far(batches):
            self._late = LateSwitch(self._script.replay(self._iterator, batches, knobs), knobs)
            self._writer.note(waiting_note(batches))
        else:
            self._start_rebuilt(self._iterator, knobs, batches)

    def _refuse(self, reason: str) -> None:
        """Record that the requested switches that are not in effect failed."""
        if not self._requested:
            self._writer.note(f"a request is not carried out: {reason}", is_refusal=True)
        requested, self._requested = self._requested, []
        for asked in [*requested, *self._deferred.cancel_cache(self._control.knobs)]:
            now_ns, now = self._writer.now_ns(), show(getattr(self._control.knobs, asked.knob))
            if now == asked.new:  # what failed came after it
                self._requested.append(asked)
            else:
                self._writer.event(SwitchFailed(now_ns, asked.knob, reason, asked.old, asked.new, asked.step, now))

    def _report_switched(self, step: int) -> None:
        now = self._writer.now_ns()
        self.flags = _SWITCH
        requested, self._requested = self._requested, []
        for asked in requested:
            if asked.new != asked.old:  # a cache turned off while it fills was never in effect
                self._writer.event(
                    PipelineSwitched(now, asked.knob, asked.old, asked.new, asked.step, step, self._build_ms, asked.by)
                )
        self._deferred.close_unused_cache(self._control.knobs)
        # Without prefetch the gate has only a cost: nothing is buffered, so Keras' iterator can continue.
        if not self._is_ours and not self._script.is_rebuilt and not is_added(self._control.knobs):
            self._is_switchable = False
