"""The hook of `tfwatch run`: each `fit` gets a Watch, all or nothing, and whatever breaks, the
script runs on."""

import copy
import importlib
import os
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

import tfwatch
from tfwatch.core.rows import Flag, step_ms
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.watch.script.import_hook import ImportHook
from tfwatch.watch.script.patches import make_timed_class
from tfwatch.watch.tensorflow_info import host_device

Import = Callable[..., Any]

PACKAGE = Path(tfwatch.__file__).parent
KERAS = """\
from types import SimpleNamespace

__version__ = {version!r}


class CallbackList:
    def __init__(self, callbacks):
        self.callbacks = callbacks


class Trainer:
    def fit(self, x=None, {parameter}=None):
        if x == "raise":
            raise ValueError([type(one).__name__ for one in callbacks])
        return {parameter}

    def train_on_batch(self, x=None, y=None):
        if isinstance(x, Exception):
            raise x
        return [0.5, 0.25]


class Model(Trainer):
    pass


class Optimizer:
    def apply(self, grads):
        return grads


callbacks = SimpleNamespace(CallbackList=CallbackList)
optimizers = SimpleNamespace(Optimizer=Optimizer)
config = SimpleNamespace(backend=lambda: {backend!r})
tree = SimpleNamespace(flatten=lambda given: list(given) if isinstance(given, (list, tuple)) else [given])
"""  # noqa: E501


NOT_WATCHED = "a fit of this script is not watched"


class FakeWatch:
    def __init__(self, runs_dir: str | None = None) -> None:
        self.runs_dir = runs_dir

    def note_raised(self, error: BaseException) -> None:
        raised.append(error)


