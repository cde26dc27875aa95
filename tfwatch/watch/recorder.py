"""Stands in for Keras' train function during one `fit`: has its steps timed, and carries out what was asked of it.

Runs in the training thread.
"""

from __future__ import annotations

import threading
from functools import cached_property, partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Literal

import tensorflow as tf

from tfwatch.core.errors import fails_open, said
from tfwatch.watch.eager_operations import op_by_op
from tfwatch.watch.fetch import Fetch
from tfwatch.watch.step_log import Books
from tfwatch.watch.step_runners import (
    ITERATORS,
    BatchStep,
    InGraph,
    StepByStep,
    Unfused,
    Whole,
    install,
    is_installed,
    is_keras_own,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.watch.eager_operations import Operations
    from tfwatch.watch.session import Session

#: How the steps of a call of several are told apart: see `Watch`.
Split = Literal["fused", "exact"]
_NOT_KERAS = "the model's train function is not Keras' own (make_train_function, or train_function itself, is replaced)"
_IN_A_SCRIPT = "tfwatch train cannot feed it; a script of its own with Watch() runs it as it is"


class Recorder:
    """One `fit` of one model.

    passes: the `fit` is over, or not stood in for: every call passes through.
    """

    def __init__(self, session: Session, model: Any, split: Split = "fused") -> None:
        self.writer = session.writer
        self.writer.trains_in = threading.get_ident()
        self.passes = False
        self._session = session
        self._model = model
        self._split = split
        self._books = Books(session.writer, session.metric)
        self._fetch = Fetch(session)
        self._iterator: Any = None
        self._way: StepByStep | InGraph | Whole | None = None
        self._spec: Any = None
        self._take_back: Callable[[], None] = lambda: None
        self._step_raised = False
        self._history = getattr(model, "history", None)
        self._armed = False

    # -- what Keras calls ---------------------------------------------------------------------

    def begin_epoch(self, epoch: int, epochs: int, steps: int | None) -> None:
        """An epoch begins; the stand-in is put in place where it is not."""
        self._armed = True
        # Where an epoch's length is unknown, how many epochs so many steps take is unknown too.
        self._books.begin_epoch(epoch, 0 if steps is None and self._session.stop_after else epochs, steps)
        try:
            self._stand_in()
        except Exception as error:  # noqa: BLE001  the boundary between tfwatch and the training
            self._give_up(error)
            self._take_back()
            self.passes = True
        if self._session.source is not None:
            self._fetch.begin_epoch(self._books.steps)

    def end_epoch(self, logs: dict[str, Any] | None) -> None:
        """An epoch and its validation are over."""
        self._books.end_epoch(logs)
        self._obey_stop()

    def begin_validation(self) -> None:
        """A validation begins."""
        self._books.begin_validation()

    def during_validation(self) -> None:
        """A batch of the validation is done."""
        if self._session.control.stop.is_set():
            self._model.stop_evaluating = True

    def end_validation(self) -> None:
        """The validation is over."""
        self._books.end_validation()

    def end(self) -> None:
        """The training is over, however it ended."""
        self._books.end_step(self.writer.now_ns())
        self.passes = self._books.closed = True
        self._take_back()
        self._iterator = self._way = None
        self._fetch.close()

    def _stand_in(self) -> None:
        if not self.passes and not is_installed(self._model, self.train_step):
            self._take_back = install(self._model, self.train_step)
            self._way = None

    # -- a step ---------------------------------------------------------------------------------

    def train_step(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        """Stand in for one call of Keras' train function."""
        if self.passes:
            return original(iterator)
        try:
            if iterator is self._iterator or self._adopt(original, iterator):
                return self._carry_out(original, iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            raise
        except BaseException as error:
            self._tell_error(error)
            raise
        return original(iterator)

    def _carry_out(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        logs = self._way(original, iterator)  # type: ignore[misc]
        self._armed = False
        self._obey_stop()
        return logs

    def _adopt(self, original: Callable[[Any], Any], iterator: Any) -> bool:
        """Take a new iterator on; says whether its calls are stood in for.

        Raises:
            Exception: the training's own, from a first trace of its step.
        """
        if isinstance(iterator, GeneratorType):  # of a `train_on_batch` between two steps
            return False
        if self._is_abandoned():
            self._end_by(self._session.on_abandoned or (lambda: None))
            return False
        self._step_raised = False
        try:
            self._find_way(original, iterator)
        except Exception as error:
            if self._step_raised:
                raise
            self._give_up(error)
        self._iterator = iterator
        return True

    def _is_abandoned(self) -> bool:
        """Whether this is a later `fit`, and the one that this belongs to went without a word: by an exception.

        A `fit` makes an iterator in its epochs only, and has a `History` of its own. In Keras 3.8 an `evaluate` has
        one too, which knows no epochs.
        """
        history = getattr(self._model, "history", None)
        return not self._armed or (history is not self._history and hasattr(history, "epoch"))

    def _find_way(self, original: Callable[[Any], Any], iterator: Any) -> None:
        """Decide how the steps are run, with the iterator's first call."""
        if isinstance(self._way, Whole):
            return
        if not is_keras_own(original):
            raise TypeError(_NOT_KERAS if self._session.source is None else f"{_NOT_KERAS}: {_IN_A_SCRIPT}")
        if not isinstance(iterator, ITERATORS):
            raise TypeError(f"batches of this kind ({type(iterator).__name__}) cannot be fetched one by one")
        steps = self._model.steps_per_execution
        eager = self._model.run_eagerly or tf.config.functions_run_eagerly()
        if steps > 1 and self._split == "fused" and not eager:
            self._adopt_fused(original, iterator, steps)
            return
        shape = self._fetch.adopt(iterator)
        if self._way is None or shape != self._spec:
            # Under a strategy other threads run operations too.
            timed = eager and not isinstance(iterator, tf.distribute.DistributedIterator)
            step = BatchStep(original, shape, eager=eager, operations=self._operations if timed else None)
            phantom = self._session.source is None
            books = (self._fetch, self._books, self.writer)
            self._use(Unfused(step, *books, steps) if steps > 1 else StepByStep(step, *books, phantom=phantom), shape)

    def _adopt_fused(self, original: Callable[[Any], Any], iterator: Any, steps: int) -> None:
        # First what may not be traced: from the iterator that is adopted then, batches may be fetched ahead at once.
        like = self._fetch.like(iterator)
        if self._way is None or like._type_spec != self._spec:
            step = self._noted(original)
            self._use(InGraph(step, like, self._fetch, self._books, self.writer, steps), like._type_spec)
        self._fetch.adopt(iterator)

    def _noted(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Keras' function; that it raises is noted: nothing is tried in its place then."""

        def step(batches: Any) -> Any:
            try:
                return original(batches)
            except BaseException:
                self._step_raised = True
                raise

        return step

    @cached_property
    def _operations(self) -> Operations | None:
        return op_by_op(self.writer)

    def _use(self, way: StepByStep | InGraph, spec: Any) -> None:
        self._way, self._spec = way, spec
        self.writer.describe(split=way.words, not_split="")
        if self._model.steps_per_execution > 1:
            self.writer.note(f"how the steps are told apart: {way.words}")

    def _give_up(self, error: Exception) -> None:
        """Leave the steps to the model. With batches of tfwatch's own that would be training on a stand-in's zeros."""
        if self._session.source is not None:
            raise error
        reason = said(error).partition("\n")[0] or type(error).__name__
        self.writer.describe(split="", not_split=reason)
        self.writer.note(f"the steps of this fit are not split: {reason}")
        self._way = Whole(self._fetch, self._books, self.writer, self._model.steps_per_execution)

    def _tell_error(self, error: BaseException) -> None:
        if self._session.on_error:
            self._end_by(partial(self._session.on_error, error))

    def _end_by(self, tell: Callable[[], None]) -> None:
        """End, and say why. What fails in that is told, and never raised in the place of the training's own."""
        for part in (self.end, tell):
            with fails_open(self._books.report_failure):
                part()

    def _obey_stop(self) -> None:
        if self._session.is_over(self._books.steps):
            self._model.stop_training = True
