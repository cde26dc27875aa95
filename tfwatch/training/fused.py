"""Keras' loop over `steps_per_execution` steps, with the clock read inside the graph.

The loop is Keras' own, operation for operation (`make_train_function` of its TensorFlow trainer, the same from 3.8 to
3.15): the next batch is fetched while a step computes, and never one more than the call has steps. So the result and
the overlap are those of stock `fit`; only two clock readings a step come on top.

A GPU works through what the loop has launched long before. So the loop never waits for the reading of when a step was
done: TensorFlow begins the next turn of a loop once every operation with effects of the last one has run, and reading a
clock is one. Inside a call that is declared to have none, nobody waits for it but the figure itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.framework import config

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from tfwatch.runs.writer import RunWriter


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
