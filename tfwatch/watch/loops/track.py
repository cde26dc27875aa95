"""`for batch in tfwatch.track(dataset):`, for loops that call no callbacks.

Inside a `tf.function` it raises: AutoGraph would unroll the loop without end, as an iterator in a
graph is never exhausted.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tfwatch.core.errors import fails_open, warn_user
from tfwatch.watch.loops.tracked_loop import (
    CallSite,
    TrackedRun,
    begin_or_continue,
)
from tfwatch.watch.session import ErrorText

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType, TracebackType

T = TypeVar("T")
_IN_FUNCTION = (
    "tfwatch.track cannot loop inside a tf.function: loop over track(...) outside it, and call the"
    " function for each batch"
)


def track(iterable: Iterable[T], runs_dir: str | Path | None = None) -> Track[T]:
    """Record a loop of your own, e.g. over `train_on_batch` or a `GradientTape`: iterates as
    `iterable` does.

    The elements are the same, in the same order; an exception, a `break` and `len` work as without
    it. A step lasts from one fetch to the next. The fetch is data wait; with a GPU only the part in
    which the GPU has no work left. All else is compute: in a custom loop, Python time and kernel
    launches cannot be separated.

    Each loop over the object is an epoch of one run, and a call from the same line continues that
    run. It ends with a `with` block, with `close()`, or with the process. Its end time is the end
    of its last loop.

    Args:
        iterable: the data to loop over.
        runs_dir: where the run folder is created; None is the default folder (see `tfwatch
        replay`).
    """
    return Track(iterable, runs_dir, sys._getframe(1))


class Track(Generic[T]):
    """The iterable that `track` returns."""

    def __init__(
        self, iterable: Iterable[T], runs_dir: str | Path | None, frame: FrameType
    ) -> None:
        self._iterable = iterable
        self._runs_dir = Path(os.path.expanduser(runs_dir)) if runs_dir else None
        self._code, self._line = frame.f_code, frame.f_lineno
        self._site: CallSite = (
            id(frame.f_code),
            frame.f_lasti,
            threading.get_ident(),
            self._runs_dir,
        )
        self._loop: TrackedRun | None = None

    def __repr__(self) -> str:
        """The text that Keras shows if it is passed to `fit`."""
        return (
            "<tfwatch.track, for custom loops: pass the data itself to fit, and"
            " callbacks=[tfwatch.Watch()]>"
        )

    @property
    def run_path(self) -> Path | None:
        """The folder of the last run; None before the first loop, and if it could not be created,
        or not yet."""
        return self._loop.path if self._loop else None

    def __iter__(self) -> Iterator[T]:
        """Begin an epoch.

        Raises:
            RuntimeError: the loop is inside a `tf.function`.
        """
        if is_in_function():
            raise RuntimeError(_IN_FUNCTION)
        loop, epoch = self._begin()
        if loop is None:
            return iter(self._iterable)
        try:
            iterator = iter(self._iterable)
        except BaseException as error:  # the user's iterable: its exception goes on to the user
            with fails_open(loop.lose):
                loop.record_error(error)
                loop.leave(epoch)
            raise
        with fails_open(loop.lose):
            loop.use_iterator(iterator)
        return _TrackedIterator(loop, epoch, iterator)

    def __len__(self) -> int:
        """Return the length of the iterable.

        Raises:
            TypeError: it has none.
        """
        return len(self._iterable)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        """Return the truth value of the iterable, which need not have a length."""
        return bool(self._iterable)

    def close(self) -> None:
        """End the run. A later loop over this object begins another."""
        self._end(None)

    def __enter__(self) -> Track[T]:
        """Begin a block, with which the run ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the run."""
        self._end(error)

    def _begin(self) -> tuple[TrackedRun | None, int]:
        with fails_open(lambda why: warn_user(f"this loop is not recorded: {why}")):
            loop = self._loop
            if loop and loop.epoch is not None:
                loop.leave(loop.epoch)
            if loop is None or loop.is_over:
                loop = begin_or_continue(self._site, self._code, self._line)
            self._loop, loop.owner = loop, weakref.ref(self)
            return loop, loop.begin_epoch(self._iterable)
        return None, 0

    def _end(self, error: BaseException | None) -> None:
        if self._loop:
            with fails_open(self._loop.lose):
                self._loop.end(ErrorText.of(error) if error else None, meant=True)


class _TrackedIterator(Generic[T]):
    """The iterator of one loop over a tracked iterable."""

    def __init__(self, loop: TrackedRun, epoch: int, iterator: Iterator[T]) -> None:
        self._loop = loop
        self._epoch = epoch
        self._iterator = iterator
        self._fails_open = fails_open(loop.lose)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        loop = self._loop
        if loop.epoch != self._epoch:  # the run is over, or continues in a later loop
            return next(self._iterator)
        start_ns = 0
        with self._fails_open:
            start_ns = loop.begin_fetch()
        try:
            batch = next(self._iterator)
        except StopIteration:
            with self._fails_open:
                loop.exhausted()
            raise
        except BaseException as error:  # the user's iterable: its exception goes on to the user
            with self._fails_open:
                loop.record_error(error)
            # The traceback references this frame, and `__del__` must run when the loop is left.
            del self
            raise
        with self._fails_open:
            loop.record_fetch(start_ns, batch)
        return batch

    def __del__(self) -> None:
        """End the epoch when the loop is left."""
        loop = getattr(self, "_loop", None)
        if loop:
            with fails_open(loop.lose):
                loop.leave(self._epoch)


def is_in_function() -> bool:
    """Return whether a function is being traced here, so that its loops run later, in a graph."""
    # Another thread may be importing it.
    inside = getattr(sys.modules.get("tensorflow"), "inside_function", None)
    return inside is not None and bool(inside())
