"""Keras' loop over `steps_per_execution` steps, with the clock read inside the graph.

The loop is Keras' own, operation for operation (`make_train_function` of its TensorFlow trainer,
the same from 3.8 to 3.15): it fetches the next batch while a step computes, and never more batches
than the call has steps. So the result and the overlap are those of stock `fit`, plus two clock
readings per step.

A GPU executes what the loop launched long before. TensorFlow begins the next iteration of a loop
once every stateful operation of the last one has run, and reading a clock is one. Here the readings
are inside a call that is declared stateless, so the loop does not wait for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.clock import Clock

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GraphClock:
    """A clock that a graph can read. read: adds a reading, float64 seconds. now_ns: reads the same
    clock in Python."""

    read: Callable[[], tf.Tensor]
    now_ns: Callable[[], int]

    def read_after(self, operations: list[Any]) -> tf.Tensor:
        """Add a reading, seconds, once all operations are done."""
        with tf.control_dependencies(operations), tf.device("/CPU:0"):
            return self.read()


def find_clock(clock: Clock) -> GraphClock:
    """Return TensorFlow's wall clock, exact to the microsecond; under op determinism the monotonic
    one, through Python.

    Op determinism forbids TensorFlow's clock. This does not try it: on an H200 the error was raised
    in another thread, and an operation of the loop failed with it.
    """
    if config.is_op_determinism_enabled():
        # Under its default name TensorFlow says of an error in the data's own Python that it came
        # from here.
        read = partial(
            tf.numpy_function, lambda: clock.now_ns() / 1e9, [], tf.float64, name="tfwatch_clock"
        )
        return GraphClock(read, clock.now_ns)
    return GraphClock(tf.timestamp, clock.wall_ns)


class FusedSteps:
    """Several train steps as one compiled function of an iterator.

    Raises:
        Exception: raised by the steps' own Python, or by TensorFlow when it traces them; no step
        has run then.
    """

    def __init__(self, original: Callable[[Any], Any], iterator: Any, clock: GraphClock) -> None:
        self.clock = clock
        self._original = original
        self._spread = isinstance(iterator, tf.distribute.DistributedIterator)
        self._outputs = self._outputs_of(iterator.element_spec)
        self._device = "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"
        self._landed, self._reached = (
            tf.function(read, autograph=False).get_concrete_function(tf.zeros(()))
            for read in (self._when_landed, lambda last: self.clock.read_after([last]))
        )
        signature = [iterator._type_spec, tf.TensorSpec((), tf.int32)]
        self._run = tf.function(
            self.multi_step_on_iterator, input_signature=signature, autograph=False
        ).get_concrete_function()
        del self._original  # the traces may outlive the `fit` that it belongs to

    def __call__(self, iterator: Any, limit: int) -> tuple[NDArray[np.float64], int, Any]:
        """Run up to `limit` steps, fewer at the end of the data.

        Returns (steps + 1, 2) seconds on `clock` (see `split_steps`), the number of examples
        (negative if unknown), and the outputs of the last step: zeros if there was none.
        """
        counts, stamps, outputs = self._run(iterator, tf.constant(limit))
        steps, examples = counts.numpy().tolist()
        return stamps.numpy()[: steps + 1], examples, outputs

    def _step(self, batch: Any) -> Any:
        return self._original(iter((batch,)))

    def _outputs_of(self, batch: Any) -> Any:
        """Return the specs of a step's outputs. Builds the model if it is not built yet."""
        traced = tf.function(
            self._step, input_signature=[batch], autograph=False
        ).get_concrete_function()
        return tf.nest.map_structure(_fixed, traced.structured_outputs)

    def _when_landed(self, last: tf.Tensor) -> tf.Tensor:
        with tf.device("/CPU:0"):
            # Not an identity: the optimizer would remove it, and the clock would not wait.
            here = tf.raw_ops.DeepCopy(x=last)
        return self.clock.read_after([here])

    def _last_of(self, operations: list[Any], device: str) -> tf.Tensor:
        """Return a tensor on a device that is ready once all operations are done."""
        with tf.control_dependencies(operations), tf.device(device):
            return tf.identity(tf.zeros(()))

    def multi_step_on_iterator(self, iterator: Any, limit: tf.Tensor) -> Any:
        """Run the loop; its errors name this function as those of Keras' loop do."""

        def goes_on(step: tf.Tensor, batch: Any, *_: Any) -> tf.Tensor:
            return tf.logical_and(step < limit, batch.has_value())

        def body(
            step: tf.Tensor, batch: Any, outputs: Any, stamps: Any, examples: tf.Tensor
        ) -> Any:
            def run() -> Any:
                parts = batch.get_value()
                made, operations = _with_operations(lambda: self._step(parts))
                return _optional(made), self._last_of(operations, self._device), examples_in(parts)

            # Keras has this condition too, although the loop has checked it: on a GPU, loops
            # without it overlapped no fetch. With distributed batches Keras' own fails at a ragged
            # batch; without the condition they train.
            skip = (outputs, tf.zeros(()), 0)
            made, last, seen = (
                run() if self._spread else tf.cond(goes_on(step, batch), run, lambda: skip)
            )
            following = tf.cond(step + 1 < limit, iterator.get_next_as_optional, lambda: batch)
            there = self._last_of(tf.nest.flatten(following, expand_composites=True), "/CPU:0")
            stamps = _note(
                stamps, step + 1, _aside(self._landed, last), _aside(self._reached, there)
            )
            return step + 1, following, made, stamps, examples + seen

        begun = self.clock.read_after([])
        with tf.control_dependencies([begun]):
            first = iterator.get_next_as_optional()
        with tf.device("/CPU:0"):
            stamps = tf.TensorArray(tf.float64, size=limit + 1, element_shape=(2,))
        stamps = _note(
            stamps, 0, begun, self.clock.read_after(tf.nest.flatten(first, expand_composites=True))
        )
        none = _optional(
            tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), self._outputs)
        )
        step, _, outputs, stamps, examples = tf.while_loop(
            goes_on, body, [0, first, none, stamps, 0]
        )
        return tf.stack([step, examples]), stamps.stack(), outputs.get_value()


