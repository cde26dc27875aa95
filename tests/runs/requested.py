"""Requests with values as the code has them, and what a screen sends."""

import threading
from pathlib import Path

from tfwatch.runs.control import Control
from tfwatch.runs.requests import ProfileRequest, Request, RequestSender, StopRequest, SwitchRequest
from tfwatch.tuner.client import Tuner, TunerJob


def switch(knob: str, value: str, by: str = "key") -> SwitchRequest:
    """Return a request for the next batch."""
    return SwitchRequest(knob, value, by)


def planned(step: int, knob: str, value: str) -> SwitchRequest:
    """Return a request of the command line for the time when `step` steps are done."""
    return SwitchRequest(knob, value, "command", step)


class SentRequests(RequestSender):
    """Keeps what a screen sends. stop: set by a request to stop."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.stop = threading.Event()
        self.failures: list[str] = []
        #: Who asked for profiles.
        self.profiles: list[str] = []
        self._switches = Control()

    def send(self, request: Request) -> None:
        if isinstance(request, StopRequest):
            self.is_stopping = True
            self.stop.set()
        elif isinstance(request, SwitchRequest):
            self._switches.ask(request)
        elif isinstance(request, ProfileRequest):
            self.profiles.append(request.by)

    @property
    def has_requests(self) -> bool:
        """True while switches wait to be taken."""
        return self._switches.has_requests

    def take(self) -> list[SwitchRequest]:
        """Return the switches since the last call, the last one of each knob."""
        return self._switches.take(0)

    def take_failures(self) -> list[str]:
        failures, self.failures = self.failures, []
        return failures


class AskedTuner(Tuner):
    """Keeps the jobs that a screen begins; None where it ends one. busy: a job of this terminal
    runs."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.jobs: list[TunerJob | None] = []
        self.busy = False

    @property
    def is_busy(self) -> bool:
        return self.busy

    def begin(self, job: TunerJob) -> str:
        self.jobs.append(job)
        return ""

    def cancel(self) -> None:
        self.jobs.append(None)
