"""The exact split of every step, by standing in for `model.train_function`.

Keras calls `train_function(iterator)` once a step. The stand-in fetches the batch itself, runs Keras' own
compiled step on it, pulls the metrics as Keras does next, and reads the clock in between. The result is that
of stock `fit`, bit for bit; the fetch is cheaper than Keras' own inside the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from keras.src.backend.tensorflow import trainer
from keras.src.utils.python_utils import pythonify_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.training.operations import Operations
    from tfwatch.training.tap import Shape

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
