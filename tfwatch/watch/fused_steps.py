"""Keras' loop over `steps_per_execution` steps, with the clock read inside the graph.

Keras' loop over `steps_per_execution` steps, with the clock read inside the graph.

The loop is Keras' own, operation for operation (`make_train_function` of its TensorFlow trainer, the same from 3.8 to
3.15): the next batch is fetched while a step computes, and never one more than the call has steps. So the result and
the overlap are those of stock `fit`; only two clock readings a step come on top.

A GPU works through what the loop has launched long before. So the loop never waits for the reading of when a step was
done: TensorFlow begins the next turn of a loop once every operation with effects of the last one has run, and reading a
clock is one. Inside a call that is declared to have none, nobody waits for it but the figure itself.

From clock readings inside the graph to the parts of each step: numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tfwatch.runs.writer import RunWriter

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GraphClock:
    """A clock that a graph can read: `read` adds the reading, float64 seconds; `now_ns` reads it outside."""

    read: Callable[[], tf.Tensor]
    now_ns: Callable[[], int]


def find_clock(writer: RunWriter) -> GraphClock:
    """TensorFlow's own, the wall clock, to the microsecond; the run's, by way of Python, under op determinism.

    That forbids TensorFlow's. It is not tried out: on one H200 an operation of the loop's failed with its error, which
    was raised in another thread.
    """
    if config.is_op_determinism_enabled():
        return GraphClock(lambda: tf.numpy_function(lambda: writer.now_ns() / 1e9, [], tf.float64), writer.now_ns)
    return GraphClock(tf.timestamp, writer.clock.wall_ns)


class FusedSteps:
    """Several train steps as one compiled function of an iterator.

    Raises:
        Exception: whatever the steps' own Python raises, or TensorFlow has against tracing it; no step has run then.
    """

    def __init__(self, original: Callable[[Any], Any], iterator: Any, clock: GraphClock) -> None:
        self.clock = clock
        self._original = original
        self._spread = isinstance(iterator, tf.distribute.DistributedIterator)
        self._outputs = self._outputs_of(iterator.element_spec)
        self._device = "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"
        self._landed, self._reached = (
            tf.function(read, autograph=False).get_concrete_function(tf.zeros(()))
            for read in (self._when_landed, lambda last: self._now([last]))
        )
        signature = [iterator._type_spec, tf.TensorSpec((), tf.int32)]
        self._run = tf.function(self._loop, input_signature=signature, autograph=False).get_concrete_function()

    def __call__(self, iterator: Any, limit: int) -> tuple[NDArray[np.float64], int, Any]:
        """Up to `limit` steps, fewer where the data ends.

        Returns (steps + 1, 2) seconds on `clock` (see `stamps.parts_of`), the number of examples (below 0 where
        batches do not tell), and what the last step returned: zeros where there was none.
        """
        counts, stamps, outputs = self._run(iterator, tf.constant(limit))
        steps, examples = counts.numpy().tolist()
        return stamps.numpy()[: steps + 1], examples, outputs

    def _step(self, batch: Any) -> Any:
        return self._original(iter((batch,)))

    def _outputs_of(self, batch: Any) -> Any:
        """What a step returns, as specs. Builds whatever of the model is not built yet."""
        traced = tf.function(self._step, input_signature=[batch], autograph=False).get_concrete_function()
        return tf.nest.map_structure(_fixed, traced.structured_outputs)

    def _now(self, after: list[Any]) -> tf.Tensor:
        """The clock, seconds, once all of `after` is done."""
        with tf.control_dependencies(after), tf.device("/CPU:0"):
            return self.clock.read()

    def _when_landed(self, last: tf.Tensor) -> tf.Tensor:
        with tf.device("/CPU:0"):
            # No identity: the optimizer would take it away, and with it what the clock waits for.
            here = tf.raw_ops.DeepCopy(x=last)
        return self._now([here])

    def _last_of(self, operations: list[Any], device: str) -> tf.Tensor:
        """What a device comes to once all of them are done."""
        with tf.control_dependencies(operations), tf.device(device):
            return tf.identity(tf.zeros(()))

    def _loop(self, iterator: Any, limit: tf.Tensor) -> Any:
        def goes_on(step: tf.Tensor, batch: Any, *_: Any) -> tf.Tensor:
            return tf.logical_and(step < limit, batch.has_value())

        def body(step: tf.Tensor, batch: Any, outputs: Any, stamps: Any, examples: tf.Tensor) -> Any:
            def run() -> Any:
                parts = batch.get_value()
                made, operations = _with_operations(lambda: self._step(parts))
                return _optional(made), self._last_of(operations, self._device), _examples_in(parts)

            # As Keras has it, though the loop has asked already: on a GPU, loops without it overlapped no fetch. With
            # batches that are spread over devices Keras' own fails at a ragged one; without it they train.
            skip = (outputs, tf.zeros(()), 0)
            made, last, seen = run() if self._spread else tf.cond(goes_on(step, batch), run, lambda: skip)
            following = tf.cond(step + 1 < limit, iterator.get_next_as_optional, lambda: batch)
            there = self._last_of(tf.nest.flatten(following, expand_composites=True), "/CPU:0")
            stamps = _note(stamps, step + 1, _aside(self._landed, last), _aside(self._reached, there))
            return step + 1, following, made, stamps, examples + seen

        begun = self._now([])
        with tf.control_dependencies([begun]):
            first = iterator.get_next_as_optional()
        with tf.device("/CPU:0"):
            stamps = tf.TensorArray(tf.float64, size=limit + 1, element_shape=(2,))
        stamps = _note(stamps, 0, begun, self._now(tf.nest.flatten(first, expand_composites=True)))
        none = _optional(tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), self._outputs))
        step, _, outputs, stamps, examples = tf.while_loop(goes_on, body, [0, first, none, stamps, 0])
        return tf.stack([step, examples]), stamps.stack(), outputs.get_value()


def _fixed(output: tf.Tensor) -> tf.TensorSpec:
    if not output.shape.is_fully_defined():
        raise ValueError("what a train step returns has no fixed shape")
    return tf.TensorSpec.from_tensor(output)


def _optional(value: Any) -> Any:
    return tf.experimental.Optional.from_value(value)


def _with_operations(make: Callable[[], Any]) -> tuple[Any, list[tf.Operation]]:
    """What `make` returns, and all the operations that it adds to the graph: they are done when the step is."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    made = make()
    return made, graph.get_operations()[before:]


