"""Build TensorFlow's instance of a step for batches on other devices, beside the training.

TensorFlow keeps an instance of a function for each combination of its arguments' devices, and
builds it within the first such call: on an H200's host that took 0.3 s for a small network, and 11
s for ResNet50. A call that is cancelled before it begins builds the instance and runs no operation.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open
from tfwatch.tfdata.disposal import start_awaited

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence


#: The attribute of a function with `jit_compile=True`. One that calls such a function has none.
_BY_XLA = "_XlaMustCompile"


def build_instance(function: Any, batch: Sequence[Any]) -> None:
    """Build the instance of a concrete function for arguments on the devices of these.

    Raises:
        Exception: TensorFlow lacks a private name, or runs what is cancelled, as XLA does where it
            compiles the function itself; it has not run then.
    """
    attributes = function.function_def.attr
    if _BY_XLA in attributes and attributes[_BY_XLA].b:
        raise RuntimeError("XLA compiles the function, and runs what is cancelled")
    _check_that_nothing_runs()
    _call_cancelled(function, batch)


def _check_that_nothing_runs() -> None:
    """Try it with a function on the CPU and on the first GPU that counts its calls.

    Raises:
        RuntimeError: it has counted.
    """
    devices = ["/CPU:0", *(gpu.name for gpu in tf.config.list_logical_devices("GPU")[:1])]
    counts = []
    for device in devices:
        with tf.device(device):
            counts.append(tf.Variable(0.0, trainable=False))

    def count() -> list[Any]:
        return [one.assign_add(1.0) for one in counts]

    _call_cancelled(tf.function(count, autograph=False).get_concrete_function(), ())
    if any(float(one) for one in counts):
        raise RuntimeError("TensorFlow runs a call that is cancelled before it begins")


def _call_cancelled(function: Any, arguments: Sequence[Any]) -> None:
    # Not `CancellationManagerContext`, which cancels the calls of all threads.
    from tensorflow.python.eager import cancellation, context, execute, executor

    inner, ctx = function._inference_function, context.context()
    attributes = tuple(chain.from_iterable(ctx.function_call_options.as_attrs().items()))
    manager = cancellation.CancellationManager()
    manager.start_cancel()
    # An asynchronous executor would raise the error in all later operations.
    in_turn = context.executor_scope(executor.new_executor(enable_async=False))
    with in_turn, suppress(tf.errors.CancelledError):
        execute.execute_with_cancellation(
            inner.name.decode(),
            len(inner.function_type.flat_outputs),
            [*arguments, *function.captured_inputs],
            attributes,
            ctx,
            manager,
        )


class BesideTraining:
    """Work of TensorFlow's that is done once, in a thread beside the training, on the device of the
    thread that begins it. failure: why it failed; empty where it did not."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.failure = ""
        self._work: Callable[[], None] | None = work
        self._thread: threading.Thread | None = None

    def is_over(self) -> bool:
        """Return whether it is done, or has failed; begin with it."""
        if self._thread is None:
            from tensorflow.python.eager import context

            device = context.context().device_name or None
            with fails_open(self._fail):  # the system may have no thread left
                self._thread = start_awaited("warm-up", partial(self._run, device))
        return self._thread is None or not self._thread.is_alive()

    def _run(self, device: str | None) -> None:
        # What is kept with a step must not keep it.
        work, self._work = self._work, None
        with fails_open(self._fail), tf.device(device):
            if work is not None:
                work()

    def _fail(self, why: str) -> None:
        self.failure = why
