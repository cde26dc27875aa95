"""The requested switches of a `fit`'s pipeline: taken before a batch, refused or carried out, and
reported.

Most take effect after the buffered batches. A full cache takes effect with an epoch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, raise_interrupt, reason
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed, SwitchMissed
from tfwatch.core.knobs import (
    AS_WRITTEN,
    CACHE,
    DEFAULT,
    DEVICE_PREFETCH,
    OFF,
    PREFETCH,
    PY_DATASET_KNOBS,
    WORKERS,
    NotTimed,
    Refusal,
    is_by_stage,
    option_name,
)
from tfwatch.watch.fit.stepping.device_copy import why_no_device_prefetch
from tfwatch.watch.fit.switching.current_pipeline import CurrentPipeline
from tfwatch.watch.fit.switching.deferred_switches import (
    DeferredSwitches,
    LateSwitch,
    waiting_note,
)
from tfwatch.watch.fit.switching.script_pipeline import (
    ScriptPipeline,
    why_not_switchable,
    written_prefetch,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.requests import SwitchRequest
    from tfwatch.watch.session import Session

_STAYS = (
    "prefetch off adds none: what the script prefetches itself stays, as its pipeline is not"
    " rebuilt now"
)


class RequestedSwitches:
    """The switches of a `fit`, in the thread that trains.

    current: where the batches come from. script: the script's own pipeline, as it was read.
    requested: carried out, and reported with the first batch of their pipeline.
    in_graph: several steps run in one call, which fetches their batches.
    note_failure: notes that a part of the record is missing.
    on_rebuilt: called with the source of a rebuilt pipeline once its batches are those that train.
    """

    def __init__(
        self,
        session: Session,
        on_rebuilt: Callable[[Any], None],
        note_failure: Callable[[str], None],
    ) -> None:
        self.in_graph = False
        self.script = ScriptPipeline()
        self._on_rebuilt, self._note_failure = on_rebuilt, note_failure
        self._writer, self._control, self._py_dataset = (
            session.writer,
            session.control,
            session.py_dataset,
        )
        self._deferred = DeferredSwitches(session, self.script)
        self.current = CurrentPipeline(self.script, note_failure)
        self.requested: list[SwitchAsked] = []
        self._late: LateSwitch | None = None
        self._build_ms = 0.0
        self._has_noted_off = False

    # -- the epochs -------------------------------------------------------------------------------

    def begin_script_epoch(self, steps: int) -> None:
        """Begin an epoch of a script's after `steps` steps, before Keras makes its iterator.

        The settings of a `PyDataset` take effect with it.
        """
        if self._py_dataset is None or self.current.keras is None:
            return
        with fails_open(self._refuse):
            accepted = self._accept(steps) if self._control.has_requests else self._control.knobs
            if accepted == self._control.knobs and not self._deferred.waits:
                return
            knobs, begun = self._deferred.begin_script_epoch(accepted)
            self.requested += begun
            start_ns = self._writer.now_ns()
            if begun:
                self._py_dataset.apply(knobs)
            self._control.knobs = knobs
            self._note_built(start_ns)

    def begin_iterator(self, iterator: Any, *, is_new: bool) -> None:
        """Begin to fetch from an iterator of Keras', rebuilt or with stages above it if the knobs
        ask for it."""
        if is_new:
            self.script.note_order(iterator)
            with fails_open(self._note_failure):
                self._read_written(iterator)
        was_late = is_new and self._late is not None
        if not (is_new and self._begin_rebuilt(iterator)):
            if was_late and self.requested:
                refused = why_not_switchable(iterator)
                self._refuse(refused.words if refused else self.script.why_not)
            self.current.start_as_written(self._control.knobs)
        self.current.open_direct()

    def _read_written(self, iterator: Any) -> None:
        """Read whether the script's pipeline prefetches; a knob that nobody switched says so."""
        if self._py_dataset is not None:
            return
        was, prefetch = self._control.written, written_prefetch(iterator)
        self._control.written = self.script.written = replace(was, prefetch=prefetch)
        knobs = self._control.knobs
        if knobs.prefetch != was.prefetch or knobs.prefetch == prefetch:
            return
        self._control.knobs = replace(knobs, prefetch=prefetch)
        step = self._writer.status[2]
        if step:
            now_ns, old = self._writer.now_ns(), knobs.prefetch
            self._writer.event(
                PipelineSwitched(now_ns, PREFETCH, old, prefetch, step, step + 1, 0.0, "data")
            )
        else:
            begun = self._writer.manifest().knobs
            self._writer.describe(knobs={**begun, PREFETCH: prefetch})

    def _begin_rebuilt(self, iterator: Any) -> bool:
        """Begin an epoch with the rebuilt pipeline if the knobs ask for it; return whether it
        began."""
        if self._py_dataset is not None:
            return False
        knobs, begun = self._deferred.begin_script_epoch(self._leave_late())
        is_own = replace(knobs, device_prefetch=OFF) == self.script.written
        if (is_own and not begun) or why_not_switchable(iterator):
            return False
        self.script.read(iterator)
        self.requested += begun
        if is_by_stage(knobs.workers) and self.script.why_not_workers(knobs.workers):
            knobs = self._leave(WORKERS, knobs)
        if self.script.needs_rebuild(knobs):
            with fails_open(self._refuse):
                self._start_rebuilt(knobs, 0)
                return True
        elif begun and any(asked.knob == WORKERS for asked in begun) and self.script.why_not:
            self._refuse(self.script.why_not)
        elif begun:
            self._control.knobs = knobs
        knobs = self._control.knobs
        for knob in (WORKERS, CACHE):
            knobs = self._leave(knob, knobs)
        return False

    def _leave(self, knob: str, knobs: Knobs) -> Knobs:
        """Record that a knob is as in the script again: its next data set cannot be rebuilt so.
        Return the knobs."""
        kept = replace(knobs, **{knob: getattr(AS_WRITTEN, knob)})
        self._control.knobs = replace(self._control.knobs, **{knob: getattr(AS_WRITTEN, knob)})
        now, step = self._writer.now_ns(), self._writer.status[2]
        for name, old, new in knobs.differences(kept):
            if why := self.script.why_not_again(name):
                self._writer.note(f"{option_name(name)} as the script has it in this epoch: {why}")
            self._writer.event(PipelineSwitched(now, name, old, new, step, step + 1, 0.0, "data"))
        return kept

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
            return self._follow(self._late, self.current.batches_given(steps))
        if not self._control.has_requests or self.current.is_switching:
            return False
        with fails_open(self._refuse):
            knobs = self._accept(steps)
            if knobs == self._control.knobs:
                return False
            with fails_open(self._refuse):
                self._switch(knobs, self.current.batches_given(steps))
            return True
        return False

    def _switch(self, knobs: Knobs, batches: int) -> None:
        """Switch to the knobs after so many batches: at once, or when another iterator has caught
        up."""
        if not self.script.needs_rebuild(knobs) or self.script.is_rebuilt:
            start_ns = self._writer.now_ns()
            self.current.switch(knobs)
            self._control.knobs = knobs
            self._note_built(start_ns)
        elif self.script.is_far(batches):
            self._late = LateSwitch(self.script.replay(self.current.keras, batches, knobs), knobs)
            self._writer.note(waiting_note(batches))
        else:
            self._start_rebuilt(knobs, batches)

    def _start_rebuilt(self, knobs: Knobs, batches: int) -> None:
        """Continue after so many batches of Keras' iterator with the rebuilt pipeline."""
        start_ns = self._writer.now_ns()
        self._use_source(self.script.source(self.current.keras, batches, knobs), knobs, batches)
        self._note_built(start_ns)

    def _follow(self, late: LateSwitch, batches: int) -> bool:
        """Switch to the pipeline whose source has caught up with the training, if it has; return
        whether it had."""
        if not late.replay.follow(batches):
            return False
        self._late, start_ns = None, self._writer.now_ns()
        with fails_open(self._refuse):
            self._use_source(late.replay.finish(), late.knobs, batches)
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
        late.replay.leave()
        return late.knobs

    def take_over(self, steps: int) -> None:
        """Continue after `steps` steps with the pipeline's successor.

        If that fails, with the setting before it, and if that fails too, with Keras' iterator. The
        pipeline that has ended holds nothing, so no batch is lost.
        """
        try:
            self.current.take_over()
        except Exception as error:  # noqa: BLE001  the training's boundary
            raise_interrupt(error)
            why = reason(error)
        else:
            return
        self._control.knobs = self.current.knobs
        try:
            self.current.resume()
        except Exception as error:  # noqa: BLE001  the training's boundary
            raise_interrupt(error)
            self.hand_back(steps)
            self._note_failure(
                f"the script's own pipeline continues: {why}; the one before: {reason(error)}"
            )
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
                self._leave_all(steps)
        self.current.hand_back(steps)

    def _leave_all(self, steps: int) -> None:
        """Record that Keras' iterator gives the batches after `steps` steps: all its stages are as
        in the script."""
        own = PY_DATASET_KNOBS if self._py_dataset is not None else ()
        kept = replace(
            self.script.written, **{knob: getattr(self._control.knobs, knob) for knob in own}
        )
        for name, old, new in self._control.knobs.differences(kept):
            now_ns = self._writer.now_ns()
            self._writer.event(
                PipelineSwitched(now_ns, name, old, new, steps, steps + 1, 0.0, "data")
            )
        self._control.knobs = kept

    # -- requests ---------------------------------------------------------------------------------

    def _accept(self, steps: int) -> Knobs:
        """Take the requests, and return the knobs that result."""
        knobs = self._control.knobs
        for request in self._control.take(steps):
            refusal = self._refusal(request)
            now = self._writer.now_ns()
            if refusal:
                setting, new = getattr(knobs, request.knob), request.value
                self._writer.event(
                    SwitchFailed(now, request.knob, refusal, setting, new, steps, setting)
                )
                continue
            turned = knobs.with_value(request.knob, request.value)
            cancelled = self._deferred.cancelled_by(request)
            for name, old, new in cancelled or knobs.differences(turned):
                epochs = self._deferred.epochs_until(name, new)
                asked = SwitchAsked(now, name, old, new, steps, request.by, epochs)
                self._writer.event(asked)
                if not self._deferred.defer(asked):
                    self.requested.append(asked)
                    self._note_off(asked, turned)
            knobs = self._deferred.without_deferred(turned, knobs)
        return knobs

    def _note_off(self, asked: SwitchAsked, turned: Knobs) -> None:
        """Note once that a script's own prefetch stays where only a pipeline above it is
        switched."""
        is_rebuilt = self.script.is_rebuilt or self.script.needs_rebuild(turned)
        is_above = not is_rebuilt and self.script.written.prefetch == DEFAULT
        if (asked.knob, asked.new) == (PREFETCH, "off") and is_above and not self._has_noted_off:
            self._has_noted_off = True
            self._writer.note(_STAYS)

    def _refusal(self, request: SwitchRequest) -> str:
        if request.knob == DEVICE_PREFETCH and request.value != "off":
            no_copy = NotTimed.IN_GRAPH if self.in_graph else why_no_device_prefetch()
            if no_copy:
                return no_copy.value
        if self._py_dataset is not None and request.knob in PY_DATASET_KNOBS:
            return self._py_dataset.refusal(
                request, self._deferred.with_waiting(self._control.knobs)
            )
        return self._refusal_of_script(request)

    def _refusal_of_script(self, request: SwitchRequest) -> str:
        refused = why_not_switchable(self.current.keras)
        if refused:  # run.json has the line to change in place of it
            return self._writer.manifest().fixed.get(request.knob, refused.words)
        self.script.read(self.current.keras)
        if request.knob == WORKERS:
            return self.script.why_not_workers(request.value)
        if request.knob == CACHE:
            return self.script.why_no_cache or self._deferred.refusal(request)
        is_known = request.knob in (PREFETCH, DEVICE_PREFETCH)
        return "" if is_known else Refusal.NOT_OURS.words

    def refuse_all(self, steps: int) -> None:
        """Refuse all requests after `steps` steps: the batches come straight from Keras'
        iterator."""
        if self._control.has_requests:
            now_ns = self._writer.now_ns()
            for request in self._control.take(steps):
                now, new = getattr(self._control.knobs, request.knob), request.value
                failed = SwitchFailed(
                    now_ns, request.knob, Refusal.NOT_SPLIT.words, now, new, steps, now
                )
                self._writer.event(failed)

    def _refuse(self, reason: str) -> None:
        """Record that the requested switches that are not in effect failed."""
        if not self.requested:
            self._writer.note(f"a request is not carried out: {reason}", is_refusal=True)
        requested, self.requested = self.requested, []
        for asked in [*requested, *self._deferred.cancel_cache(self._control.knobs)]:
            now_ns, now = self._writer.now_ns(), getattr(self._control.knobs, asked.knob)
            if now == asked.new:  # what failed came after it
                self.requested.append(asked)
            else:
                self._writer.event(
                    SwitchFailed(now_ns, asked.knob, reason, asked.old, asked.new, asked.step, now)
                )

    # -- reports ----------------------------------------------------------------------------------

    def report(self, step: int) -> bool:
        """Report the switches whose first batch is that of `step`, or came before; return whether
        there are any."""
        if self._late is not None or self.current.is_switching:
            return False
        now = self._writer.now_ns()
        requested, self.requested = self.requested, []
        for asked in requested:
            if asked.new != asked.old:  # a cache turned off while it fills was never in effect
                self._writer.event(
                    PipelineSwitched(
                        now,
                        asked.knob,
                        asked.old,
                        asked.new,
                        asked.step,
                        step,
                        self._build_ms,
                        asked.by,
                    )
                )
        self._deferred.close_unused_cache(self._control.knobs)
        self.current.leave_gate(self._control.knobs)
        return True

    def close(self) -> None:
        """End with the training: report the switches that it did not wait for."""
        ends = (
            self._report_unreached,
            self._end_late,
            self.current.drop,
            self.current.close,
        )
        for part in (*ends, self._deferred.close):
            with fails_open(self._note_failure):
                part()

    def _report_unreached(self) -> None:
        """Record the planned switches whose step was never reached."""
        knobs = self._control.knobs
        planned, self._control.planned = self._control.planned, []
        for due in planned:
            turned = knobs.with_value(due.knob, due.value)
            for knob, old, new in knobs.differences(turned):
                self._writer.event(SwitchMissed(self._writer.now_ns(), knob, old, new, due.at_step))
            knobs = turned

    def _end_late(self) -> None:
        """Record the switches that the `fit` ended too early for, while their data was read
        again."""
        if self._late is not None:
            self._leave_late()
            for asked in self.requested:
                now_ns = self._writer.now_ns()
                self._writer.event(
                    SwitchMissed(now_ns, asked.knob, asked.old, asked.new, asked.step)
                )
            self.requested.clear()
