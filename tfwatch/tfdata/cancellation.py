"""Fetches that another thread can cancel: TensorFlow waits without end for a tf.data service that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorflow.python.eager import cancellation, context, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import tensorflow as tf


class CancellableCalls:
    """A block whose functions, and whose fetches by `find_get_next`, another thread can cancel."""

    def __init__(self) -> None:
        self._manager = cancellation.CancellationManager()
        self._context = cancellation.CancellationManagerContext(self._manager)

    def __enter__(self) -> CancellableCalls:
        self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise a KeyboardInterrupt in place of the error of a cancelled call."""
        raised = as_interrupt(error) if isinstance(error, Exception) else error
        self._context.__exit__(kind, error, trace)
        if raised is not None and raised is not error:
            raise raised from None

    def cancel(self) -> None:
        """Have the present call, and each later one of the block, raise `tf.errors.CancelledError`."""
        self._manager.start_cancel()


def find_get_next(
    resource: tf.Tensor, types: Sequence[Any], shapes: Sequence[Any]
) -> Callable[[], list[tf.Tensor]] | None:
    """Return the fetch from an iterator that ends when the block around it is cancelled; None outside of one."""
    manager = cancellation.context()
    if manager is None:
        return None
    attributes = "output_types", [one.as_datatype_enum for one in types], "output_shapes", list(shapes)

    def get_next() -> list[tf.Tensor]:
        try:
            return execute.execute_with_cancellation(  # type: ignore[no-any-return]
                b"IteratorGetNext",
                len(types),
                inputs=[resource],
                attrs=attributes,
                ctx=context.context(),
                cancellation_manager=manager,
            )
        except Exception as error:  # noqa: BLE001  it is raised again
            raise as_interrupt(error) from None

    return get_next


def as_interrupt(error: BaseException) -> BaseException:
    """Return a KeyboardInterrupt for the error of a cancelled call, any other error as it is.

    Python may raise its KeyboardInterrupt while TensorFlow makes the error, which is then another one.
    """
    manager = cancellation.context()
    return KeyboardInterrupt() if manager is not None and manager.is_cancelled else error
