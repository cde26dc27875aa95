"""Patches of Keras and TensorFlow: each `fit` gets a `Watch`; the loops of a script's own, and the
lines that make its data sets, are noticed.

Attributes of a library are replaced all or none, and put back.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, raise_interrupt, reason, warn_once, warn_user
from tfwatch.core.user_code import find_users_frame, is_users
from tfwatch.runs.script_process import FEED
from tfwatch.tfdata.code_edits import METHODS, note_call
from tfwatch.watch.loops.found_loops import FoundLoop
from tfwatch.watch.loops.track import is_in_function
from tfwatch.watch.tensorflow_info import WATCHED_KERAS, is_too_old

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tfwatch.watch.loops.found_loops import BatchCalls, FoundLoops

#: An attribute of a class that is replaced: the class, the name, and what makes the new one of it.
Replaced = tuple[type, str, "Callable[[Any], Any]"]

#: The attribute of an iterator that has its loop.
_LOOP = "_tfwatch_loop"

_not_recorded = fails_open(lambda why: warn_once(f"this loop is not recorded: {why}"))
_without_line = fails_open(
    lambda why: warn_once(f"the lines of this pipeline's stages are unknown: {why}")
)


def replace_all(replaced: Iterable[Replaced]) -> ExitStack:
    """Replace attributes, or none of them; return what puts them back, where nobody else has
    replaced them since.

    Raises:
        AttributeError, TypeError: one of them cannot be replaced.
    """
    with ExitStack() as undo:
        for kind, name, wrap in replaced:
            owner = _definer(kind, name)
            before = vars(owner)[name]
            after = wrap(before)
            setattr(owner, name, after)
            undo.callback(_put_back, owner, name, before, after)
        return undo.pop_all()


def _definer(kind: type, name: str) -> type:
    """Return the class that defines an attribute of a class."""
    for one in kind.__mro__:
        if name in vars(one):
            return one
    raise AttributeError(f"{kind.__name__} has no {name}")


def _put_back(owner: type, name: str, before: Any, after: Any) -> None:
    if vars(owner).get(name) is after:
        setattr(owner, name, before)


# -- TensorFlow ------------------------------------------------------------------------------------


def patch_tensorflow(tensorflow: Any, loops: FoundLoops) -> ExitStack:
    """Have loops over data sets and gradients of variables noticed; return what puts them
    back.

    Raises:
        AttributeError, TypeError: this TensorFlow is another one than those tried.
    """
    replaced = (
        (tensorflow.data.Dataset, "__iter__", lambda its: _recorded(its, loops, tensorflow)),
        (tensorflow.GradientTape, "gradient", lambda its: _noticed(its, loops, tensorflow)),
    )
    return replace_all(replaced)


def patch_stages(tensorflow: Any) -> ExitStack:
    """Have each stage of a data set note which line of the script made it; return what puts them
    back.

    Raises:
        AttributeError, TypeError: this TensorFlow is another one than those tried.
    """
    return replace_all((tensorflow.data.Dataset, name, _located) for name in METHODS)


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
            is_eager = tensorflow.executing_eagerly() and not is_in_function()
            if frame is not None and is_eager and loops.may_record():
                setattr(iterator, _LOOP, FoundLoop(loops, frame, self, iterator))
                kind: Any = type(iterator)
                iterator.__class__ = make_timed_class(kind)
        return iterator

    return __iter__


@cache
def make_timed_class(base: Any) -> Any:
    """Return a class of iterators that differs from `base` in its timed fetch alone.

    An iterator whose loop is not recorded, or no longer, is one of `base` again; so is one that is
    copied or pickled: `pickle` takes no class that has no name.
    """
    fetch = base.__next__

    def __next__(self: Any) -> Any:
        loop: FoundLoop = getattr(self, _LOOP)
        start_ns = loop.before()
        try:
            batch = fetch(self)
        except StopIteration:
            loop.exhausted()
            self.__class__ = base
            raise
        except BaseException as error:  # the user's pipeline: its exception goes on to the user
            loop.failed(error)
            raise
        loop.after(start_ns, batch)
        if loop.is_over:
            self.__class__ = base
        return batch

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        self.__class__ = base
        delattr(self, _LOOP)
        return self.__reduce_ex__(protocol)

    names = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__next__": __next__,
        "__reduce_ex__": __reduce_ex__,
    }
    return type(base)(base.__name__, (base,), names)


def _noticed(
    original: Callable[..., Any], loops: FoundLoops, tensorflow: Any
) -> Callable[..., Any]:
    """Return a `gradient` that is a sign of training where it is one of variables: not one of an
    image's pixels."""
    flatten = tensorflow.nest.flatten

    @functools.wraps(original)
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        with _not_recorded:
            # A variable of Keras shows by its `trainable`.
            if any(
                isinstance(source, tensorflow.Variable) or hasattr(source, "trainable")
                for source in flatten(sources)
            ):
                loops.note_sign()
        return original(self, target, sources, *args, **kwargs)

    return gradient


# -- Keras -----------------------------------------------------------------------------------------


def find_refusal(keras: Any) -> str:
    """Return why this Keras cannot be watched, or an empty text."""
    if is_too_old(keras):
        return f"it uses Keras {keras.__version__}, and tfwatch watches {WATCHED_KERAS}"
    backend = keras.config.backend()
    return (
        ""
        if backend == "tensorflow"
        else f"its Keras runs on {backend}, and tfwatch watches TensorFlow"
    )


