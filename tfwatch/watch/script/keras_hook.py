"""Appends `Watch` to each `fit` of Keras, and has `train_on_batch` and the steps of optimizers
noticed."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open, raise_interrupt, reason, warn_once, warn_user
from tfwatch.watch.script.patches import Patches, definer, find_users_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.writer import RunWriter
    from tfwatch.watch.loops.batch_calls import BatchCalls
    from tfwatch.watch.loops.found_loops import FoundLoops

#: The variable by which `--feed` passes the HOST:PORT of a tf.data service to the script.
FEED = "TFWATCH_FEED"


def find_refusal(keras: Any) -> str:
    """Return why this Keras cannot be watched, or an empty text."""
    if int(keras.__version__.partition(".")[0]) < 3:
        return f"it uses Keras {keras.__version__}, and tfwatch watches Keras 3"
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
_not_recorded = fails_open(lambda why: warn_once(f"this loop is not recorded: {why}"))


def _warn(why: str) -> None:
    warn_user(f"a part of this fit is not watched: {why}")


def patch_keras(keras: Any, runs_dir: str | None, loops: FoundLoops, calls: BatchCalls) -> Patches:
    """Replace `fit`, `train_on_batch` and the optimizers' `apply`; return the patches, applied.

    Raises:
        AttributeError, TypeError: this Keras is another one than those tried.
    """
    patches = Patches()
    replaced = (
        (keras.Model, "fit", _Fits(keras, runs_dir, loops).watched),
        (keras.Model, "train_on_batch", lambda original: _recorded(original, calls)),
        (keras.optimizers.Optimizer, "apply", lambda original: _noticed(original, loops)),
    )
    for kind, name, wrap in replaced:
        owner = definer(kind, name)
        patches.add(owner, name, wrap(vars(owner)[name]))
    patches.apply()
    return patches


def _recorded(original: Callable[..., Any], calls: BatchCalls) -> Callable[..., Any]:
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
        with _not_recorded:
            calls.end_call(call, logs)
        return logs

    return train_on_batch


def _noticed(original: Callable[..., Any], loops: FoundLoops) -> Callable[..., Any]:
    """Return an `apply` that is a sign of training."""

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _not_recorded:
            loops.note_optimizer(self)
        return original(self, *args, **kwargs)

    return apply


def _newest_writer() -> RunWriter | None:
    from tfwatch.watch.fit.fit_runs import newest_writer

    return newest_writer()


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
        callbacks = [*callbacks, *self._new_watch(callbacks)]
        self._end_with_error(callbacks, around)
        call.arguments["callbacks"] = [*callbacks, *self._notes()]
        return call.args, call.kwargs

    @staticmethod
    def _end_with_error(callbacks: list[Any], around: ExitStack) -> None:
        """Have the run fail with what `fit` raises: after a callback's error Keras calls no other
        one."""
        from tfwatch.watch.fit.callback import Watch

        def end(_kind: object, error: BaseException | None, _trace: object) -> None:
            if error is not None:
                for watch in watches:
                    watch.note_raised(error)

        watches = [one for one in callbacks if isinstance(one, Watch)]
        around.push(end)

    def _new_watch(self, callbacks: list[Any]) -> list[Any]:
        """Return a `Watch`, or nothing where there is one."""
        from tfwatch.watch.fit.callback import Watch

        if any(isinstance(one, Watch) for one in callbacks):
            return []
        return [Watch(self._runs_dir)]

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
            if writer := _newest_writer():
                for sentence in notes:
                    writer.note(sentence)

        return [self._keras.callbacks.LambdaCallback(on_train_begin=note_all)] if notes else []
