"""The tuner of a terminal: a thread for each A/B test and each run of the autopilot, with its view
of the run and its requests.

It sees a training by its run folder, and asks it by lines there. It ends with its terminal.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.events import Noted, PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import DEVICE_PREFETCH, PREFETCH, WORKERS
from tfwatch.core.rows import Flag
from tfwatch.judge.effects.switching_state import knob_states, knobs_in_effect
from tfwatch.judge.forecasts.predict import depth
from tfwatch.judge.steps.steady_steps import without_ends
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.requests import (
    BY_USER,
    RequestFile,
    StopRequest,
    SwitchRequest,
    TunerNote,
    append,
)
from tfwatch.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.requests import Request
    from tfwatch.runs.snapshot import Snapshot

#: Seconds that the end of a terminal waits for that of its job, which is a line in the run folder.
_JOIN_S = 2.0
#: Seconds between two looks at the run; its writer publishes ten times a second, and a look takes
#: 0.5 ms of CPU.
_POLL_S = 0.05
#: A training that runs has taken a request after this time and two steps.
_TAKEN_NS = 250 * 10**6
#: Steps that a new pipeline takes to settle, and the most that its buffers add to them: their first
#: batches come together.
_SETTLING, _MOST_TOGETHER = 4, 16
#: Flags of the first step of a pipeline.
_PIPELINE_STARTS = np.uint16(Flag.EPOCH_START | Flag.SHUFFLE_FILL | Flag.SWITCH)
_OVER = {
    "key": "a knob was switched",
    "cancelled": "it was cancelled",
    "stopped": "the training stops",
    "ended": "the run has ended",
}


class Interrupt(Exception):
    """The job is over before it is done.

    cause: `cancelled` by another request, `key` where the user switched a knob, `stopped`, or
    `ended` with the run. reason: the same in a sentence. ends_run: the run is over too.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.reason = _OVER[cause]
        self.ends_run = cause in ("stopped", "ended")


class RefusedError(Exception):
    """A setting was refused, for the reason in the message."""


class TunerJob(Protocol):
    """An A/B test, or a run of the autopilot."""

    @property
    def name(self) -> str:
        """Its name in a sentence."""

    def run(self, driver: Driver) -> None:
        """Run to the end, and request the final settings before it returns or raises.

        Raises:
            RefusedError: it cannot begin. Interrupt: it is over before it began.
        """


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
        """Run a job; a note of the run says why it did not begin, or that it failed."""
        if before is not None:
            before.join()
        with fails_open(lambda _: None):
            send, requests = partial(append, folder), RequestFile(folder)
            driver = Driver(RunFolder(folder), requests, send, cancelled, self._clock)
            with fails_open(lambda why: driver.note(f"{job.name} failed: {why}")):
                try:
                    job.run(driver)
                except Interrupt as over:
                    driver.note(f"{job.name} ended before it began: {over.reason}")
                except RefusedError as error:
                    driver.note(f"{job.name} ended: {error}")


