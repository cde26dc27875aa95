"""The runs of one script or process: each `fit` has one, and short fits in a row share one."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.events import EpochStarted
from tfwatch.runs.folder import PATIENCE_S, LateCall, RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.requests import RequestSender, why_no_requests
from tfwatch.runs.run import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot


class WatchedScript(Protocol):
    """The script of `tfwatch run`, as the screen uses it."""

    @property
    def runs(self) -> ScriptRuns: ...

    @property
    def has_ended(self) -> bool: ...

    @property
    def state(self) -> str:
        """Its state in words, e.g. `script runs`."""
        ...

    def interrupt(self) -> None:
        """Send it the signal that ctrl+c sends."""
        ...


class ScriptRuns:
    """Follows the runs of a script, or of another process.

    begun: returns the folders of the runs that have begun since the last call, the oldest first.
    folder: of the newest run; None before the first. fits: the number of those before it.
    at_first_run: called once the first run can be read.
    """

    def __init__(self, begun: Callable[[], list[Path]], clock: Clock = SYSTEM) -> None:
        self.folder: Path | None = None
        self.fits = 0
        self._opening: list[Path] = []
        self._calls: LateCall[tuple[int, Run | None, int]] = LateCall(clock=clock)
        self._reader: Run | None = None
        self._begun = begun
        self._clock = clock
        self.at_first_run: Callable[[], object] | None = None

    def next_reader(self) -> Run | None:
        """Return the newest run that has begun since the last call; None where none has.

        A run whose disk does not respond is returned by a later call.
        """
        self._opening += self._begun()
        opened = self._calls.ask(partial(self._open, *self._opening)) if self._opening else None
        if opened is None:
            return None
        count, run, fits = opened
        del self._opening[:count]
        if run is None:
            return None
        self._reader, self.folder = run, run.disk.folder
        self.fits += fits
        if self.at_first_run:
            begin, self.at_first_run = self.at_first_run, None
            begin()
        return run

    def _open(self, *folders: Path) -> tuple[int, Run | None, int]:
        """Open runs, of which all but the last are over; those that cannot be read are left out.
        Return their number, the last one, and the number of fits in those before it."""
        opened, fits = self._reader, 0
        for folder in folders:
            with suppress(NotARunError):
                run = Run(RunFolder(folder, self._clock), self._clock, patience_s=PATIENCE_S)
                before, opened = opened, run
                if before and before.disk.folder:
                    fits += _fits_in(before.disk.folder, self._clock)
        newest = opened if opened is not self._reader else None
        return len(folders), newest, fits

    def requests(self) -> RequestSender | None:
        """Return a sender of requests to the newest run; None where keys do not reach it."""
        folder = self.folder
        is_here = self._reader is not None and self._reader.manifest.boot_id == boot_id()
        if folder is None or not is_here or why_no_requests(folder):
            return None
        return RequestSender(folder)


def newest_fit(run: Snapshot) -> int:
    """Return the number of a run's newest fit, from 1; 0 before the first."""
    newest = run.events.newest(EpochStarted)
    return newest.fit if newest else 0


def _fits_in(folder: Path, clock: Clock) -> int:
    """Return the number of fits of a run that another one follows; 0 where it cannot be read."""
    with suppress(NotARunError, OSError):
        return newest_fit(open_run(folder, clock))
    return 0
