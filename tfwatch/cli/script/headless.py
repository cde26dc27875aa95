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
    from pathlib import Path

    from tfwatch.core.clock import Clock
    from tfwatch.notices import NotifyOptions
    from tfwatch.runs.run import Run
    from tfwatch.tuner.jobs import TunerJob

_LOOK_S = 1.0
#: The end of a script waits so long for the look at its run: its disk may hang.
_PATIENCE_S = 5.0


class FollowedRuns:
    """The newest run of a script, followed for its notices where no screen does."""

    def __init__(self, runs: ScriptRuns, notifier: Notifier, clock: Clock) -> None:
        self._runs = runs
        self._notifier = notifier
        self._clock = clock
        self._reader: Run | None = None

    def look(self) -> None:
        """Read the newest run, and pass its notices on; the end of a run is not that of the
        script."""
        self._reader = self._runs.next_reader() or self._reader or self._newest()
        snapshot = self._reader.in_time(self._reader.read) if self._reader else None
        if snapshot is not None:
            self._notifier.follow(snapshot, ends=False)

    def _newest(self) -> Run | None:
        """Return a reader of the run that a screen followed before."""
        return follow_folder(self._runs.folder, self._clock) if self._runs.folder else None


class HeadlessRuns:
    """Follows the runs that a script announces in the file `announced`, until `end`.

    job: an A/B test, or the autopilot, to begin with the first run.
    """

    def __init__(
        self, options: NotifyOptions, clock: Clock, job: TunerJob | None, announced: Path
    ) -> None:
        self._notifier = Notifier(options, _show)
        runs = ScriptRuns(Announcements(announced), clock)
        self._followed = FollowedRuns(runs, self._notifier, clock)
        self._tuner = Tuner(lambda: runs.folder, clock)
        if job is not None:
            runs.at_first_run = lambda: self._tuner.begin(job)
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
        self._tuner.close()
        self._notifier.script_ended(state)
        self._notifier.close()
        self._report_failures()

    def _follow(self) -> None:
        with fails_open(_report):
            while not self._ended.wait(_LOOK_S):
                self._followed.look()
                self._report_failures()

    def _report_failures(self) -> None:
        for why in self._notifier.take_failures():
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
