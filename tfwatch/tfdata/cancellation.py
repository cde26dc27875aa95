"""Fetches that another thread can cancel: TensorFlow waits without end for a tf.data service that is gone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from tensorflow.python.eager import cancellation, context, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import tensorflow as tf


class CancellableFetches:
    """A block whose fetches, by `find_get_next` and within `cancellable_call`, another thread can cancel.

    is_cancelled: `cancel` was called.
    """

    def __init__(self) -> None:
        self.is_cancelled = False
        self._manager = cancellation.CancellationManager()

    def __enter__(self) -> CancellableFetches:
        _active.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise a KeyboardInterrupt in place of the error of a cancelled fetch."""
        raised = as_interrupt(error) if isinstance(error, Exception) else error
        _active.remove(self)
        if raised is not None and raised is not error:
            raise raised from None

    def cancel(self) -> None:
        """Have the present fetch, and each later one of the block, end with an error."""
        self.is_cancelled = True
        self._manager.start_cancel()

    def manager(self) -> Any:
        """Return the cancellation manager of the next call; TensorFlow itself cancels that of a function that fails."""
        if self._manager.is_cancelled and not self.is_cancelled:
            self._manager = cancellation.CancellationManager()
        return self._manager


#: The blocks that run, the innermost last.
_active: list[CancellableFetches] = []


def find_get_next(
    resource: tf.Tensor, types: Sequence[Any], shapes: Sequence[Any]
) -> Callable[[], list[tf.Tensor]] | None:
    """Return the fetch from an iterator that ends when the block around it is cancelled; None outside of one."""
    if not _active:
        return None
    block = _active[-1]
    attributes = (
        "output_types",
        [one.as_datatype_enum for one in types],
        "output_shapes",
        list(shapes),
    )

    def get_next() -> list[tf.Tensor]:
        try:
            return execute.execute_with_cancellation(  # type: ignore[no-any-return]
                b"IteratorGetNext",
                len(types),
                inputs=[resource],
                attrs=attributes,
                ctx=context.context(),
                cancellation_manager=block.manager(),
            )
        except Exception as error:  # noqa: BLE001  it is raised again
            raise as_interrupt(error) from None

    return get_next


def cancellable_call() -> AbstractContextManager[Any]:
    """Return a context for one call of a function that fetches within its graph."""
    return (
        cancellation.CancellationManagerContext(_active[-1].manager()) if _active else nullcontext()
    )


def as_interrupt(error: BaseException) -> BaseException:
    """Return a KeyboardInterrupt for an error in a block that was cancelled, any other error as it is.

    Python may raise its KeyboardInterrupt while TensorFlow makes the error, which is then another one.
    """
    return KeyboardInterrupt() if _active and _active[-1].is_cancelled else error
