"""A data set that goes on from one iterator to another without an end in between.

What reads it, as a strategy's iterator with its batches ahead, knows nothing of the exchange. An iterator behind a gate
ends when the gate closes and it has given what it holds; in the same call the relay opens the gate and takes from the
next one. All of that runs in the graph of the data set: the thread that trains may wait for a batch meanwhile. The
relay itself holds no element.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata.optionals import until_empty
from tfwatch.tfdata.stages.stage_names import OWN
from tfwatch.tfdata.work_ahead import options


class Relay:
    """The elements of an iterator, and of those that follow it.

    dataset: one iterator of it may be made. is_open: the gate's variable, which every iterator's pipeline reads.
    """

    def __init__(self, spec: Any) -> None:
        """spec: of the elements, which are those of all iterators."""
        with tf.device("/CPU:0"):
            self.is_open = tf.Variable(True, trainable=False, name="tfwatch_gate")
            self._is_followed = tf.Variable(False, trainable=False, name="tfwatch_followed")
            self._given = tf.Variable(
                tf.constant(0, tf.int64), trainable=False, name="tfwatch_given"
            )
            self._before = tf.Variable(
                tf.constant(0, tf.int64), trainable=False, name="tfwatch_before"
            )
        self._current, self._following = _HandleVariable(), _HandleVariable()
        self.dataset = self._make_dataset(spec)

    def start(self, iterator: tf.data.Iterator) -> None:
        """Begin with an iterator, before the first element is asked for."""
        self._current.assign(iterator._iterator_resource)

    def follow(self, iterator: tf.data.Iterator) -> None:
        """Have an iterator follow the current one, and close the gate over which that one ends."""
        self._following.assign(iterator._iterator_resource)
        self._is_followed.assign(True)
        self.is_open.assign(False)

    @property
    def is_followed(self) -> bool:
        """True until the iterator that follows gives its first element, or is found at its end."""
        return bool(self._is_followed.numpy())

    @property
    def before(self) -> int:
        """The number of elements that the iterators before the current one gave."""
        return int(self._before.numpy())

    def release(self) -> None:
        """Hold no iterator any more: what still reads the data set fails."""
        for variable in (self._current, self._following):
            variable.assign(self.is_open.handle)  # not its own, which would never be freed

    def _make_dataset(self, spec: Any) -> tf.data.Dataset:
        @tf.autograph.experimental.do_not_convert
        def take(_: tf.Tensor) -> tf.experimental.Optional:
            def goes_on(element: tf.experimental.Optional) -> tf.Tensor:
                has_value = element.has_value()
                with tf.control_dependencies(
                    [has_value]
                ):  # it is followed before it ends, never after
                    return tf.logical_and(tf.logical_not(has_value), self._is_followed.read_value())

            def take_from_next(_: tf.experimental.Optional) -> tuple[tf.experimental.Optional]:
                return (self._after(self._go_on(), spec),)

            (element,) = tf.while_loop(goes_on, take_from_next, [self._after([], spec)])
            with tf.control_dependencies([self._given.assign_add(1, read_value=False)]):
                return element

        numbers = tf.data.Dataset.range(tf.int64.max)
        relayed = until_empty(numbers.map(take)).with_options(options(Knobs()))
        setattr(relayed, OWN, True)
        return relayed

    def _go_on(self) -> list[tf.Operation]:
        """Make the iterator that follows the current one, and open its gate."""
        changed = [
            self._current.assign(self._following.read()),
            self._before.assign(self._given.read_value(), read_value=False),
            self.is_open.assign(True, read_value=False),
        ]
        with tf.control_dependencies(changed):
            return [*changed, self._is_followed.assign(False, read_value=False)]

    def _after(self, operations: list[tf.Operation], spec: Any) -> tf.experimental.Optional:
        """Take an element of the current iterator once these operations are done."""
        from tensorflow.python.data.ops import optional_ops
        from tensorflow.python.data.util import structure

        with tf.control_dependencies(operations), tf.device("/CPU:0"):
            variant = tf.raw_ops.IteratorGetNextAsOptional(
                iterator=self._current.read(),
                output_types=structure.get_flat_tensor_types(spec),
                output_shapes=structure.get_flat_tensor_shapes(spec),
            )
        return optional_ops._OptionalImpl(variant, spec)


class _HandleVariable:
    """A variable that holds the handle of a resource: `tf.Variable` holds numbers only."""

    def __init__(self) -> None:
        from tensorflow.python.eager import context

        with tf.device("/CPU:0"):  # under this name its last handle frees it
            self.handle = tf.raw_ops.VarHandleOp(
                dtype=tf.resource, shape=[], shared_name=context.anonymous_name()
            )

    def assign(self, handle: tf.Tensor) -> Any:
        """Hold another handle."""
        return tf.raw_ops.AssignVariableOp(resource=self.handle, value=handle)

    def read(self) -> tf.Tensor:
        """Return the handle that it holds."""
        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=tf.resource)
