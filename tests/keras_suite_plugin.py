"""A plugin of pytest for `keras_suite`: Watch in every `fit`, and each test's result as JSON.

The result of a test: its phases (name, outcome, message), `trained` (history and weights after each `fit`), and of its
recorded runs the number of `fits` and `steps`, and as `notes` the failures of Watch and why steps are not split.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

#: Parts of a message that differ between equal runs, or that name the frames between a script and Keras.
NOISE = (
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"/tmp/[\w./-]+"), "/tmp"),
    (re.compile(r'^\s*File ".*$\n?', re.MULTILINE), ""),
    (re.compile(r"\b\d+(\.\d+)? ?(s|ms|us)\b"), "0 s"),
    (re.compile(r"(?<=_)\d+\b"), "0"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the places of the result and of the runs; without runs, `fit` is bare."""
    parser.addoption("--suite-result")
    parser.addoption("--suite-runs")


def pytest_configure(config: pytest.Config) -> None:
    """Record all tests of this process."""
    config.pluginmanager.register(
        Suite(config.getoption("suite_result"), config.getoption("suite_runs"))
    )


class Suite:
    """The results of the tests, and the fits of the current test."""

    def __init__(self, result: str, runs: str | None) -> None:
        self._result = Path(result)
        self._runs = runs
        self._trained: list[str] = []
        self._folders: list[Path | None] = []
        self._files: dict[str, dict[str, dict[str, Any]]] = {}
        self._patch_fit()

    def _patch_fit(self) -> None:
        from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

        stock = TensorFlowTrainer.fit
        signature = inspect.signature(stock)

        @functools.wraps(stock)
        def fit(*args: Any, **options: Any) -> Any:
            if not self._runs:
                return self._train(stock, args, options)
            try:
                given = signature.bind(*args, **options)
            except TypeError:
                return stock(*args, **options)
            watch = self._add_watch(given)
            try:
                return self._train(stock, given.args, given.kwargs)
            finally:
                self._folders.append(watch.run_path)

        TensorFlowTrainer.fit = fit

    def _train(self, stock: Any, args: Any, options: Any) -> Any:
        history = stock(*args, **options)
        self._trained.append(fingerprint(args[0], history))
        return history

    def _add_watch(self, given: inspect.BoundArguments) -> Any:
        import keras

        from tfwatch import Watch

        watch, callbacks = Watch(self._runs), given.arguments.get("callbacks")
        if isinstance(callbacks, keras.callbacks.CallbackList):
            watch.set_model(given.args[0])
            watch.set_params(callbacks.params)
            callbacks.append(watch)
        else:
            given.arguments["callbacks"] = [*keras.tree.flatten(callbacks or []), watch]
        return watch

    def pytest_runtest_setup(self) -> None:
        """Give each test the same seed, whatever ran before it."""
        import keras

        self._trained.clear()
        self._folders.clear()
        keras.utils.set_random_seed(7)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a phase of a test."""
        test = self._test(report.nodeid)
        test["phases"].append([report.when, report.outcome, message(report.longrepr)])
        if report.when == "teardown":
            test.update(trained=list(self._trained), **self._recorded())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the error of a file that cannot be imported, or that skips itself."""
        if report.outcome != "passed":
            self._test(report.nodeid)["phases"].append(
                ["import", report.outcome, message(report.longrepr)]
            )

    def _test(self, node: str) -> dict[str, Any]:
        file, _, name = node.partition("::")
        return self._files.setdefault(Path(file).name, {}).setdefault(
            name, {"phases": [], "trained": []}
        )

    def _recorded(self) -> dict[str, Any]:
        runs = list(read_runs(self._folders))
        return {
            "fits": len(self._folders),
            "steps": sum(len(run.steps) for run in runs),
            "notes": [note for run in runs for note in notes_of(run)],
        }

    def pytest_sessionfinish(self) -> None:
        """Write the result."""
        self._result.write_text(json.dumps(self._files), encoding="utf-8")


def read_runs(folders: list[Path | None]) -> Iterator[Any]:
    """Yield the runs that have a folder."""
    from tfwatch.runs.reading.opened import open_run

    yield from (open_run(folder) for folder in folders if folder)


def notes_of(run: Any) -> list[str]:
    """Return the failures of Watch in a run, and why its steps are not split."""
    from tfwatch.core.events import WatchFailed

    failures = [f"failed: {event.reason}" for event in run.events if isinstance(event, WatchFailed)]
    return [
        *failures,
        *([f"not split: {run.manifest.not_split}"] if run.manifest.not_split else []),
    ]


def fingerprint(model: Any, history: Any) -> str:
    """Return the history and a digest of the weights."""
    digest = hashlib.sha256()
    for weight in model.get_weights():
        digest.update(repr(weight).encode() if weight.dtype == object else weight.tobytes())
    return f"{getattr(history, 'history', history)} {digest.hexdigest()[:16]}"


def message(longrepr: Any) -> str:
    """Return the text of an error or the reason of a skip, without the parts that are noise."""
    crash = getattr(longrepr, "reprcrash", None)
    text = (
        crash.message
        if crash
        else str(longrepr[2])
        if isinstance(longrepr, tuple)
        else str(longrepr or "")
    )
    return functools.reduce(lambda text, noise: noise[0].sub(noise[1], text), NOISE, text)
