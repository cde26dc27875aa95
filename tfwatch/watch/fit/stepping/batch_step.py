"""Keras' compiled train step as a function of one batch, and the place of its batches.

TensorFlow keeps one instance of the step for batches in host memory and one for those on the GPU,
and stateful random operations of each draw numbers of their own: a step that has some keeps the
place of its first fit.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import raise_interrupt, reason
from tfwatch.core.knobs import DEVICE_PREFETCH, NotTimed
from tfwatch.watch.fit.stepping.instances import build_instance
from tfwatch.watch.profile.origins import draws_random

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.tfdata.live_switch import BatchSpec
    from tfwatch.watch.fit.stepping.eager_operations import Operations
    from tfwatch.watch.fit.stepping.instances import BesideTraining


class BatchStep:
    """Keras' compiled train step as a function of one batch, for one step function and structure of
    batches.

    is_ready: the first call is done, and no trace follows. traces: the number of finished traces.
    operations: the timer of a step that runs op by op; None if it does not, or if operations cannot
    be timed. failure: why there is no trace. placement: of its batches.

    Without the signature a ragged last batch would cost another trace, which stock `fit` does not
    have. If tracing fails before Keras' function begins, that function is called on the batch as it
    is. A later error is the training's
    own: a second try would run the user's Python twice, on half-built state.
    """

    def __init__(
        self,
        original: Callable[[Any], Any],
        shape: BatchSpec,
        *,
        eager: bool,
        operations: Operations | None = None,
    ) -> None:
        self.traces = 0
        self.operations = operations
        self._original = original
        self._shape = shape
        self._has_begun = False
        self.failure = ""
        # A cycle would keep the trace until Python collects garbage.
        self.placement = Placement(weakref.ref(self))
        #: Of its trace; None without one.
        self.graph: Any = None
        self._concrete: Any = None
        #: It draws random numbers; None before somebody asked.
        self._draws: bool | None = None
        self._call = self._plain if eager else self._trace
        self.is_ready = eager

    def __call__(self, batch: Any) -> Any:
        if self.is_ready:
            return self._call(batch)
        try:
            outputs = self._call(batch)
        except Exception as error:
            raise_interrupt(error)
            if self._has_begun:
                raise
            self.failure = reason(error)
            self._call = self._plain
            outputs = self._call(batch)
        self.is_ready = True
        return outputs

    def _plain(self, batch: Any) -> Any:
        operations, batches = self.operations, iter((self._shape.pack(batch),))
        if operations is None:
            return self._original(batches)
        try:
            operations.begin()
        except Exception as error:  # noqa: BLE001  the training's boundary: no frame of tfwatch's may raise here
            raise_interrupt(error)
            operations.failure = reason(error)
        try:
            return self._original(batches)
        finally:
            try:
                operations.end()
            except Exception as error:  # noqa: BLE001  the training's boundary
                raise_interrupt(error)
                operations.failure = reason(error)

    def _trace(self, batch: Any) -> Any:
        if self._shape.flat is None:
            self._call = self._compiled([self._shape.spec])
        else:
            # A concrete function called with plain tensors needs no look-up of a trace: 170 us less
            # per step.
            concrete = self._compiled(self._shape.flat).get_concrete_function()
            self.graph, self._concrete = concrete.graph, concrete
            self._call = lambda batch: concrete(*batch)
        return self._call(batch)

    @property
    def is_traced(self) -> bool:
        """True once calls run a trace of Keras' function: then another `fit` can use it."""
        return self.is_ready and self.traces > 0

    def draws_random(self) -> bool | None:
        """Return whether its trace draws random numbers; None without one. The search takes 25 to
        39 ms of ResNet50's."""
        if self._draws is None and self.graph is not None:
            self._draws = draws_random(self.graph)
        return self._draws

    def build(self, batch: Sequence[Any]) -> None:
        """Build TensorFlow's instance of it for batches on the devices of this one; see
        `build_instance`."""
        if self._concrete is not None:
            build_instance(self._concrete, batch)

    def _compiled(self, signature: list[Any]) -> Any:
        def multi_step_on_iterator(
            *parts: Any,
        ) -> Any:  # errors name it: it is named as Keras' function
            batch = self._shape.ensure_shapes(
                parts[0] if self._shape.flat is None else self._shape.pack(list(parts))
            )
            self._has_begun = True
            outputs = self._original(iter((batch,)))
            self.traces += 1
            return outputs

        return tf.function(multi_step_on_iterator, input_signature=signature, autograph=False)


@dataclass
class Placement:
    """The place of the batches of a step when it is called.

    step: None where nothing is known of it, or it is gone. is_known: a first batch has decided.
    why_in_call: the call copies the batches, for this reason; None where they are copied before it.
    ahead: builds the step for batches that are copied ahead; None before somebody asked.
    """

    step: Callable[[], BatchStep | None] = lambda: None
    is_known: bool = False
    why_in_call: NotTimed | None = None
    ahead: BesideTraining | None = None

    def may_change(self) -> bool:
        """Return whether another place leaves the random numbers that the step draws; False before
        the step is traced."""
        step = self.step()
        return step is not None and step.draws_random() is False

    def why_not(self, knob: str) -> NotTimed | None:
        """Return why a knob of the copy stays as it is: batches in pinned memory only take a copy
        ahead."""
        step, is_ahead, why = self.step(), knob == DEVICE_PREFETCH, self.why_in_call
        if step is not None and is_ahead and step.draws_random():
            return NotTimed.DRAWS
        takes = why is NotTimed.PINNED and is_ahead and self.may_change()
        return None if takes or why is NotTimed.BUILDS else why
