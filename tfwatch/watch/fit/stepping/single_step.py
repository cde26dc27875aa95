"""Keras' single step over a strategy's iterator, with the clock read inside the graph.

The graph is that of Keras (`make_train_function` of its TensorFlow trainer, the same from 3.8 to
3.15): one `get_next`, then the step. So the end of the data, its errors, and what runs before them
are those of stock `fit`. The loop of `FusedSteps` differs for one step: at the end of data of
unknown length stock runs a step without a batch, which the optimizer counts, and the loop does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfwatch.watch.fit.stepping.fused_steps import examples_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tfwatch.watch.fit.stepping.fused_steps import GraphClock


class SingleStep:
    """One train step as a compiled function of an iterator.

    Raises:
        Exception: raised by the step's own Python, or by TensorFlow when it traces it; no step has
        run then.
    """

    def __init__(self, original: Callable[[Any], Any], iterator: Any, clock: GraphClock) -> None:
        self.clock = clock
        self._original = original
        self._run = tf.function(
            self.multi_step_on_iterator, input_signature=[iterator._type_spec], autograph=False
        ).get_concrete_function()
        del self._original  # the trace may outlive the `fit` that it belongs to

    def __call__(self, iterator: Any, _limit: int) -> tuple[NDArray[np.float64], int, Any]:
        """Run the step; return what `FusedSteps` returns for one. The call's end is the step's.

        Raises:
            tf.errors.OutOfRangeError: the data is exhausted.
        """
        outputs, stamps, examples = self._run(iterator)
        begun_s, got_s = stamps.numpy().tolist()
        return np.array([[begun_s, got_s], [got_s, got_s]]), int(examples), outputs

    def multi_step_on_iterator(self, iterator: Any) -> Any:
        """Fetch and step; its errors name this function as those of Keras' function do."""
        begun = self.clock.read_after([])
        with tf.control_dependencies([begun]):
            batch = iterator.get_next()
        got = self.clock.read_after(tf.nest.flatten(batch, expand_composites=True))
        outputs = self._original(iter((batch,)))
        with tf.device("/CPU:0"):
            return outputs, tf.stack([begun, got]), examples_in(batch)
