"""The hook of `tfwatch run`: each `fit` gets a Watch, all or nothing, and whatever breaks, the script runs on."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.watch.script.keras_hook import wait_for_keras

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Import = Callable[..., Any]

KERAS = """\
from types import SimpleNamespace

__version__ = {version!r}


class CallbackList(list):
    pass


class Trainer:
    def fit(self, x=None, {parameter}=None):
        return {parameter}


class Model(Trainer):
    pass


callbacks = SimpleNamespace(CallbackList=CallbackList)
config = SimpleNamespace(backend=lambda: {backend!r})
tree = SimpleNamespace(flatten=lambda given: list(given) if isinstance(given, (list, tuple)) else [given])
"""


class FakeWatch:
    def __init__(self, runs_dir: str | None = None) -> None:
        self.runs_dir = runs_dir


class BrokenWatch:
    def __init__(self, runs_dir: str) -> None:
        raise RuntimeError("no threads left")


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Put a Watch that needs no TensorFlow in the place of the real one."""
    module = ModuleType("tfwatch.watch.fit.callback")
    module.__dict__.update(Watch=FakeWatch)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def import_keras(tmp_path: Path, callback: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Import]:
    """Import a fake Keras with the hook installed."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("keras", "tf_keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def imported(
        name: str = "keras", version: str = "3.8.0", backend: str = "tensorflow", parameter: str = "callbacks"
    ) -> Any:
        text = KERAS.format(version=version, backend=backend, parameter=parameter)
        tmp_path.joinpath(f"{name}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        wait_for_keras("runs")
        return importlib.import_module(name)

    yield imported
    for name in ("keras", "tf_keras"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("given", [None, [], ["one"], ("one", "two"), "alone"])
def test_a_fit_gets_a_watch_after_its_callbacks(given: Any, import_keras: Import) -> None:
    own = [given] if given == "alone" else list(given or [])

    *others, watch = import_keras().Model().fit(callbacks=given)

    assert others == own
    assert (type(watch), watch.runs_dir) == (FakeWatch, "runs")


def test_callbacks_by_position_are_the_callbacks(import_keras: Import) -> None:
    assert import_keras().Model().fit("data", ["one"])[0] == "one"


def test_a_fit_with_a_watch_keeps_it_alone(import_keras: Import) -> None:
    own = FakeWatch()

    assert import_keras().Model().fit(callbacks=[own]) == [own]


def test_each_fit_has_a_watch_of_its_own(import_keras: Import) -> None:
    model = import_keras().Model()

    assert model.fit()[0] is not model.fit()[0]


def test_another_process_is_not_watched(import_keras: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    model = import_keras().Model()
    monkeypatch.setattr(os, "getpid", lambda: -1)

    assert model.fit() is None


def test_a_forked_process_that_imports_keras_has_it_unpatched(
    import_keras: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = iter([1])
    monkeypatch.setattr(os, "getpid", lambda: next(pids, 2))  # the hook is installed in 1, and asked in 2

    assert not hasattr(import_keras().Model.fit, "__wrapped__")


@pytest.mark.parametrize(
    ("details", "sentence"),
    [
        ({"backend": "jax"}, "this script runs unwatched: its Keras runs on jax, and tfwatch watches TensorFlow"),
        ({"version": "2.15.0"}, "this script runs unwatched: it uses Keras 2.15.0, and tfwatch watches Keras 3"),
        ({"parameter": "hooks"}, "this script runs unwatched: TypeError: fit of this Keras takes no callbacks"),
        ({"name": "tf_keras"}, "a fit of tf_keras, the legacy Keras, is not watched: tfwatch watches Keras 3"),
    ],
    ids=["backend", "keras 2", "no callbacks", "legacy"],
)
def test_what_cannot_be_watched_runs_as_it_is_and_says_so_once(
    details: dict[str, str], sentence: str, import_keras: Import, capsys: pytest.CaptureFixture[str]
) -> None:
    model = import_keras(**details).Model()

    assert (model.fit(), model.fit()) == (None, None)
    assert not hasattr(model.fit, "__wrapped__")
    assert capsys.readouterr().err == f"tfwatch: {sentence}\n"


def test_a_newer_keras_is_watched_with_one_note(import_keras: Import, capsys: pytest.CaptureFixture[str]) -> None:
    model = import_keras(version="3.99.1").Model()

    assert len(model.fit()) == len(model.fit()) == 1
    assert capsys.readouterr().err == "tfwatch: Keras 3.99.1 is newer than 3.15, the newest tried with tfwatch\n"


def test_a_callback_list_is_left_alone_and_said_once(import_keras: Import, capsys: pytest.CaptureFixture[str]) -> None:
    keras = import_keras()
    own = keras.callbacks.CallbackList(["one"])

    assert keras.Model().fit(callbacks=own) is own
    assert keras.Model().fit(callbacks=own) is own
    assert capsys.readouterr().err.count("\n") == 1


def test_a_watch_that_breaks_leaves_the_fit_as_it_is(
    import_keras: Import, callback: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    callback.__dict__.update(Watch=BrokenWatch)

    assert import_keras().Model().fit(callbacks=["one"]) == ["one"]
    assert capsys.readouterr().err == "tfwatch: this fit is not watched: RuntimeError: no threads left\n"


def test_wrong_arguments_raise_what_keras_raises(import_keras: Import) -> None:
    with pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'epoch'"):
        import_keras().Model().fit(epoch=3)


def test_the_loader_of_keras_is_left_as_it_was(import_keras: Import) -> None:
    assert "exec_module" not in vars(import_keras().__spec__.loader)
