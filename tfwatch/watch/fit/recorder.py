"""Choose how the steps of one `fit` run in place of Keras' train function, in the training
thread."""

from __future__ import annotations

import threading
from functools import cached_property, partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open, message_of, raise_interrupt
from tfwatch.core.knobs import NotTimed
from tfwatch.tfdata.disposal import keep_when_forked
from tfwatch.watch.fit.fetch import Fetch
from tfwatch.watch.fit.stepping.batch_step import BatchStep, Placement
from tfwatch.watch.fit.stepping.device_copy import make_copy, why_no_device_prefetch
from tfwatch.watch.fit.stepping.eager_operations import time_operations
from tfwatch.watch.fit.stepping.fused_steps import FusedSteps
from tfwatch.watch.fit.stepping.kept_traces import find_kept, keep
from tfwatch.watch.fit.stepping.single_step import SingleStep
from tfwatch.watch.fit.stepping.step_runners import (
    ITERATORS,
    InGraphRunner,
    StepByStepRunner,
    TrainFunction,
    UnfusedRunner,
    UntimedRunner,
    is_keras_own,
)
from tfwatch.watch.fit.trained_variables import note_trained
from tfwatch.watch.tensorflow_info import note_replicas
from tfwatch.watch.traces import CompiledShapes, is_one_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.tfdata.live_switch import BatchSpec
    from tfwatch.watch.fit.stepping.eager_operations import Operations
    from tfwatch.watch.fit.stepping.step_runners import Runner
    from tfwatch.watch.session import Session

_NOT_KERAS = (
    "the model's train function is not Keras' own (make_train_function, or train_function itself,"
    " is replaced)"
)

_MAKE = "make_train_function"


