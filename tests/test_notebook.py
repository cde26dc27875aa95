"""`%load_ext tfwatch` with a fake IPython: a cell that trained shows the summary of its runs,
escaped."""

import contextlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tfwatch
from tests.watch.tracked import ROOT, end_all
from tfwatch import notebook
from tfwatch.notebook import Extension
from tfwatch.watch.script.import_hook import ImportHook


class Shell:
    """The parts of IPython's shell that an extension uses."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callable[..., None]]] = defaultdict(list)
        self.shown: list[dict[str, str]] = []
        self.events = SimpleNamespace(
            register=lambda name, function: self.callbacks[name].append(function),
            unregister=lambda name, function: self.callbacks[name].remove(function),
        )
        self.display_pub = SimpleNamespace(publish=lambda data, metadata: self.shown.append(data))

    def run_cell(self, cell: Callable[[], None]) -> list[dict[str, str]]:
        """Run a function as a cell; return what tfwatch shows."""
        self.shown.clear()
        self._trigger("pre_run_cell")
        with contextlib.suppress(ValueError):
            cell()
        self._trigger("post_run_cell")
        return self.shown

    def _trigger(self, name: str) -> None:
        for function in list(self.callbacks[name]):
            function(SimpleNamespace())


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell()
    loaded = Extension(shell, tmp_path)
    loaded.load()
    yield shell
    loaded.unload()
    end_all()
    assert not any(shell.callbacks.values())
    assert not any(isinstance(finder, ImportHook) for finder in sys.meta_path)


def batches(error: str) -> Iterator[int]:
    yield from range(40)
    if error:
        raise ValueError(error)


def train(runs_dir: Path, error: str = "") -> None:
    for _ in tfwatch.track(batches(error), runs_dir):
        sum(range(20_000))


def test_a_cell_that_trained_shows_its_summary(shell: Shell, tmp_path: Path) -> None:
    (shown,) = shell.run_cell(lambda: train(tmp_path))

    assert " finished: 1 epoch, 40 steps in " in shown["text/plain"].partition("\n")[0]
    assert shown["text/html"].startswith("<pre>python on CPU")


def test_a_cell_that_did_not_train_shows_nothing(shell: Shell, tmp_path: Path) -> None:
    shell.run_cell(lambda: train(tmp_path))

    assert shell.run_cell(lambda: None) == []


def test_a_cell_with_several_runs_has_the_summary_of_the_last(shell: Shell, tmp_path: Path) -> None:
    def search() -> None:
        for _ in range(2):
            with tfwatch.track(range(3), tmp_path) as tracked:
                list(tracked)
        train(tmp_path)

    (shown,) = shell.run_cell(search)

    first, second, *_ = shown["text/plain"].split("\n")
    assert first == "2 earlier runs of this cell: tfwatch runs"
    assert " finished: 1 epoch, 40 steps in " in second


def test_text_from_outside_is_no_markup(shell: Shell, tmp_path: Path) -> None:
    (shown,) = shell.run_cell(lambda: train(tmp_path, error="<script>alert(1)</script>"))

    assert "<script>alert(1)</script>" in shown["text/plain"]
    assert "&lt;script&gt;" in shown["text/html"]
    assert "<script>" not in shown["text/html"]


def test_a_summary_that_fails_is_one_sentence(
    shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(_runs: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(notebook, "_summary", broken)

    assert shell.run_cell(lambda: train(tmp_path)) == []
    assert (
        capsys.readouterr().err
        == "tfwatch: the summary of this cell cannot be shown: OSError: no space\n"
    )


def test_loading_twice_is_loading_once() -> None:
    shell = Shell()
    try:
        tfwatch.load_ipython_extension(shell)
        tfwatch.load_ipython_extension(shell)
        assert [len(functions) for functions in shell.callbacks.values()] == [1, 1]
    finally:
        tfwatch.unload_ipython_extension(shell)
    assert not any(shell.callbacks.values())


def test_loading_the_extension_loads_no_heavy_library() -> None:
    code = (
        "import sys, tfwatch\nfrom tests.test_notebook import Shell\n"
        "tfwatch.load_ipython_extension(Shell())\n"
        "print({'tensorflow', 'keras', 'textual'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "set()\n", done.stderr
