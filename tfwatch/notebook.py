"""The extension of IPython: `%load_ext tfwatch` and `%unload_ext tfwatch`."""

from __future__ import annotations

import os
import sys
from html import escape
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open, warn_user
from tfwatch.watch.script.import_hook import ImportHook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_FIT_RUNS = "tfwatch.watch.fit.fit_runs"

_loaded: list[Extension] = []


def load(shell: Any) -> None:
    """Record the trainings of this shell from now on. A second call does nothing: IPython reloads
    the extension."""
    if not _loaded:
        _loaded.append(Extension(shell))
        _loaded[0].load()


def unload(shell: Any) -> None:
    """Record nothing more, and leave Keras and TensorFlow as they were."""
    while _loaded:
        _loaded.pop().unload()


class Extension:
    """The trainings of one shell, which is an `InteractiveShell`.

    runs_dir: where the runs are recorded; None is the default folder.
    """

    def __init__(self, shell: Any, runs_dir: Path | None = None, clock: Clock = SYSTEM) -> None:
        self._shell = shell
        self._runs_dir = runs_dir
        self._clock = clock
        self._hook = ImportHook(str(runs_dir) if runs_dir else None)
        self._begun_ns = clock.wall_ns()

    def load(self) -> None:
        """Begin to record, in this cell already."""
        self._hook.install()
        self._shell.events.register("pre_run_cell", self._begin_cell)
        self._shell.events.register("post_run_cell", self._end_cell)

    def unload(self) -> None:
        """Put everything back."""
        self._shell.events.unregister("pre_run_cell", self._begin_cell)
        self._shell.events.unregister("post_run_cell", self._end_cell)
        self._hook.uninstall()

    def _begin_cell(self, *_: object) -> None:
        self._begun_ns = self._clock.wall_ns()

    def _end_cell(self, *_: object) -> None:
        with fails_open(lambda why: warn_user(f"the summary of this cell cannot be shown: {why}")):
            self._end_runs()
            runs = list(self._runs_of_cell())
            if runs:
                self._shell.display_pub.publish(data=_summary(runs), metadata={})

    def _end_runs(self) -> None:
        """End the runs that wait for another loop or another short fit."""
        self._hook.end_loops()
        if _FIT_RUNS in sys.modules:
            sys.modules[_FIT_RUNS].complete_runs()

    def _runs_of_cell(self) -> Iterator[Path]:
        """Yield the runs that this process has recorded since the cell began, the newest first."""
        if "tfwatch.watch.session" not in sys.modules:  # no training has begun in this process
            return
        from tfwatch.runs.library import default_runs_dir, runs_since

        yield from runs_since(self._runs_dir or default_runs_dir(), os.getpid(), self._begun_ns)


def _summary(runs: list[Path]) -> dict[str, str]:
    """Return the summary of the last run, and how many came before, as text and as HTML."""
    from tfwatch.report.text import summary_of_runs

    text = summary_of_runs(runs, "cell")
    return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
