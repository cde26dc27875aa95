"""The runs of a script without a screen: a thread of the waiting process passes their notices on
and begins the tuner."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, printable
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.notices import Notifier
from tfwatch.runs.run import follow_folder
from tfwatch.runs.script_process import Announcements
from tfwatch.tuner.thread import Tuner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.cli.script.request import RunOptions
    from tfwatch.core.clock import Clock
    from tfwatch.runs.run import Run

_LOOK_S = 1.0
#: The end of a script waits so long for the look at its run: its disk may hang.
_PATIENCE_S = 5.0


class FollowedScript:
    """The runs of a script: their notices, and the tuner, whose job begins with the first run.

    show: as of `Notifier`.
    """

    def __init__(
        self, runs: ScriptRuns, options: RunOptions, clock: Clock, show: Callable[[str, str], None]
    ) -> None:
        self.notifier = Notifier(options.notify, show)
        self.tuner = Tuner(lambda: runs.folder, clock)
        self._runs = runs
        self._clock = clock
        self._reader: Run | None = None
        if job := options.job:
            runs.at_first_run = lambda: self.tuner.begin(job)

    def look(self) -> None:
        """Read the newest run where no screen does, and pass its notices on; the end of a run is
        not that of the script."""
        self._reader = self._runs.next_reader() or self._reader or self._newest()
        snapshot = self._reader.in_time(self._reader.read) if self._reader else None
        if snapshot is not None:
            self.notifier.follow(snapshot, ends=False)

    def _newest(self) -> Run | None:
        """Return a reader of the run that a screen followed before."""
        return follow_folder(self._runs.folder, self._clock) if self._runs.folder else None

    def end(self, state: str) -> None:
        """End the tuner, and pass on that the script ended, in these words; empty: the screen
        has."""
        self.tuner.close()
        if state:
            self.notifier.script_ended(state)
        self.notifier.close()


class HeadlessRuns:
    """Follows the runs that a script announces in the file `announced`, until `end`."""

    def __init__(self, options: RunOptions, clock: Clock, announced: Path) -> None:
        runs = ScriptRuns(Announcements(announced), clock)
        self._followed = FollowedScript(runs, options, clock, _show)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tfwatch-notices", daemon=True)

    def start(self) -> None:
        """Start the thread; it blocks the signals that the caller blocks."""
        with fails_open(_report):
            self._thread.start()

    def end(self, state: str) -> None:
        """Pass on that the script ended, in these words."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        self._followed.end(state)
        self._report_failures()

    def _follow(self) -> None:
        with fails_open(_report):
            while not self._ended.wait(_LOOK_S):
                self._followed.look()
                self._report_failures()

    def _report_failures(self) -> None:
        for why in self._followed.notifier.take_failures():
            _report(why)


def _show(sentence: str, bell: str) -> None:
    _report(sentence)
    if bell and os.isatty(2):
        sys.stderr.write(bell)
        sys.stderr.flush()


def _report(sentence: str) -> None:
    if sys.stderr is not None:  # closed by the caller
        with fails_open(lambda _: None):
            sys.stderr.write(f"tfwatch: {printable(sentence)}\n")
            sys.stderr.flush()
