"""Waits for a script to import Keras, and appends `Watch` to each of its `fit`. It loads Keras at no time itself."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open
from tfwatch.runs.announcements import announce_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

#: The newest Keras that the tests ran with.
_NEWEST_TRIED = (3, 15)
_LEGACY = "tf_keras"
_NO_LEGACY = "a fit of tf_keras, the legacy Keras, is not watched: tfwatch watches Keras 3"


def wait_for_keras(runs_dir: str, announcements: str = "") -> None:
    """Patch Keras once the script imports it, in this process alone.

    runs_dir: where the runs are recorded. announcements: the file that announces them; empty without one.
    """
    if announcements:
        announce_in(announcements)
    sys.meta_path.insert(0, _Waiting(runs_dir))


class _Waiting:
    """A finder that finds nothing itself: it has the loader of Keras report that Keras is loaded."""

    def __init__(self, runs_dir: str) -> None:
        self._runs_dir = runs_dir
        self._pid = os.getpid()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in ("keras", _LEGACY) or os.getpid() != self._pid:
            return None
        spec = self._find(name, path, target)
        if spec is not None:
            with _unwatched():
                self._report_load(spec.loader)
        return spec

    def _find(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                return spec
        return None

    def _report_load(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            with _unwatched():
                self._use(module)

        loader.exec_module = exec_module

    def _use(self, module: Any) -> None:
        if module.__name__ == _LEGACY:
            _say(_NO_LEGACY)
        elif refusal := _refusal(module):
            _say(f"this script runs unwatched: {refusal}")
        else:
            _patch(module, self._runs_dir)


def _refusal(keras: Any) -> str:
    """Return why this Keras cannot be watched, or an empty text."""
    if _version(keras)[0] < 3:
        return f"it uses Keras {keras.__version__}, and tfwatch watches Keras 3"
    backend = keras.config.backend()
    return "" if backend == "tensorflow" else f"its Keras runs on {backend}, and tfwatch watches TensorFlow"


def _version(keras: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", keras.__version__)[:2])


def _patch(keras: Any, runs_dir: str) -> None:
    """Replace `fit` in the class that defines it, once everything that can fail is done."""
    owner = next(kind for kind in keras.Model.__mro__ if "fit" in vars(kind))
    fit = _Fits(keras, runs_dir).watched(vars(owner)["fit"])
    owner.fit = fit


class _Fits:
    """Every `fit` of this process."""

    def __init__(self, keras: Any, runs_dir: str) -> None:
        self._keras = keras
        self._runs_dir = runs_dir
        self._pid = os.getpid()
        self._said: set[str] = set()

    def watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `fit` that appends `Watch` to the callbacks."""
        signature = inspect.signature(original)
        if "callbacks" not in signature.parameters:
            raise TypeError("fit of this Keras takes no callbacks")

        @functools.wraps(original)
        def fit(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() == self._pid:
                with fails_open(lambda why: _say(f"this fit is not watched: {why}")):
                    args, kwargs = self._with_watch(signature, args, kwargs)
            return original(*args, **kwargs)

        return fit

    def _with_watch(
        self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError:  # Keras raises it again, with its own sentence
            return args, kwargs
        given = call.arguments.get("callbacks")
        if isinstance(given, self._keras.callbacks.CallbackList):
            self._say_once("a fit with a CallbackList of its own is not watched: pass a list of callbacks")
            return args, kwargs
        call.arguments["callbacks"] = self._appended(self._keras.tree.flatten(given) if given else [])
        return call.args, call.kwargs

    def _appended(self, callbacks: list[Any]) -> list[Any]:
        from tfwatch.watch.fit.callback import Watch

        if any(isinstance(one, Watch) for one in callbacks):
            return callbacks
        self._note_version()
        return [*callbacks, Watch(self._runs_dir)]

    def _note_version(self) -> None:
        if _version(self._keras) > _NEWEST_TRIED:
            newest = ".".join(map(str, _NEWEST_TRIED))
            self._say_once(f"Keras {self._keras.__version__} is newer than {newest}, the newest tried with tfwatch")

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            _say(sentence)


def _unwatched() -> fails_open:
    return fails_open(lambda why: _say(f"this script runs unwatched: {why}"))


def _say(sentence: str) -> None:
    """Print a sentence on stderr, if there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"tfwatch: {sentence}\n")