class Driver:
    """One job's view of a run. Every method that waits raises `Interrupt` where the job is over.

    source: the run. requests: its file of requests. send: appends a request. cancelled: ends the
    job. pause: replaces the wait between two looks.

    Attributes:
        snapshot: the run as of the last look.
    """

    def __init__(
        self,
        source: RunFolder,
        requests: RequestFile,
        send: Callable[[Request], None],
        cancelled: threading.Event,
        clock: Clock = SYSTEM,
        pause: Callable[[], object] | None = None,
    ) -> None:
        self.send = send
        self._process = os.getpid(), psutil.Process().create_time()
        self._clock = clock
        self._requests = requests
        self._cancelled = cancelled
        self._pause = pause or (lambda: cancelled.wait(_POLL_S))
        self._reader = Run(source, clock)
        #: What the user has requested since the job began.
        self._user_knobs: set[str] = set()
        self._is_stopped = False
        self._requests.skip_all()
        self.snapshot: Snapshot = self._reader.read()
        #: The time and the step at which the training has taken the requests before the job.
        self._takes_until = 0, 0
        if self._requests.offset:
            self._takes_until = clock.now_ns() + _TAKEN_NS, self.snapshot.steps_total + 2

    # -- looking ----------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Nanoseconds since the run's clock origin."""
        return self._clock.now_ns() - self.snapshot.manifest.origin_ns

    def publish(self, event: Event) -> None:
        """Have an event of this process recorded."""
        self.send(TunerNote(event, *self._process))

    def note(self, text: str) -> None:
        """Have a refusal recorded."""
        self.publish(Noted(self.now_ns(), text, is_refusal=True))

    def look(self) -> Snapshot:
        """Read the run.

        Raises:
            Interrupt: the job is over.
        """
        self.snapshot = self._reader.read()
        self._check()
        return self.snapshot

    def _check(self) -> None:
        self._read_requests()
        if self._cancelled.is_set():
            # A run records its end before its terminal cancels the job, so the last look may miss
            # the end.
            self.snapshot = self._reader.read()
        if self._is_stopped:
            raise Interrupt("stopped")
        if self.snapshot.life.is_over:
            raise Interrupt("ended")
        if self._user_knobs:
            raise Interrupt("key")
        if self._cancelled.is_set():
            raise Interrupt("cancelled")

    def _read_requests(self) -> None:
        for line in self._requests.read():
            request = line.request
            if isinstance(request, SwitchRequest) and request.by in BY_USER:
                self._user_knobs.add(request.knob)
            elif isinstance(request, StopRequest):
                self._is_stopped = True

    def wait(self, until: Callable[[Snapshot], bool]) -> Snapshot:
        """Look at the run until a condition holds.

        Raises:
            Interrupt: the job is over.
        """
        while not until(snapshot := self.look()):
            self._pause()
        return snapshot

    def rows_between(self, first: int, last: int) -> Rows:
        """Return the rows of steps `first` to `last`."""
        return self._reader.steps_between(first, last)

    def settled_rows(self, first: int) -> Rows:
        """Return the rows from a step on, without those in which a new pipeline settles, also one
        just before it, and the ends of epochs."""
        settling = settling_steps(self.knobs)
        rows = self._reader.steps_between(max(first - settling, 1), self.snapshot.steps_total)
        keep = rows["step"] >= first
        for start in np.flatnonzero(rows["flags"] & _PIPELINE_STARTS):
            keep[start : start + settling] = False
        return rows[without_ends(rows, keep)]

    @property
    def knobs(self) -> dict[str, str]:
        """The setting of every knob in the running pipeline, in words."""
        return knobs_in_effect(
            self.snapshot.manifest.knobs, self.snapshot.events.of(PipelineSwitched)
        )

    @property
    def is_switching(self) -> bool:
        """True while a request for the next batch is not in effect yet."""
        events: list[SwitchAsked | PipelineSwitched | SwitchFailed] = self.snapshot.events.of(
            SwitchAsked, PipelineSwitched, SwitchFailed
        )
        manifest = self.snapshot.manifest
        states = knob_states(manifest.knobs, events).values()
        waits = any(
            state.asked is not None and not manifest.epochs_until(state.knob, state.coming)
            for state in states
        )
        since_ns, since_step = self._takes_until
        is_early = self._clock.now_ns() < since_ns or self.snapshot.steps_total < since_step
        return is_early or waits

    # -- asking -----------------------------------------------------------------------------------

    def switch(self, settings: Mapping[str, str], by: str, *, random_draws: bool = False) -> int:
        """Request settings and wait until they are in effect. Returns the first step that they are
        judged by, after those in which the new pipeline settles. random_draws: as of
        `SwitchRequest`.

        Raises:
            Interrupt: the job is over; a user's own switch is never overridden.
            RefusedError: one of them was refused. The others are in effect.
        """
        self._check()
        known = len(self.snapshot.events)
        due = {knob: value for knob, value in settings.items() if self.knobs[knob] != value}
        for knob in sorted(due):
            self._request(knob, due[knob], by, random_draws=random_draws)
        self.wait(lambda _: due.keys() <= self._answers(known, due).keys())
        answers = self._answers(known, due).values()
        for answer in answers:
            if isinstance(answer, SwitchFailed):
                raise RefusedError(answer.reason)
        steps = [answer.step for answer in answers if isinstance(answer, PipelineSwitched)]
        return max(steps, default=self.snapshot.steps_total) + settling_steps(self.knobs)

    def _answers(
        self, known: int, due: Mapping[str, str]
    ) -> dict[str, PipelineSwitched | SwitchFailed]:
        """Return the answers to requests by their knobs, of the events after so many."""
        return {
            event.knob: event
            for event in self.snapshot.events[known:]
            if (isinstance(event, SwitchFailed) and event.knob in due)
            or (isinstance(event, PipelineSwitched) and due.get(event.knob) == event.new)
        }

    def ask_final(self, knob: str, value: str, by: str) -> None:
        """Request the final setting after the end, unless the user switched that knob meanwhile, or
        the run ends."""
        is_ending = self._is_stopped or self.snapshot.life.is_over
        if not self.is_changed_by_user(knob) and not is_ending:
            self._request(knob, value, by)

    def is_changed_by_user(self, knob: str) -> bool:
        """Return whether the user switched a knob since the job began."""
        self._read_requests()
        return knob in self._user_knobs

    def _request(self, knob: str, value: str, by: str, *, random_draws: bool = False) -> None:
        after = self._requests.offset
        self.send(SwitchRequest(knob, value, by, after=after, random_draws=random_draws))


def settling_steps(knobs: Mapping[str, str]) -> int:
    """Return the number of steps to leave out after a switch to these settings."""
    buffered = sum(depth(knobs.get(knob, "off")) for knob in (PREFETCH, WORKERS, DEVICE_PREFETCH))
    return _SETTLING + min(buffered + 1, _MOST_TOGETHER)
