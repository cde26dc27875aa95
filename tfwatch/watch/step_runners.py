"""Runs one call of Keras' train function batch by batch, and times the fetch and the step of each.

The exact split of every step, by standing in for `model.train_function`.

Keras calls `train_function(iterator)` once a step. The stand-in fetches the batch itself, runs Keras' own
compiled step on it, pulls the metrics as Keras does next, and reads the clock in between. The result is that
of stock `fit`, bit for bit; the fetch is cheaper than Keras' own inside the graph.

The ways to carry out one call of Keras' train function, and to time the steps in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from keras.src.backend.tensorflow import trainer
from keras.src.utils.python_utils import pythonify_logs

from tfwatch.core.rows import Flag, Phase
from tfwatch.tfdata.stage_model import LATE_NS
from tfwatch.watch.fused_steps import FusedSteps, find_clock, offset_ns, was_set

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.batches import Shape
    from tfwatch.watch.eager_operations import Operations
    from tfwatch.watch.fetch import Fetch
    from tfwatch.watch.step_log import Books

    Original = Callable[[Any], Any]

#: Only these are split; anything else that Keras hands in passes through.
ITERATORS = (tf.data.Iterator, tf.distribute.DistributedIterator)


class BatchStep:
    """Keras' compiled train step as a function of one batch, made once a step function and shape of a batch.

    ready: the way to call it is found, so that no trace is to come. traces: how many were finished.
    operations: times those of a step that runs op by op; None where it does not, or they cannot be timed.

    Without the signature a ragged last batch would cost another trace, which stock `fit` does not have. Where this
    form fails before Keras' function begins, that function is called on the batch as it is. What is raised from then
    on is the training's own error: a second try would run the user's Python twice, on state that the first one left
    half built.
    """

    def __init__(
        self,
        original: Callable[[Any], Any],
        shape: Shape,
        *,
        eager: bool,
        operations: Operations | None = None,
    ) -> None:
        self.traces = 0
        self.operations = operations
        self._original = original
        self._shape = shape
        self._begun = False
        self._call = self._plain if eager else self._trace
        self.ready = eager

    def __call__(self, batch: Any) -> Any:
        if self.ready:
            return self._call(batch)
        try:
            outputs = self._call(batch)
        except Exception:
            if self._begun:
                raise
            self._call = self._plain
            outputs = self._call(batch)
        self.ready = True
        return outputs

    def _plain(self, batch: Any) -> Any:
        if self.operations:
            return self.operations.call(self._original, iter((self._shape.pack(batch),)))
        return self._original(iter((self._shape.pack(batch),)))

    def _trace(self, batch: Any) -> Any:
        if self._shape.flat is None:
            self._call = self._compiled([self._shape.spec])
        else:
            # Called with plain tensors in a signature's order, a trace needs no look-up: 170 us less a step.
            concrete = self._compiled(self._shape.flat).get_concrete_function()
            self._call = lambda batch: concrete(*batch)
        return self._call(batch)

    def _compiled(self, signature: list[Any]) -> Any:
        def step(*parts: Any) -> Any:
            batch = self._shape.ensure(parts[0] if self._shape.flat is None else self._shape.pack(list(parts)))
            self._begun = True
            outputs = self._original(iter((batch,)))
            self.traces += 1
            return outputs

        return tf.function(step, input_signature=signature, autograph=False)


def install(model: Any, step: Callable[[Callable[[Any], Any], Any], Any]) -> Callable[[], None]:
    """Have `step(original, iterator)` stand in for the model's train function; returns what takes it back.

    A stand-in that another Watch left behind is replaced, never nested.
    """
    found = model.train_function
    original = getattr(found, "tfwatch_original", found)

    def train_function(iterator: Any) -> Any:
        return step(original, iterator)

    train_function.tfwatch_original = original  # type: ignore[attr-defined]
    train_function.tfwatch_step = step  # type: ignore[attr-defined]
    model.train_function = train_function

    def take_back() -> None:
        if model.train_function is train_function:
            model.train_function = original

    return take_back


def is_installed(model: Any, step: Callable[[Callable[[Any], Any], Any], Any]) -> bool:
    """Whether `step` stands in: `compile` and `make_train_function` put a new function in its place."""
    return getattr(model.train_function, "tfwatch_step", None) == step


def is_keras_own(original: Callable[[Any], Any]) -> bool:
    """Whether a train function is Keras' own: it alone is known to take one batch a step, and any iterator.

    A script may make one that takes several, or that does something in Python with each call.
    """
    return getattr(original, "__globals__", None) is vars(trainer)


def on_host(outputs: Any) -> dict[str, Any]:
    """The step's metrics as numbers: waits for the device, as Keras itself does after every batch."""
    return pythonify_logs(outputs)  # type: ignore[no-any-return]


_COMPILE, _RETRACE = int(Flag.COMPILE), int(Flag.RETRACE)