def _aside(read: Any, last: tf.Tensor) -> tf.Tensor:
    """A reading of the clock for which nothing waits but its figure."""
    return tf.raw_ops.PartitionedCall(args=[last], Tout=[tf.float64], f=read)[0]


def _note(stamps: Any, at: Any, done: tf.Tensor, fetched: tf.Tensor) -> Any:
    with tf.device("/CPU:0"):
        return stamps.write(at, tf.stack([done, fetched]))


def _examples_in(batch: Any) -> tf.Tensor:
    """How many examples a batch holds: see `examples.images_in`; -1 where it does not tell."""
    first = next(iter(tf.nest.flatten(batch)), None)
    if not isinstance(first, tf.Tensor) or not first.shape.rank:
        return tf.constant(-1)
    with tf.device("/CPU:0"):
        return tf.shape(first)[0]


#: Of readings of two clocks, one after the other, so many are tried until they lie as close as this.
_TRIES = 5
_CLOSE_NS = 20_000
#: A wall clock that moves against the run's clock by more than this, and by more than this share of the time, was set:
#: what keeps it right moves it by 0.0005 of the time at most (adjtimex's limit).
_SET_NS = 1_000_000
_SET_SHARE = 0.001


def offset_ns(now_ns: Callable[[], int], wall_ns: Callable[[], int]) -> int:
    """What has to be added to the wall clock to get the run's clock, to within 10 us on an idle machine."""
    best_ns, offset = 0, 0
    for tried in range(_TRIES):
        before, wall, after = now_ns(), wall_ns(), now_ns()
        if not tried or after - before < best_ns:
            best_ns, offset = after - before, (before + after) // 2 - wall
        if best_ns < _CLOSE_NS:
            break
    return offset


def was_set(moved_ns: int, passed_ns: int) -> bool:
    """Whether the wall clock, which moved by `moved_ns` against the run's in `passed_ns`, was set."""
    return abs(moved_ns) > max(_SET_NS, _SET_SHARE * passed_ns)


@dataclass(frozen=True, slots=True)
class Parts:
    """The steps of one call, each beginning where the last one ended.

    start_ns: of each step, on the run's clock. wait_ms, compute_ms: of each step. call_ms: from the call to the first
    fetch, which the first step's compute contains.
    """

    start_ns: NDArray[np.int64]
    wait_ms: Floats
    compute_ms: Floats
    call_ms: float


def parts_of(start_ns: int, end_ns: int, runs: Sequence[Floats]) -> Parts:
    """The parts of the steps between a call's start and its end; one step or more.

    Each run is one execution of the graph, (steps + 1, 2) nanoseconds on the run's clock: first when it began and
    when its first batch was there, then for each step when it was done and when the batch after it was there.

    A batch that is fetched while a step computes makes nobody wait: a step's wait is what is left of the fetch once
    the step before is done. wait + compute of all steps is the whole call: launching it counts as compute of the
    first step, bringing the metrics to the host as compute of the last.
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
    return Parts(starts_ns, wait_ms, compute_ms, call_ms)