#: What the watched `fit` raised.
raised: list[BaseException] = []


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
def import_keras(
    tmp_path: Path, callback: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Import]:
    """Import a fake Keras with the hook installed."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("keras", "tf_keras", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr("tfwatch.watch.loops.tracked_loop.find_device", host_device)
    hooks: list[ImportHook] = []

    def imported(
        name: str = "keras",
        version: str = "3.8.0",
        backend: str = "tensorflow",
        parameter: str = "callbacks",
        runs_dir: Path | None = None,
    ) -> Any:
        text = KERAS.format(version=version, backend=backend, parameter=parameter)
        tmp_path.joinpath(f"{name}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        hook = ImportHook(str(runs_dir or "runs"))
        hook.install()
        hooks.append(hook)
        return importlib.import_module(name)

    yield imported
    for hook in hooks:
        hook.uninstall()
    for name in ("keras", "tf_keras"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("given", [None, [], ["one"], ("one", "two"), "alone"])
def test_a_fit_gets_a_watch_after_its_callbacks(given: Any, import_keras: Import) -> None:
    own = [given] if given == "alone" else list(given or [])

    *others, watch = import_keras().Model().fit(callbacks=given)

    assert others == own
    assert (type(watch), watch.runs_dir) == (FakeWatch, "runs")


def test_each_fit_has_a_watch_of_its_own_or_that_of_the_script(import_keras: Import) -> None:
    model, own = import_keras().Model(), FakeWatch()

    assert model.fit()[0] is not model.fit()[0]
    assert model.fit("data", ["one"])[0] == "one"
    assert model.fit(callbacks=[own]) == [own]


def test_another_process_is_not_watched(
    import_keras: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = import_keras().Model()
    monkeypatch.setattr(os, "getpid", lambda: -1)

    assert model.fit() is None


def test_a_forked_process_that_imports_keras_has_it_unpatched(
    import_keras: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = iter([1])
    monkeypatch.setattr(
        os, "getpid", lambda: next(pids, 2)
    )  # the hook is installed in 1, and asked in 2

    assert not hasattr(import_keras().Model.fit, "__wrapped__")


@pytest.mark.parametrize(
    ("details", "sentence"),
    [
        (
            {"backend": "jax"},
            f"{NOT_WATCHED}: its Keras runs on jax, and tfwatch watches TensorFlow",
        ),
        (
            {"version": "3.7.0"},
            f"{NOT_WATCHED}: it uses Keras 3.7.0, and tfwatch watches Keras 3.8 and newer",
        ),
        (
            {"parameter": "hooks"},
            "this script runs unwatched: TypeError: fit of this Keras takes no callbacks",
        ),
        (
            {"name": "tf_keras"},
            "a fit of tf_keras, the legacy Keras, is not watched: tfwatch watches Keras 3",
        ),
    ],
    ids=["backend", "too old", "no callbacks", "legacy"],
)
def test_what_cannot_be_watched_runs_as_it_is_and_says_so_once(
    details: dict[str, str], sentence: str, import_keras: Import, capsys: pytest.CaptureFixture[str]
) -> None:
    model = import_keras(**details).Model()

    assert (model.fit(), model.fit()) == (None, None)
    assert not hasattr(model.fit, "__wrapped__")
    assert capsys.readouterr().err == f"tfwatch: {sentence}\n"


def test_a_fit_with_a_callback_list_is_as_it_is_and_says_so(
    import_keras: Import, capsys: pytest.CaptureFixture[str]
) -> None:
    keras = import_keras()
    own = keras.callbacks.CallbackList(["one"])

    assert keras.Model().fit(callbacks=own) is own
    assert own.callbacks == ["one"]
    assert "pass them to fit in a plain list" in capsys.readouterr().err


def test_what_a_fit_raises_is_noted_in_its_run_and_passes_on(import_keras: Import) -> None:
    keras = import_keras()
    raised.clear()

    with pytest.raises(ValueError, match="FakeWatch") as caught:
        keras.Model().fit("raise")
    keras.Model().fit("good")

    assert raised == [caught.value]


def test_a_hook_that_is_taken_back_leaves_keras_as_it_was(import_keras: Import) -> None:
    hook, keras = ImportHook("runs"), import_keras()
    watched = keras.Model.fit
    hook.install()  # of a Keras that is imported already
    assert keras.Model.fit is not watched

    hook.uninstall()

    assert keras.Model.fit is watched
    assert hook not in sys.meta_path


def calls_of(model: Any, batches: Iterable[Any], also: Any = None) -> list[Any]:
    """Return what the calls of a loop over `train_on_batch` return; `also` is trained in the same
    step."""
    returned = []
    for batch in batches:
        returned.append(model.train_on_batch(batch))
        if also is not None:
            also.train_on_batch(batch)
    return returned


def test_calls_of_train_on_batch_are_the_compute_of_their_steps(
    import_keras: Import, tmp_path: Path
) -> None:
    model, other = (
        import_keras(runs_dir=tmp_path / "runs").Model(),
        importlib.import_module("keras").Model(),
    )

    assert calls_of(model, range(5), also=other) == [[0.5, 0.25]] * 5
    sys.meta_path[0].end_loops()  # type: ignore[attr-defined]

    (run,) = [open_run(path) for path in list_runs(tmp_path / "runs")]
    assert run.ended
    assert (run.ended.steps, len(run.steps), run.ended.cause) == (5, 5, "finished")
    assert run.manifest.makes_batches
    assert [bool(flags & Flag.COMPILE) for flags in run.steps["flags"]] == [True, *[False] * 4]
    assert (run.steps["wait_ms"] == 0).all()
    assert (run.steps["compute_ms"] > 0).all()
    length_ms = run.ended.at_ns / 1e6
    assert step_ms(run.steps).sum() == pytest.approx(length_ms, rel=0.01)


@pytest.mark.parametrize("batches", [[0], []])
def test_a_call_alone_leaves_no_run(
    batches: list[Any], import_keras: Import, tmp_path: Path
) -> None:
    calls_of(import_keras(runs_dir=tmp_path / "runs").Model(), batches)
    sys.meta_path[0].end_loops()  # type: ignore[attr-defined]

    assert list_runs(tmp_path / "runs") == []


def test_an_error_of_a_call_is_the_users_and_the_runs(
    import_keras: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = import_keras(runs_dir=tmp_path / "runs").Model()

    with pytest.raises(ValueError, match="no such shape") as caught:
        calls_of(model, [1, 2, ValueError("no such shape")])
    monkeypatch.setattr(sys, "last_value", caught.value, raising=False)
    sys.meta_path[0].end_loops()  # type: ignore[attr-defined]

    (run,) = [open_run(path) for path in list_runs(tmp_path / "runs")]
    assert run.ended
    assert (run.ended.steps, run.ended.cause) == (2, "failed")


def test_a_watch_that_breaks_leaves_the_fit_as_it_is(
    import_keras: Import, callback: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    callback.__dict__.update(Watch=BrokenWatch)

    assert import_keras().Model().fit(callbacks=["one"]) == ["one"]
    assert (
        capsys.readouterr().err
        == "tfwatch: this fit is not watched: RuntimeError: no threads left\n"
    )


def test_a_fit_is_as_keras_made_it_wherever_its_hook_breaks(import_keras: Import) -> None:
    """Raise in each call of a function of tfwatch's but those that nothing can be around."""
    keras = import_keras()
    around = {
        ("patches.py", "fit"),
        *(("errors.py", f"__{name}__") for name in ("init", "enter", "exit")),
    }
    calls = 0

    def see(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        file, name = Path(frame.f_code.co_filename), frame.f_code.co_name
        if file.is_relative_to(PACKAGE) and (file.name, name) not in around:
            calls += 1
            if calls == limit:
                del frame  # else it is an exception of the trace function, which ends fit
                raise MemoryError

    limit = 0
    while calls >= limit:
        calls, limit = 0, limit + 1
        sys.settrace(see)
        try:
            given = keras.Model().fit(callbacks=["one"])
        finally:
            sys.settrace(None)
        assert given[0] == "one"
    assert limit > 5


def test_a_sign_of_training_that_is_lost_is_reported_once_and_the_step_is_made(
    import_keras: Import, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no sign")

    monkeypatch.setattr("tfwatch.watch.loops.found_loops.FoundLoops.note_optimizer", fail)
    monkeypatch.setattr("tfwatch.watch.loops.found_loops.BatchCalls.begin", fail)
    keras = import_keras()

    assert [keras.optimizers.Optimizer().apply("gradients") for _ in range(2)] == ["gradients"] * 2
    assert calls_of(keras.Model(), range(3)) == [[0.5, 0.25]] * 3
    assert capsys.readouterr().err == "tfwatch: this loop is not recorded: RuntimeError: no sign\n"


def test_wrong_arguments_raise_what_keras_raises(import_keras: Import) -> None:
    with pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'epoch'"):
        import_keras().Model().fit(epoch=3)


def test_the_loader_of_keras_is_left_as_it_was(import_keras: Import) -> None:
    assert "exec_module" not in vars(import_keras().__spec__.loader)


class Numbers:
    """An iterator."""

    def __init__(self) -> None:
        self.last = 0

    def __next__(self) -> int:
        self.last += 1
        return self.last


def through_pickle(one: Any) -> Any:
    return pickle.loads(pickle.dumps(one))


def test_an_iterator_is_pickled_and_copied_as_without_tfwatch() -> None:
    bare = pickle.dumps(Numbers())
    ways: tuple[Callable[[Any], Any], ...] = (copy.copy, copy.deepcopy, through_pickle)
    for duplicate in ways:
        timed: Any = Numbers()
        timed.__class__, timed._tfwatch_loop = make_timed_class(Numbers), object()
        assert pickle.dumps(duplicate(timed)) == bare
