"""The iterators that give the batches of an epoch: that of Keras, stages above it, or a rebuilt
pipeline."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open
from tfwatch.core.knobs import Refusal
from tfwatch.tfdata.disposal import dispose, dispose_unless_referenced
from tfwatch.tfdata.live_switch import BatchIterator, BatchSpec, SwitchablePipeline
from tfwatch.tfdata.work_ahead import is_added, prefetch_only
from tfwatch.watch.fit.switching.script_pipeline import why_not_switchable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.knobs import Knobs
    from tfwatch.tfdata.work_ahead import CopyStamps
    from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline


class CurrentPipeline:
    """The iterators of a `fit`: Keras' own, and a `SwitchablePipeline` above it or in its place.

    keras: the iterator that Keras made. refusal: the reason why no pipeline can read from it; None
        if one can. It is asked for once, as a cache in a file is on a disk or in a network.
    pipeline: the switchable one. script: the script's pipeline, which may give its batches in place
    of Keras' iterator.
    is_switchable: the batches come through the switchable pipeline.
    """

    def __init__(
        self,
        script: ScriptPipeline,
        note_failure: Callable[[str], None],
    ) -> None:
        self.keras: Any = None
        self.refusal: Refusal | None = None
        self.is_switchable = False
        self.script = script
        self._note_failure = note_failure
        self.pipeline = SwitchablePipeline(prefetch_only)
        self._direct: Any = None
        self._first_step: int | None = None
        self._rebuilt_after = 0

    def use(self, iterator: Any) -> bool:
        """Take the iterator of Keras' that the next batches belong to; return whether it is a new
        one."""
        is_new, self.keras = iterator is not self.keras, iterator
        if is_new:
            self._first_step, self.refusal = None, why_not_switchable(iterator)
        return is_new

    def start_as_written(self, knobs: Knobs) -> None:
        """Begin with Keras' iterator, with the stages that the knobs add."""
        if self.script.is_rebuilt:
            self._replace(SwitchablePipeline(prefetch_only), is_rebuilt=False)
        self.is_switchable = is_added(knobs) and not self.refusal
        if self.is_switchable:
            self.pipeline.start(self.keras, knobs)
        else:
            self.pipeline.close()

    def open_direct(self) -> None:
        """Prepare to fetch from Keras' iterator itself."""
        old, self._direct = [self._direct], BatchIterator(self.keras)
        if self.refusal is Refusal.CACHE_FILE:
            old.clear()  # here, as without tfwatch: the new one cannot begin before
        else:
            dispose(old, [], [])

    def start_rebuilt(self, source: Any, knobs: Knobs, batches: int) -> None:
        """Continue with the rebuilt pipeline over a source that so many batches of Keras' iterator
        precede."""
        pipeline = SwitchablePipeline(self.script.build)
        pipeline.start(source, knobs)
        # All or nothing: batches come from the rebuilt pipeline from here on.
        self._replace(pipeline, is_rebuilt=True)
        self.is_switchable, self._rebuilt_after = True, batches

    def _replace(self, pipeline: SwitchablePipeline, *, is_rebuilt: bool) -> None:
        old, self.pipeline, self.script.is_rebuilt = self.pipeline, pipeline, is_rebuilt
        with fails_open(self._note_failure):
            old.close()

    def switch(self, knobs: Knobs) -> None:
        """Exchange the stages above the source for those of the knobs."""
        if self.is_switchable:
            self.pipeline.switch(knobs)
        else:
            self.pipeline.start(self.keras, knobs)
            self.is_switchable = True

    def note_step(self, steps: int) -> None:
        """Note the steps before the first batch of Keras' iterator: a rebuilt pipeline skips what
        it has given."""
        if self._first_step is None:
            self._first_step = steps

    def batches_given(self, steps: int) -> int:
        """Return the number of batches that Keras' iterator has given after `steps` steps."""
        return 0 if self._first_step is None else steps - self._first_step

    def next(self) -> Any:
        """Return the next batch.

        Raises:
            StopIteration: the data is exhausted, or `has_successor` continues it.
        """
        return (self.pipeline.batches if self.is_switchable else self._direct).next()

    @property
    def has_successor(self) -> bool:
        """True where another pipeline continues the data that has ended."""
        return self.is_switchable and self.pipeline.has_successor

    def hand_back(self, steps: int) -> None:
        """Continue with Keras' iterator after `steps` steps: drop those that the rebuilt pipeline
        gave.

        A pipeline over that iterator must hold no batch.
        """
        self.is_switchable = False
        if self.script.is_rebuilt:
            self.script.is_rebuilt = False
            with fails_open(self._note_failure):
                self.pipeline.close()
            with suppress(StopIteration):
                for _ in range(self.batches_given(steps) - self._rebuilt_after):
                    self._direct.next()

    @property
    def spec(self) -> BatchSpec:
        """The structure of the batches."""
        return self._direct.shape  # type: ignore[no-any-return]

    @property
    def stamps(self) -> CopyStamps | None:
        """The times at which batches were ready to be copied ahead; None where none are."""
        return self.pipeline.batches.stamps if self.is_switchable else None

    @property
    def iterator(self) -> Any:
        """The iterator of the next batch."""
        return self.pipeline.iterator if self.is_switchable else self.keras

    def observed(self) -> tuple[Any, Any]:
        """Return the source below the gate, None without a gate, and the iterator of the batches.

        Any thread may call it. Both are None between two epochs.
        """
        if not self.is_switchable:
            return None, self.keras
        source, batches = self.pipeline.source, self.pipeline.iterator
        return (source, batches) if source is not None else (None, None)

    def leave_gate(self, knobs: Knobs) -> None:
        """Fetch from Keras' iterator itself where the knobs add nothing: nothing is buffered, the
        gate only costs."""
        if not self.script.is_rebuilt and not is_added(knobs):
            self.is_switchable = False

    def drop(self) -> None:
        """Let go of Keras' iterator."""
        last = [self.keras]
        self.keras = self._direct = None
        if self.refusal is not Refusal.CACHE_FILE:
            dispose_unless_referenced(last)
