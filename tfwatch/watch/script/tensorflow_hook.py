"""Records the loops of a script's own over data sets, and the lines that make them: patches of
TensorFlow."""

from __future__ import annotations

import functools
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, warn_once
from tfwatch.core.user_code import is_users
from tfwatch.tfdata.script_code import METHODS, note_call
from tfwatch.watch.loops.track import is_in_function
from tfwatch.watch.script.patches import Patches, definer, find_users_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from tfwatch.watch.loops.found_loops import FoundLoop, FoundLoops


_not_recorded = fails_open(lambda why: warn_once(f"this loop is not recorded: {why}"))
_without_line = fails_open(
    lambda why: warn_once(f"the lines of this pipeline's stages are unknown: {why}")
)


def patch_tensorflow(tensorflow: Any, loops: FoundLoops) -> Patches:
    """Have loops over data sets and gradients of variables noticed; return the patches, applied.

    Raises:
        AttributeError, TypeError: this TensorFlow is another one than those tried.
    """
    patches = Patches()
    dataset, tape = tensorflow.data.Dataset, tensorflow.GradientTape
    for kind, name, wrap in ((dataset, "__iter__", _recorded), (tape, "gradient", _noticed)):
        owner = definer(kind, name)
        patches.add(owner, name, wrap(vars(owner)[name], loops, tensorflow))
    patches.apply()
    return patches


def patch_stages(tensorflow: Any) -> Patches:
    """Have each stage of a data set note which line of the script made it; return the patches,
    applied.

    Raises:
        AttributeError, TypeError: this TensorFlow is another one than those tried.
    """
    patches = Patches()
    for name in METHODS:
        owner = definer(tensorflow.data.Dataset, name)
        patches.add(owner, name, _located(vars(owner)[name]))
    patches.apply()
    return patches


def _located(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a data set that notes on the new stage which line of the script made
    it."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        stage = original(*args, **kwargs)
        with _without_line:
            frame = sys._getframe(1)
            if is_users(frame.f_code.co_filename):
                note_call(stage, original.__name__, frame)
        return stage

    return method


def _recorded(
    original: Callable[[Any], Any], loops: FoundLoops, tensorflow: Any
) -> Callable[[Any], Any]:
    """Return an `__iter__` that has the loops of the user's own code timed."""

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:
        iterator = original(self)
        with _not_recorded:
            frame = find_users_frame(sys._getframe(1))
            if frame is not None and tensorflow.executing_eagerly() and not is_in_function():
                _time(iterator, self, frame, loops)
        return iterator

    return __iter__


def _time(iterator: Any, dataset: Any, frame: FrameType, loops: FoundLoops) -> None:
    if loops.may_record():
        kind: Any = type(iterator)
        iterator._tfwatch_loop = loops.begin(frame, dataset, iterator)
        iterator.__class__ = _timed(kind)


@cache
def _timed(base: Any) -> Any:
    """Return a class of iterators that differs from `base` in its timed fetch alone.

    An iterator whose loop is not recorded, or no longer, is one of `base` again.
    """
    fetch = base.__next__

    def __next__(self: Any) -> Any:
        loop: FoundLoop = self._tfwatch_loop
        start_ns = 0
        with _not_recorded:
            start_ns = loop.before()
        try:
            batch = fetch(self)
        except StopIteration:
            with _not_recorded:
                loop.exhausted()
            self.__class__ = base
            raise
        except BaseException as error:  # the user's pipeline: its exception goes on to the user
            with _not_recorded:
                loop.failed(error)
            raise
        with _not_recorded:
            loop.after(start_ns, batch)
        if loop.is_over:
            self.__class__ = base
        return batch

    names = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    return type(base)(base.__name__, (base,), {**names, "__next__": __next__})


def _noticed(
    original: Callable[..., Any], loops: FoundLoops, tensorflow: Any
) -> Callable[..., Any]:
    """Return a `gradient` that is a sign of training where it is one of variables: not one of an
    image's pixels."""
    flatten = tensorflow.nest.flatten

    @functools.wraps(original)
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        with _not_recorded:
            if any(_is_variable(source, tensorflow) for source in flatten(sources)):
                loops.note_sign()
        return original(self, target, sources, *args, **kwargs)

    return gradient


def _is_variable(source: Any, tensorflow: Any) -> bool:
    """Return whether a source is a variable of TensorFlow or, by its `trainable`, of Keras."""
    return isinstance(source, tensorflow.Variable) or hasattr(source, "trainable")