class Recorder:
    """One `fit` of one model.

    step_log: of its steps and validations. is_passive: the `fit` is over, or is left to Keras:
    every call goes to the original train function.
    """

    def __init__(self, session: Session, model: Any) -> None:
        self.writer = session.writer
        self.writer.training_thread = threading.get_ident()
        self.is_passive = False
        self._session = session
        self._model = model
        self.step_log = session.step_log
        self._fetch = Fetch(session)
        self._train_function = TrainFunction(
            model, session, self.step_log, self._adopt, self._report_error
        )
        self._runner: Runner | None = None
        self._spec: Any = None
        self._remaking: _Remaking | None = None
        self._has_step_raised = False
        self._why_exact = ""
        self._history = getattr(model, "history", None)
        keep_when_forked(self)

    # -- what Keras calls ---------------------------------------------------------------------

    def begin_epoch(self, epoch: int, epochs: int, steps: int | None) -> None:
        """Begin an epoch, and install the train function if it is not installed."""
        self.step_log.begin_epoch(epoch, epochs, steps)
        try:
            self._install()
        except Exception as error:  # noqa: BLE001  the boundary between tfwatch and the training
            raise_interrupt(error)
            self._give_up(error)
            self._fetch.switches.hand_back(self.step_log.steps)
            self._release()
        if not (self.is_passive or isinstance(self._runner, UntimedRunner)):
            self._fetch.switches.begin_epoch(self.step_log.steps)

    def end_epoch(self, logs: dict[str, Any] | None) -> None:
        """Record the end of an epoch and its validation."""
        self.step_log.end_epoch(logs)
        with fails_open(self.report_failure):
            self._train_function.stop_if_asked()

    def during_validation(self) -> None:
        """Stop a validation after a batch if the training is to stop."""
        if self._session.control.stop.is_set():
            self._model.stop_evaluating = True

    def report_failure(self, why: str) -> None:
        """Record a failure of tfwatch itself, where that is possible."""
        self.step_log.report_failure(why)

    def end(self) -> None:
        """End the training, for whatever reason."""
        for part in (self._close_step_log, self._release, self._fetch.close):
            with fails_open(self.report_failure):
                part()

    def _close_step_log(self) -> None:
        self.step_log.end_step(self.writer.now_ns())
        self.step_log.traces.flush()
        self.step_log.profiler.close()
        self.step_log.closed = True

    def _install(self) -> None:
        self._train_function.is_called = False
        if not self.is_passive and not self._train_function.is_installed:
            self._train_function.install()
            self._runner = None
        if not self.is_passive and self._remaking is None:
            self._remaking = _Remaking(self._model, self._train_function, self._install_again)

    def _install_again(self) -> None:
        with fails_open(self.report_failure):
            self._install()

    def _release(self) -> None:
        """Leave every further call to the model's own train function."""
        self.is_passive, self._runner = True, None
        self._train_function.uninstall()
        if self._remaking:
            self._remaking.remove()

    # -- a new iterator -------------------------------------------------------------------------

    def _adopt(self, original: Callable[[Any], Any], iterator: Any) -> Runner | None:
        """Prepare for a new iterator, and return its runner; None if its calls are left to Keras.

        Raises:
            Exception: the training's own, from the first trace of its step.
        """
        # A generator is that of a `train_on_batch` between two steps.
        if self.is_passive or isinstance(iterator, GeneratorType):
            return None
        with fails_open(self.report_failure):
            if self._is_abandoned():
                self._end_by(self._session.on_abandoned or (lambda: None))
                return None
        self._has_step_raised = False
        try:
            self._choose_runner(original, iterator)
        except Exception as error:
            raise_interrupt(error)
            if self._has_step_raised:
                raise
            self._give_up(error)
        return self._runner

    def _is_abandoned(self) -> bool:
        """Return whether an exception ended the `fit` of this recorder without a callback, and a
        later `fit` runs.

        A `fit` makes an iterator only in its epochs, and has its own `History`. In Keras 3.8 an
        `evaluate` has one too, without epochs.
        """
        history = getattr(self._model, "history", None)
        return self._train_function.is_called or (
            history is not self._history and hasattr(history, "epoch")
        )

    def _choose_runner(self, original: Callable[[Any], Any], iterator: Any) -> None:
        """Choose how the steps run, with the first call of an iterator."""
        if isinstance(self._runner, UntimedRunner):
            return
        if not is_keras_own(original):
            raise TypeError(_NOT_KERAS)
        self.step_log.use_train_function(original)
        if not isinstance(iterator, ITERATORS):
            raise TypeError(
                f"its batches come from a {type(iterator).__name__}, which tfwatch cannot fetch"
                " from"
            )
        is_spread = isinstance(iterator, tf.distribute.DistributedIterator)
        if is_spread:
            note_replicas(self.writer, iterator)
        steps = self._model.steps_per_execution
        eager = self._model.run_eagerly or tf.config.functions_run_eagerly()
        # In Python the fetch for two GPUs made a step of 21 ms 1.12 times as long, and looked like
        # data wait.
        is_in_graph = (steps > 1 or is_spread) and not eager and not self._why_exact
        if is_in_graph and self._prepare_in_graph(original, iterator, steps):
            return
        shape = self._fetch.use_iterator(iterator)
        if self._runner is None or shape != self._spec:
            self.step_log.compiled = None if eager else self._find_compiled(original, shape)
            # Under a distribution strategy other threads run operations too.
            step = self._find_step(original, shape, eager=eager, timed=eager and not is_spread)
            is_flat = shape.flat is not None
            copy = make_copy(
                self.writer,
                self._model,
                step.placement,
                partial(self._fetch.switches.gives_pinned, iterator),
                eager=eager,
                is_flat=is_flat,
                is_spread=is_spread,
            )
            self._fetch.switches.placement = step.placement
            common = (self._fetch, self.step_log, self.writer)
            self.step_log.profiler.use(self._model, step)
            if steps > 1:
                self._use(UnfusedRunner(step, *common, steps, copy=copy), shape)
            else:
                self._use(StepByStepRunner(step, *common, copy=copy), shape)

    def _find_step(
        self, original: Callable[[Any], Any], shape: BatchSpec, *, eager: bool, timed: bool
    ) -> BatchStep:
        """Return the step that an earlier `fit` traced, or a new one."""
        if eager:
            return BatchStep(
                original, shape, eager=True, operations=self._operations if timed else None
            )
        step = find_kept(original, BatchStep, shape)
        if step is None or not step.is_traced:
            step = BatchStep(original, shape, eager=False)
            keep(original, step, shape)
        self._note_trained(original, shape, is_traced=step.is_traced)
        return step

    def _note_trained(
        self, original: Callable[[Any], Any], spec: object, *, is_traced: bool
    ) -> None:
        with fails_open(self.report_failure):
            note_trained(self._model, original, spec, self.writer, is_traced=is_traced)

    def _find_compiled(
        self, original: Callable[[Any], Any], shape: BatchSpec
    ) -> CompiledShapes | None:
        """Return the shapes that XLA has compiled a step for, where batches may have several."""
        with fails_open(self.report_failure):
            if self._model.jit_compile and not is_one_shape(shape.spec):
                compiled = find_kept(original, CompiledShapes, shape) or CompiledShapes()
                keep(original, compiled, shape)
                return compiled
        return None

    def _prepare_in_graph(self, original: Callable[[Any], Any], iterator: Any, steps: int) -> bool:
        """Prepare to read the clock in the graph; return False if a single step cannot: it is timed
        exactly then.

        Raises:
            Exception: the training's own, or the trace of several steps fails.
        """
        # Trace first, as tracing may fail: once the iterator is in use, batches may be fetched
        # ahead.
        if self._runner is None or iterator._type_spec != self._spec:
            try:
                runner = self._trace_in_graph(original, iterator, steps)
            except Exception as error:
                raise_interrupt(error)
                if steps > 1 or self._has_step_raised:
                    raise
                self._why_exact = _first_line(error)
                return False
            is_spread = isinstance(iterator, tf.distribute.DistributedIterator)
            why = NotTimed.SPREAD if is_spread else NotTimed.IN_GRAPH
            self._fetch.switches.placement = Placement(why_in_call=None if is_spread else why)
            no_copy = (why_no_device_prefetch() or why).value
            self.writer.describe(copied_bytes={}, copied_ahead=False, copy_not_timed=no_copy)
            self.step_log.profiler.use(self._model)
            self._use(runner, iterator._type_spec)
        self._fetch.use_iterator(iterator)
        return True

    def _trace_in_graph(
        self, original: Callable[[Any], Any], iterator: Any, steps: int
    ) -> InGraphRunner:
        step, spec = self._note_raise(original), iterator._type_spec
        traced: FusedSteps | SingleStep | None
        traced = (
            find_kept(original, FusedSteps, spec)
            if steps > 1
            else find_kept(original, SingleStep, spec)
        )
        self._note_trained(original, spec, is_traced=traced is not None)
        runner = InGraphRunner(
            step, traced, iterator, self._fetch, self.step_log, self.writer, steps
        )
        if traced is None:
            keep(original, runner.steps, spec)
        return runner

    def _note_raise(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return Keras' function, which notes that it raised: then no other way is tried."""

        def step(batches: Any) -> Any:
            try:
                return original(batches)
            except BaseException:
                self._has_step_raised = True
                raise

        return step

    @cached_property
    def _operations(self) -> Operations | None:
        return time_operations(self.writer)

    def _use(self, runner: StepByStepRunner | InGraphRunner, spec: Any) -> None:
        self._runner, self._spec = runner, spec
        why_exact = (
            f", as the clock cannot be read in the graph: {self._why_exact}"
            if self._why_exact
            else ""
        )
        split = runner.description + why_exact
        is_new = self.writer.manifest().split != split
        self.writer.describe(split=split, not_split="")
        if is_new and (why_exact or self._model.steps_per_execution > 1):
            self.writer.note(f"step timing: {split}")

    def _give_up(self, error: Exception) -> None:
        """Leave the steps to Keras."""
        with fails_open(self.report_failure):
            reason = _first_line(error)
            no_copy = (why_no_device_prefetch() or NotTimed.NOT_SPLIT).value
            self.writer.describe(
                split="", not_split=reason, copied_bytes={}, copy_not_timed=no_copy
            )
            self.writer.note(f"the steps of this fit are not split: {reason}")
        self._runner = UntimedRunner(
            self._fetch, self.step_log, self.writer, self._model.steps_per_execution
        )

    def _report_error(self, error: BaseException) -> None:
        if self._session.on_error:
            self._end_by(partial(self._session.on_error, error))

    def _end_by(self, report: Callable[[], None]) -> None:
        """End the run and report why. A failure here is recorded, and never replaces the training's
        error."""
        for part in (self.end, report):
            with fails_open(self.report_failure):
                part()


class _Remaking:
    """Stands in for a model's `make_train_function`: what a callback makes within an epoch is
    replaced at once. It would fetch from Keras' iterator and miss the batches prepared ahead."""

    def __init__(self, model: Any, watched: TrainFunction, install: Callable[[], None]) -> None:
        if isinstance(left := vars(model).get(_MAKE), _Remaking):  # by a `fit` that raised
            left.remove()
        self._model, self._watched, self._install = model, watched, install
        self._make = model.make_train_function
        self._own = vars(model).get(_MAKE)
        vars(model)[_MAKE] = self

    def __call__(self, *args: Any, **options: Any) -> Any:
        found = self._model.train_function
        made = self._make(*args, **options)
        # A stand-in of another `Watch` stays.
        if found is self._watched or not isinstance(found, TrainFunction):
            self._install()
        return made

    def remove(self) -> None:
        """Restore the model's own, unless the script has replaced this one."""
        names = vars(self._model)
        if names.get(_MAKE) is self:
            del names[_MAKE]
            names.update({} if self._own is None else {_MAKE: self._own})


def _first_line(error: Exception) -> str:
    return message_of(error).partition("\n")[0] or type(error).__name__