#: Keras takes such a list as it is, and sets neither its model nor its parameters.
_CALLBACK_LIST = (
    "this fit is not watched: its callbacks are a CallbackList; pass them to fit in a plain list"
)


def _warn(why: str) -> None:
    warn_user(f"a part of this fit is not watched: {why}")


def patch_keras(
    keras: Any, runs_dir: str | None, loops: FoundLoops, calls: BatchCalls
) -> ExitStack:
    """Replace `fit`, `train_on_batch` and the optimizers' `apply`; return what puts them back.

    Raises:
        AttributeError, TypeError: this Keras is another one than those tried.
    """
    replaced = (
        (keras.Model, "fit", _Fits(keras, runs_dir, loops).watched),
        (keras.Model, "train_on_batch", lambda original: _counted(original, calls)),
        (keras.optimizers.Optimizer, "apply", lambda original: _stepped(original, loops)),
    )
    return replace_all(replaced)


def _counted(original: Callable[..., Any], calls: BatchCalls) -> Callable[..., Any]:
    """Return a `train_on_batch` whose calls from the user's own code are recorded."""

    @functools.wraps(original)
    def train_on_batch(*args: Any, **kwargs: Any) -> Any:
        call = None
        with _not_recorded:
            frame = find_users_frame(sys._getframe(1))
            call = calls.begin(frame) if frame is not None else None
        if call is None:
            return original(*args, **kwargs)
        logs = original(*args, **kwargs)
        calls.end_call(call, logs)
        return logs

    return train_on_batch


def _stepped(original: Callable[..., Any], loops: FoundLoops) -> Callable[..., Any]:
    """Return an `apply` that is a sign of training."""

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _not_recorded:
            loops.note_optimizer(self)
        return original(self, *args, **kwargs)

    return apply


class _Fits:
    """Every `fit` of this process."""

    def __init__(self, keras: Any, runs_dir: str | None, loops: FoundLoops) -> None:
        self._keras = keras
        self._runs_dir = runs_dir
        self._loops = loops
        self._pid = os.getpid()
        self._feed_notes: list[str] = []

    def watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `fit` that appends `Watch` to the callbacks."""
        signature = inspect.signature(original)
        if "callbacks" not in signature.parameters:
            raise TypeError("fit of this Keras takes no callbacks")

        @functools.wraps(original)
        def fit(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() != self._pid:
                return original(*args, **kwargs)
            around = ExitStack()
            try:
                try:
                    args, kwargs = self._begin(around, signature, args, kwargs)
                except Exception as error:  # noqa: BLE001  the training's boundary: no frame of tfwatch's may raise here
                    raise_interrupt(error)
                    _warn(reason(error))
                result = original(*args, **kwargs)
            except BaseException as error:
                with fails_open(_warn):
                    around.__exit__(type(error), error, error.__traceback__)
                raise
            try:
                around.close()
            except Exception as error:  # noqa: BLE001  the training's boundary
                raise_interrupt(error)
                _warn(reason(error))
            return result

        return fit

    def _begin(
        self,
        around: ExitStack,
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the `fit` that is watched; what has to end with it goes to
        `around`."""
        with fails_open(lambda why: warn_user(f"this fit is not watched: {why}")):
            args, kwargs = self._with_watch(around, signature, args, kwargs)
        with fails_open(_warn):
            around.enter_context(self._loops.fit())
        return args, kwargs

    def _with_watch(
        self,
        around: ExitStack,
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError:  # Keras raises it again, with its own sentence
            return args, kwargs
        if (address := os.environ.get(FEED)) and "x" in call.arguments:
            call.arguments["x"] = self._fed(call.arguments["x"], address)
            args, kwargs = call.args, call.kwargs
        given = call.arguments.get("callbacks")
        if isinstance(given, self._keras.callbacks.CallbackList):
            warn_user(_CALLBACK_LIST)
            return args, kwargs
        callbacks = self._keras.tree.flatten(given) if given else []
        from tfwatch.watch.fit.callback import Watch

        watches = [one for one in callbacks if isinstance(one, Watch)]
        if not watches:
            watches = [Watch(self._runs_dir)]
            callbacks = [*callbacks, *watches]

        def end(_kind: object, error: BaseException | None, _trace: object) -> None:
            """Have the run fail with what `fit` raises: after a callback's error Keras calls no
            other one."""
            if error is not None:
                for watch in watches:
                    watch.note_raised(error)

        around.push(end)
        call.arguments["callbacks"] = [*callbacks, *self._notes()]
        return call.args, call.kwargs

    def _fed(self, data: Any, address: str) -> Any:
        """Return the data set through the tf.data service; itself where the service is refused."""
        from tfwatch.tfdata.feed import feed
        from tfwatch.tfdata.pipeline_tree import CannotRebuildError

        try:
            data, sentence = feed(data, address)
        except CannotRebuildError as error:
            sentence = f"no feed for this fit: {error}"
        self._feed_notes.append(sentence)
        warn_once(sentence)
        return data

    def _notes(self) -> list[Any]:
        """Return a callback that records the sentence on the feed, once the run has begun."""
        notes, self._feed_notes = self._feed_notes, []

        def note_all(_logs: Any) -> None:
            from tfwatch.watch.fit.fit_runs import newest_writer

            if writer := newest_writer():
                for sentence in notes:
                    writer.note(sentence)

        return [self._keras.callbacks.LambdaCallback(on_train_begin=note_all)] if notes else []
