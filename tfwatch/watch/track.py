"""`for batch in tfwatch.track(dataset):`, for loops that call no callbacks.

`for batch in tfwatch.track(dataset):`, for loops that call no callbacks.

A tracked loop inside a `tf.function`: AutoGraph makes a loop of the graph's of it, which calls no Python.

AutoGraph knows such loops by the type of what is looped over, a data set above all, and unrolls any other: without an
end, for in a graph an iterator is never exhausted. So it is told to look at what is tracked.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from functools import cache, partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfwatch.core.errors import fails_open
from tfwatch.watch.session import Raised, tell_user
from tfwatch.watch.tracked_loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, TracebackType

T = TypeVar("T")
#: Where `track` was called: the code, the instruction in it, the thread, and where the runs go.
Place = tuple[int, int, int, Path | None]
#: Runs that wait for another call from their line; of more, the oldest are ended.
_WAITING = 4
_IN_FUNCTION = "a loop inside a tf.function is not watched"


def track(iterable: Iterable[T], runs_dir: str | Path | None = None, *, epochs: int | None = None) -> Track[T]:
    """Record a loop of your own, e.g. over `train_on_batch` or a `GradientTape`: iterates as `iterable` does.

    A loop inside a `tf.function` runs as it does without `track`, and is not recorded.

    The elements are the same, in the same order; an exception, a `break` and `len` go through. A step lasts from one
    fetch to the next. What its fetch blocks is data wait; where a GPU computes, only what is left of it once the GPU
    has run dry. All else is compute: of the body of a loop nothing tells Python from launching.

    Each loop over the object is an epoch of one run. Make it once, before the loop over the epochs; or call `track`
    in that loop: a call from the same line goes on with the run, for as long as each object is looped over once.
    The run ends after `epochs` of them, with a `with` block, with `close()`, with an object that was looped over more
    than once, or with the process. Its last moment is the end of its last loop.

    Args:
        iterable: what to loop over.
        runs_dir: where the run folder is made; None is the user's own (see `tfwatch replay`).
        epochs: how many loops to the end make the run; None where it is not known.

    Raises:
        ValueError: `epochs` is no whole number from 1 on.
    """
    if epochs is not None and not (isinstance(epochs, Integral) and epochs >= 1):
        raise ValueError(f"epochs must be a whole number from 1 on, or None, not {epochs!r}")
    frame = sys._getframe(1)
    return Track(iterable, runs_dir, epochs and int(epochs), frame.f_code, frame.f_lasti)


class Track(Generic[T]):
    """What `track` gives."""

    def __init__(
        self, iterable: Iterable[T], runs_dir: str | Path | None, epochs: int | None, code: CodeType, instruction: int
    ) -> None:
        self._iterable = iterable
        self._runs_dir = Path(os.path.expanduser(runs_dir)) if runs_dir else None
        self._epochs = epochs
        self._code = code
        self._place: Place = (id(code), instruction, threading.get_ident(), self._runs_dir)
        self._loop: Loop | None = None
        self._times = 0
        _is_seen_through()

    def __repr__(self) -> str:
        """What Keras shows of it where it is given to `fit`."""
        return "<tfwatch.track, for loops of your own: give fit the data itself, and callbacks=[tfwatch.Watch()]>"

    @property
    def run_path(self) -> Path | None:
        """The folder of the last run; None before the first loop, and where none could be made, or not yet."""
        return self._loop.path if self._loop else None

    def __iter__(self) -> Iterator[T]:
        """One epoch.

        Raises:
            RuntimeError: it is looped over inside a `tf.function`, of a TensorFlow that does not see through it.
        """
        if in_function():
            return iter(self._traced())
        loop, epoch = self._begin()
        if loop is None:
            return iter(self._iterable)
        try:
            iterator = iter(self._iterable)
            loop.loops_over(iterator)
            return _Steps(loop, epoch, iterator)
        except BaseException as error:  # the user's iterable: its exception goes on to the user
            loop.raised(error)
            loop.leave(epoch)
            raise

    def __len__(self) -> int:
        """That of the iterable.

        Raises:
            TypeError: it has none.
        """
        return len(self._iterable)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        """As the iterable itself, which need not have a length."""
        return bool(self._iterable)

    def close(self) -> None:
        """End the run. A loop over this object after that begins another."""
        self._end(None)

    def __enter__(self) -> Track[T]:
        """The run ends with the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run."""
        self._end(error)

    def __del__(self) -> None:
        """One that was looped over once may have been made in a loop over epochs: its run waits for the next."""
        loop = getattr(self, "_loop", None)
        if loop and loop.alone and loop.epoch is None:
            loop.end()

    def _begin(self) -> tuple[Loop | None, int]:
        with fails_open(lambda why: tell_user(f"this loop is not watched: {why}")):
            self._times += 1
            loop = self._loop or _left_open(self._place)
            if loop and loop.epoch is not None:
                loop.leave(loop.epoch)
            if loop is None or loop.over:
                loop = Loop(self._runs_dir, self._epochs, self._code)
                _remember(self._place, loop)
            self._loop, loop.owner = loop, weakref.ref(self)
            # Who collects it ends its run, and that takes a moment: no call from its line may come in between.
            loop.alone = self._times > 1
            return loop, loop.begin_epoch(_length(self._iterable))
        return None, 0

    def _traced(self) -> Iterable[T]:
        """What is tracked, for a function that is traced."""
        if not _is_seen_through():
            raise RuntimeError(f"{_IN_FUNCTION}: loop over the data set itself there")
        _tell_in_function()
        return self._iterable

    def _end(self, error: BaseException | None) -> None:
        if self._loop:
            self._loop.end(Raised.of(error) if error else None, meant=True)


def _is_seen_through() -> bool:
    return "tensorflow" in sys.modules and seen_through(Track, Track._traced)


@cache
def _tell_in_function() -> None:
    """Once: a function may be traced again and again."""
    tell_user(f"{_IN_FUNCTION}: loop over track(...) outside it, and call the function for each batch")


class _Steps(Generic[T]):
    """One loop over a tracked iterable."""

    def __init__(self, loop: Loop, epoch: int, iterator: Iterator[T]) -> None:
        self._loop = loop
        self._epoch = epoch
        self._iterator = iterator

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        loop = self._loop
        if loop.epoch != self._epoch:  # the run is over, or goes on in a later loop
            return next(self._iterator)
        start_ns = loop.fetch()
        try:
            batch = next(self._iterator)
        except StopIteration:
            loop.exhausted()
            raise
        except BaseException as error:  # the user's iterable: its exception goes on to the user
            loop.raised(error)
            del self  # a traceback holds this frame, and the loop must be seen to be left
            raise
        loop.got(start_ns, batch)
        return batch

    def __del__(self) -> None:
        """The loop is left."""
        loop = getattr(self, "_loop", None)
        if loop:
            loop.leave(self._epoch)


#: The newest run of each place, and all that are not over.
_loops: dict[Place, Loop] = {}
_all: weakref.WeakSet[Loop] = weakref.WeakSet()


def _left_open(place: Place) -> Loop | None:
    """The run that an earlier call from this place began, and whose object is gone."""
    loop = _loops.get(place)
    return loop if loop and _waits(loop) else None


def _waits(loop: Loop) -> bool:
    return not (loop.over or loop.alone) and loop.epoch is None and loop.owner() is None


def _remember(place: Place, loop: Loop) -> None:
    for known, other in list(_loops.items()):
        if other.over:
            del _loops[known]
    waiting = [known for known, other in _loops.items() if _waits(other)]
    for known in waiting[: max(0, len(waiting) - _WAITING)]:
        _loops.pop(known).end()
    _loops[place] = loop
    _all.add(loop)


def _length(iterable: object) -> int | None:
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  the iterable is the user's; of unknown or infinite length it raises
        return None


def _disown() -> None:
    _loops.clear()
    for loop in list(_all):
        loop.disown()


os.register_at_fork(after_in_child=_disown)


#: Built-in functions that AutoGraph has forms of its own of, for a data set.
_BUILT_IN = ("len", "enumerate", "zip", "map", "filter", "any", "all")


def in_function() -> bool:
    """Whether a function is being traced here: what runs now runs once, and its loops run in a graph later."""
    inside = getattr(sys.modules.get("tensorflow"), "inside_function", None)  # another thread may be importing it
    return inside is not None and bool(inside())


@cache
def seen_through(kind: type, inner: Callable[[Any], Any]) -> bool:
    """Have AutoGraph take what `inner` gives in the place of anything of this kind. False where it cannot be told."""
    try:
        from tensorflow.python.autograph.operators import control_flow, py_builtins

        def loop(iterable: Any, *rest: Any) -> None:
            control_flow.for_stmt(inner(iterable), *rest)

        def call(function: Callable[..., Any], *values: Any, **options: Any) -> Any:
            return function(*(inner(value) if isinstance(value, kind) else value for value in values), **options)

        control_flow.for_loop_registry.register(kind, loop)
        for name in _BUILT_IN:
            form = partial(call, getattr(py_builtins, f"{name}_"))
            getattr(py_builtins, f"{name}_registry").register(kind, form)
    except (ImportError, AttributeError, TypeError, LookupError):  # another TensorFlow, or the kind is registered
        return False
    return True
