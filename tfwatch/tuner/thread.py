"""The tuner of a terminal: a thread for each A/B test and each run of the autopilot, beside the
screen.

It sees a training by its run folder, and asks it by lines there. It ends with its terminal.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.events import Noted
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.requests import RequestFile, TunerNote, append
from tfwatch.tuner import autopilot, experiment
from tfwatch.tuner.driver import Autopilot, Driver, Experiment, Interrupt, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.core.events import Event
    from tfwatch.runs.requests import Request
    from tfwatch.tuner.driver import TunerJob

#: Seconds that the end of a terminal waits for that of its job, which is a line in the run folder.
_JOIN_S = 2.0
#: The function for each kind of job. Each requests the final settings before it returns or raises.
_JOBS: dict[type[TunerJob], Callable[[Driver, Any], None]] = {
    Experiment: experiment.run,
    Autopilot: autopilot.run,
}


class Tuner:
    """Runs the newest job for a run. It costs nothing until there is one.

    folder: returns the run's folder; None where nothing is recorded, and no job can run.
    """

    def __init__(self, folder: Callable[[], Path | None], clock: Clock = SYSTEM) -> None:
        self._folder = folder
        self._clock = clock
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """True while a job runs."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, job: TunerJob) -> str:
        """Begin a job in place of the present one; return why it cannot run, empty where it can."""
        folder = self._folder()
        if folder is None:
            return "it needs the run's folder, and nothing is recorded"
        self.cancel()
        before, self._cancelled = self._thread, threading.Event()
        work = (job, folder, self._cancelled, before)
        self._thread = threading.Thread(
            target=self._run, args=work, name="tfwatch-tuner", daemon=True
        )
        self._thread.start()
        return ""

    def cancel(self) -> None:
        """End the present job; its thread records that."""
        self._cancelled.set()

    def close(self) -> None:
        """End the present job, and wait until that is recorded."""
        self.cancel()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(
        self,
        job: TunerJob,
        folder: Path,
        cancelled: threading.Event,
        before: threading.Thread | None,
    ) -> None:
        if before is not None:
            before.join()
        send = _Sender(folder)
        what = type(job).__name__.lower()
        with fails_open(lambda why: send.note(self._clock, f"{what} failed: {why}")):
            driver = Driver(
                RunFolder(folder), RequestFile(folder), send, send.record, cancelled, self._clock
            )
            send.origin_ns = driver.snapshot.manifest.origin_ns
            try:
                _JOBS[type(job)](driver, job)
            except Interrupt as over:
                send.note(self._clock, f"{what} ended before it began: {over.reason}")
            except RefusedError as error:
                send.note(self._clock, f"{what} ended: {error}")


class _Sender:
    """Appends the tuner's requests, and its events as notes of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._started_s = psutil.Process().create_time()
        self.origin_ns = 0

    def __call__(self, request: Request) -> None:
        append(self._folder, request)

    def record(self, event: Event) -> None:
        self(TunerNote(event, self._pid, self._started_s))  # type: ignore[arg-type]

    def note(self, clock: Clock, text: str) -> None:
        at_ns = max(0, clock.now_ns() - self.origin_ns)
        with fails_open(lambda _: None):
            self.record(Noted(at_ns, text, is_refusal=True))