def _fixed(output: tf.Tensor) -> tf.TensorSpec:
    if not output.shape.is_fully_defined():
        raise ValueError("an output of the train step has no fixed shape")
    return tf.TensorSpec.from_tensor(output)


def _optional(value: Any) -> Any:
    return tf.experimental.Optional.from_value(value)


def _with_operations(make: Callable[[], Any]) -> tuple[Any, list[tf.Operation]]:
    """Return the result of `make`, and the operations that it adds to the graph: the step ends with
    them."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    made = make()
    return made, graph.get_operations()[before:]


def _aside(read: Any, last: tf.Tensor) -> tf.Tensor:
    """Read the clock in a stateless call, so that the loop does not wait for the reading."""
    return tf.raw_ops.PartitionedCall(args=[last], Tout=[tf.float64], f=read)[0]


def _note(stamps: Any, at: Any, done: tf.Tensor, fetched: tf.Tensor) -> Any:
    with tf.device("/CPU:0"):
        return stamps.write(at, tf.stack([done, fetched]))


def examples_in(batch: Any) -> tf.Tensor:
    """Return the number of examples in a batch, as `count_examples` does; -1 if unknown."""
    first = next(iter(tf.nest.flatten(batch)), None)
    parts: tuple[Any, ...] = (
        first.values if isinstance(first, tf.distribute.DistributedValues) else (first,)
    )
    if not all(isinstance(part, tf.Tensor) and part.shape.rank for part in parts):
        return tf.constant(-1)
    counts = [_length(part, "/CPU:0" if len(parts) == 1 else part.device) for part in parts]
    with tf.device("/CPU:0"):
        return tf.add_n(counts) if len(counts) > 1 else counts[0]


def _length(part: tf.Tensor, device: str) -> tf.Tensor:
    """Return the first dimension; a GPU has that of a part in its own memory, which thus is not
    copied."""
    with tf.device(device):
        return tf.shape(part)[0]


#: Two clocks are read one after the other, up to so many times until the readings are this close.
_TRIES = 5
_CLOSE_NS = 20_000
#: A wall clock was set if it moves against the run's clock by more than this, and by more than this
#: share of the time: time synchronization moves it by at most 0.0005 of the time (adjtimex's
#: limit).
_SET_NS = 1_000_000
_SET_SHARE = 0.001


def clock_offset_ns(now_ns: Callable[[], int], wall_ns: Callable[[], int]) -> int:
    """Return the run's clock minus the wall clock, to within 10 us on an idle machine."""
    best_ns, offset = 0, 0
    for n in range(_TRIES):
        before, wall, after = now_ns(), wall_ns(), now_ns()
        if not n or after - before < best_ns:
            best_ns, offset = after - before, (before + after) // 2 - wall
        if best_ns < _CLOSE_NS:
            break
    return offset


def clock_was_set(moved_ns: int, passed_ns: int) -> bool:
    """Return whether the wall clock, which moved by `moved_ns` against the run's clock in
    `passed_ns`, was set."""
    return abs(moved_ns) > max(_SET_NS, _SET_SHARE * passed_ns)


@dataclass(frozen=True, slots=True)
class StepParts:
    """The steps of one call, each beginning where the last one ended.

    start_ns: of each step, on the run's clock. wait_ms, compute_ms: of each step. call_ms: from the
    call to the first fetch, part of the first step's compute.
    """

    start_ns: NDArray[np.int64]
    wait_ms: Floats
    compute_ms: Floats
    call_ms: float


def split_steps(start_ns: int, end_ns: int, runs: Sequence[Floats]) -> StepParts:
    """Return the parts of the steps, one or more, between a call's start and its end.

    Each run is one execution of the graph, (steps + 1, 2) nanoseconds on the run's clock: first the
    times when it began and when its first batch was there, then for each step the times when it was
    done and when the next batch was there.

    A fetch that overlaps a step is no wait: a step's wait is the rest of its fetch after the
    previous step is done. wait + compute of all steps is the whole call: launching it is compute of
    the first step, and bringing the metrics to the host is compute of the last.
    """
    got = np.concatenate([run[:-1, 1] for run in runs])
    done = np.concatenate([run[1:, 0] for run in runs])
    edges = np.empty(2 * len(done) + 1)
    edges[0], edges[1::2], edges[2::2] = runs[0][0, 0], got, done
    edges = np.maximum.accumulate(np.clip(edges, start_ns, end_ns))
    edges[-1] = end_ns
    wait_ms, compute_ms = np.diff(edges)[::2] / 1e6, np.diff(edges)[1::2] / 1e6
    call_ms = float(edges[0] - start_ns) / 1e6
    compute_ms[0] += call_ms
    starts_ns = np.concatenate([[start_ns], edges[2:-1:2]]).astype(np.int64)
    return StepParts(starts_ns, wait_ms, compute_ms, call_ms)