class StepByStep:
    """Fetches a batch outside the graph and runs Keras' compiled step on it: the exact split.

    words: how the figures come about. phantom: hand the exhausted iterator to Keras' own function, which may run a
    step on it, as stock does where it runs one step a call.
    """

    words = "exact"

    def __init__(self, step: BatchStep, fetch: Fetch, books: Books, writer: RunWriter, *, phantom: bool) -> None:
        self._step = step
        self._fetch = fetch
        self._books = books
        self._now_ns = writer.now_ns
        self._phantom = phantom
        self._done_ns = 0

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Carry out a call; returns the metrics.

        Raises:
            StopIteration: the data is exhausted.
        """
        start_ns = self._now_ns()
        self._books.before(start_ns)
        try:
            batch = self._fetch.next(self._books.steps)
        except StopIteration:
            self._books.say(Phase.EPOCH_END)
            if self._phantom:
                return original(iterator)
            raise
        return self._run(start_ns, batch)

    def _run(self, start_ns: int, batch: Any) -> dict[str, Any]:
        got_ns = self._now_ns()
        books, step = self._books, self._step
        ready, traces = step.ready, step.traces
        books.begin(Phase.COMPUTE if ready else Phase.COMPILE, got_ns)
        outputs = step(batch)
        dispatched_ns = self._now_ns()
        if step.operations:  # op by op on a CPU they compute: only the rest is launching
            dispatched_ns -= step.operations.took_ns
        logs = on_host(outputs)
        self._done_ns = done_ns = self._now_ns()
        if not ready or step.traces != traces:
            books.flags |= _RETRACE if ready else _COMPILE
        books.steps += 1
        if got_ns - start_ns > LATE_NS:
            self._fetch.late(got_ns - start_ns)
        books.after(start_ns, got_ns, dispatched_ns, done_ns, self._fetch.flags, batch, logs)
        return logs


class Unfused(StepByStep):
    """Runs the `steps_per_execution` steps of a call one by one; the last one's metrics are the call's."""

    def __init__(self, step: BatchStep, fetch: Fetch, books: Books, writer: RunWriter, steps: int) -> None:
        super().__init__(step, fetch, books, writer, phantom=False)
        self.words = f"exact, steps_per_execution={steps} one by one"
        self._steps = steps

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Carry out a call; returns the metrics.

        Raises:
            StopIteration: the data is exhausted.
        """
        logs = super().__call__(original, iterator)
        for _ in range(self._steps - 1):
            start_ns = self._done_ns
            self._books.begin(Phase.WAIT, start_ns)
            try:
                batch = self._fetch.next(self._books.steps)
            except StopIteration:
                self._books.say(Phase.HOST)
                break
            self._books.end_step(start_ns)
            logs = self._run(start_ns, batch)
        return logs


class Whole:
    """Leaves the steps of a call to the model's train function, as it is: they are counted, and have no rows."""

    def __init__(self, fetch: Fetch, books: Books, writer: RunWriter, steps: int) -> None:
        self._fetch = fetch
        self._books = books
        self._now_ns = writer.now_ns
        self._steps = steps

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Carry out a call; returns what it returns.

        Raises:
            StopIteration: the data is exhausted.
        """
        self._fetch.refuse()
        self._books.begin(Phase.COMPUTE, self._now_ns())
        outputs = original(iterator)
        self._books.after_whole(self._steps, outputs if isinstance(outputs, dict) else {})
        return outputs


class InGraph:
    """Runs the `steps_per_execution` steps of a call as Keras does, in one call, with the clock read in the graph.

    Raises:
        Exception: the function cannot be traced, or raises while it is; no step has run then.
    """

    def __init__(
        self, original: Original, iterator: Any, fetch: Fetch, books: Books, writer: RunWriter, steps: int
    ) -> None:
        self.words = f"in-graph timestamps, steps_per_execution={steps}"
        self._fetch = fetch
        self._books = books
        self._writer = writer
        self._steps = steps
        # Tracing is part of the first step.
        self._begun_ns = writer.now_ns()
        books.begin(Phase.COMPILE, self._begun_ns)
        self._fused = FusedSteps(original, iterator, find_clock(writer))
        books.flags |= _COMPILE

    def __call__(self, original: Original, iterator: Any) -> Any:
        """Carry out a call; returns the metrics.

        Raises:
            StopIteration: the data is exhausted.
        """
        start_ns, self._begun_ns = self._begun_ns or self._writer.now_ns(), 0
        self._books.end_step(start_ns)
        self._books.begin(Phase.COMPUTE, start_ns)
        runs: list[NDArray[np.float64] | None] = []
        flags: list[int] = []
        examples, outputs = 0, None
        source = self._fetch.source(self._books.steps)
        while source is not None:
            stamps_ns, steps, seen, made = self._execute(source, self._steps - len(flags))
            runs.append(stamps_ns)
            if steps:
                examples, outputs = examples + seen, made
                self._fetch.arrived(self._books.steps + len(flags) + 1)
                if stamps_ns is not None and stamps_ns[0, 1] - stamps_ns[0, 0] > LATE_NS:
                    self._fetch.late(stamps_ns[0, 1] - stamps_ns[0, 0])
                flags += [self._fetch.flags, *[0] * (steps - 1)]
            source = None  # who lets go of an iterator last deletes it: see `disposal`
            if len(flags) < self._steps:
                source = self._fetch.successor()
        if not flags:
            self._books.say(Phase.EPOCH_END)
            raise StopIteration
        logs = on_host(outputs)
        self._books.steps += len(flags)
        self._books.after_call(start_ns, self._writer.now_ns(), runs, flags, None if examples < 0 else examples, logs)
        return logs

    def _execute(self, iterator: Any, limit: int) -> tuple[NDArray[np.float64] | None, int, int, Any]:
        """Returns the readings on the run's clock (see `stamps.parts_of`), None where the wall clock was set meanwhile;
        the number of steps and of examples; and what the last step returned."""
        now_ns, clock_ns = self._writer.now_ns, self._fused.clock.now_ns
        begun_ns, ahead_ns = now_ns(), offset_ns(now_ns, clock_ns)
        stamps_s, examples, outputs = self._fused(iterator, limit)
        moved_ns = offset_ns(now_ns, clock_ns) - ahead_ns
        stamps_ns = None if was_set(moved_ns, now_ns() - begun_ns) else stamps_s * 1e9 + ahead_ns
        return stamps_ns, len(stamps_s) - 1, examples, outputs
