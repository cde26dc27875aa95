"""The signs that a thread trains outside `fit`: a gradient of variables, an optimizer's step, a
`train_on_batch`."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _SignsOfThread(threading.local):
    """The signs of one thread."""

    def __init__(self) -> None:
        self.count = 0
        self.fits = 0


class TrainingSigns:
    """Counts the signs of training in each thread. A `fit` records itself: what happens inside it
    is no sign.

    fits_begun: by all threads. fits_running: in all threads.
    """

    def __init__(self) -> None:
        self.fits_begun = self.fits_running = 0
        self._own = _SignsOfThread()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def count(self) -> int:
        """The number of signs in this thread so far."""
        return self._own.count

    def note(self) -> None:
        """Count a sign."""
        if not self._own.fits:
            self._own.count += 1

    def note_optimizer(self, optimizer: Any) -> None:
        """Count the step of an optimizer, or the trace of one."""
        self._optimizers.add(optimizer)
        self.note()

    @contextlib.contextmanager
    def fit(self) -> Iterator[None]:
        """A running `fit`."""
        self.fits_begun += 1
        self.fits_running += 1
        self._own.fits += 1
        try:
            yield
        finally:
            self._own.fits -= 1
            self.fits_running -= 1

    def optimizer_steps(self) -> int | None:
        """Return the steps of all optimizers so far; None without one, and in a thread that is not
        the main one.

        A function that was traced before gives no other sign. Another thread's loop that only reads
        would take these steps for its own. On a GPU this waits for the work that was launched
        before.
        """
        optimizers = list(self._optimizers)
        if not optimizers or threading.current_thread() is not threading.main_thread():
            return None
        # Not `iterations`: it counts a step only once the gradients of several batches are
        # accumulated.
        return sum(
            int(getattr(optimizer, "_iterations", optimizer.iterations)) for optimizer in optimizers
        )
