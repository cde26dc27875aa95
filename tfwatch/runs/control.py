"""The requests within the process that trains: the writer's thread takes them from the run folder,
Watch takes them on.

Neither waits for the other, and nobody waits for a client.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from tfwatch.core.clock import RateLimit
from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    ExperimentBegan,
    ExperimentEnded,
    StopRefused,
    SwitchFailed,
    TunerLost,
)
from tfwatch.core.knobs import AS_WRITTEN, Knobs, Refusal, option_name
from tfwatch.runs.liveness import is_alive
from tfwatch.runs.requests import (
    BY_TUNER,
    NoRequestsError,
    ProfileRequest,
    RequestFile,
    StopRequest,
    SwitchRequest,
    TunerNote,
    append,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.requests import Request
    from tfwatch.runs.writer import RunWriter

NO_FIT = "no fit runs at the moment"
OWN_LOOP = "the loop is the script's own: it can be followed, not changed"
#: Lines that are taken a second on average, and at once; more are skipped.
_LINES_PER_S, _LINES_AT_ONCE = 20.0, 100.0
#: A run that has ended looks so often for the end of the tuner's job, seconds apart.
_MOST_LAST_LOOKS, _LAST_LOOK_S = 20, 0.05
#: Later than the end of any line.
_NOT_READ_YET = 2**63
#: The tuner's process is looked up so often.
_TUNER_NS = 10**9


class Control:
    """The queue of requests to one training.

    Any thread asks; the thread that trains takes.
    """

    def __init__(self, knobs: Knobs | None = None) -> None:
        #: The values that the training uses now; Watch sets them.
        self.knobs = knobs or Knobs()
        #: Those of the script's own pipeline, as its author wrote it.
        self.written = self.knobs
        #: Maps may draw other random numbers: the user accepts it.
        self.random_draws = False
        #: Set to end the training at the next batch.
        self.stop = threading.Event()
        #: The step after which the training ends; None is none.
        self.stop_at: int | None = None
        #: The training has reached its planned end.
        self.is_done = False
        #: The switches that wait for their step, by that step; of the thread that trains.
        self.planned: list[SwitchRequest] = []
        #: The switches of the script's own code that the run folder does not have yet.
        self.by_code: deque[SwitchRequest] = deque()
        self._requests: deque[SwitchRequest] = deque()

    @property
    def has_requests(self) -> bool:
        """True while a request waits; cheap enough for every step."""
        return bool(self._requests)

    @property
    def is_stopping(self) -> bool:
        """True from a request to stop on."""
        return self.stop.is_set()

    @property
    def was_stopped(self) -> bool:
        """True where the training was stopped before its work was done."""
        return self.stop.is_set() and not self.is_done

    def begin(self) -> None:
        """Begin another training, which no earlier stop ends."""
        self.is_done, self.stop_at = False, None
        self.stop.clear()

    def finish(self) -> None:
        """End the training at the next batch because its work is done, unless it was stopped
        before."""
        self.is_done = self.is_done or not self.stop.is_set()
        self.stop.set()

    def is_over(self, steps: int) -> bool:
        """Return whether the training ends after so many steps."""
        return self.stop.is_set() or (self.stop_at is not None and steps >= self.stop_at)

    def ask(self, request: SwitchRequest) -> None:
        """Add a request. The last one for a knob wins."""
        self._requests.append(request)

    def ask_by_code(self, request: SwitchRequest) -> None:
        """Add a request of the script's own code, which the run folder is to record."""
        self.by_code.append(request)
        self.ask(request)

    def release(self, steps: int) -> None:
        """Add the planned switches that are due after `steps` steps."""
        while self.planned and self.planned[0].at_step <= steps:
            self._requests.append(self.planned.pop(0))

    def take(self, steps: int) -> list[SwitchRequest]:
        """Remove and return the waiting requests, the last one of each knob; those of a later step
        wait for it."""
        latest: dict[str, SwitchRequest] = {}
        later: list[SwitchRequest] = []
        while self._requests:
            request = self._requests.popleft()
            if request.at_step > steps:
                later.append(request)
                continue
            latest.pop(request.knob, None)
            latest[request.knob] = request
        self.planned = sorted([*self.planned, *later], key=lambda one: one.at_step)
        return list(latest.values())


class RequestTaker:
    """Takes the requests of a run's folder for its training, in the writer's thread.

    What it refuses it records as an event of the run.
    """

    def __init__(
        self,
        writer: RunWriter,
        control: Control | None = None,
        ask_profile: Callable[[str], None] = lambda by: None,
    ) -> None:
        """ask_profile: asks for a profile of the next steps, by whom."""
        self._writer = writer
        self._ask_profile = ask_profile
        self._control = control
        self._no_control = NO_FIT
        self._file: RequestFile | None = None
        #: The offset after the user's last request for each knob.
        self._user_ends: dict[str, int] = {}
        self._rate = RateLimit(_LINES_AT_ONCE, _LINES_PER_S)
        self._noted: set[str] = set()
        self._tuner: tuple[int, float] | None = None
        self._tuner_due_ns = 0

    def serve(self, control: Control | None, no_control: str = NO_FIT) -> None:
        """Pass requests on to this training; None: to none, for the reason."""
        self._no_control = no_control
        self._control = control

    def stop(self) -> bool:
        """Stop the training at its next batch; return False where none runs."""
        if self._control is not None:
            self._control.stop.set()
        return self._control is not None

    def look(self) -> None:
        """Take the new requests; a file that cannot be read is reported once."""
        if self._file is None:
            if self._writer.folder is None:
                return
            self._file = RequestFile(self._writer.folder)
        try:
            self._record_code()
            for line in self._file.read():
                if line.request is None:
                    self._note_once("line", f"a line of the requests is skipped: {line.problem}")
                elif self._rate.take(self._writer.now_ns()):
                    self.accept(line.request, line.end)
                else:
                    self._note_once("rate", "requests are skipped: too many in a second")
        except NoRequestsError as error:
            self._note_once("file", str(error))
        self._look_for_tuner()

    def finish(self) -> None:
        """Wait for the last event of a job of the tuner, whose terminal sees that the run has
        ended."""
        pause = threading.Event()
        for _ in range(_MOST_LAST_LOOKS):
            if self._tuner is None:
                return
            pause.wait(_LAST_LOOK_S)
            self.look()

    def accept(self, request: Request, end: int = 0) -> None:
        """Carry out a request, or record why not. end: the offset after its line."""
        match request:
            case TunerNote():
                self._record(request)
            case StopRequest():
                self._stop(request)
            case ProfileRequest():
                self._ask_profile(request.by)
            case SwitchRequest():
                self._switch(request, end)

    def _record_code(self) -> None:
        """Append what the script's own code has asked for, so that the file has every request."""
        control, folder = self._control, self._writer.folder
        while control is not None and folder is not None and control.by_code:
            request = control.by_code.popleft()
            self._user_ends[request.knob] = _NOT_READ_YET
            append(folder, request)

    def _note_once(self, kind: str, text: str) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            self._writer.note(text)

    # -- requests ---------------------------------------------------------------------------------

    def _switch(self, request: SwitchRequest, end: int) -> None:
        if request.by not in BY_TUNER:
            self._user_ends[request.knob] = end
        elif self._user_ends.get(request.knob, 0) > request.after:
            asked = f"{option_name(request.knob)} {request.value}"
            self._writer.note(f"{asked} of the {request.by} is not taken: the user switched it")
            return
        if request.by == "code":  # `Watch.set` has asked for it
            return
        if refused := self._refusal(request):
            self._refuse(request, refused)
        elif self._control is not None:
            self._control.ask(request)

    def _refusal(self, request: SwitchRequest) -> str:
        if self._control is None:
            return self._no_control
        if self._control.is_stopping:
            return Refusal.RUN_IS_ENDING.words
        manifest = self._writer.manifest()
        is_allowed = request.random_draws and manifest.needs_consent(request.knob)
        return "" if is_allowed else manifest.why_not_switchable(request.knob)

    def _refuse(self, request: SwitchRequest, reason: str) -> None:
        knobs = self._control.knobs if self._control else AS_WRITTEN
        now, step = getattr(knobs, request.knob), self._writer.status[2]
        at_ns = self._writer.now_ns()
        self._writer.event(SwitchFailed(at_ns, request.knob, reason, now, request.value, step, now))

    def _stop(self, request: StopRequest) -> None:
        if self._control is None:
            self._writer.event(StopRefused(self._writer.now_ns(), self._no_control))
        elif request.by in BY_TUNER:
            self._control.finish()
        else:
            self._control.stop.set()

    # -- the tuner --------------------------------------------------------------------------------

    def _record(self, note: TunerNote) -> None:
        if isinstance(note.event, ExperimentBegan | AutopilotBegan):
            self._tuner = note.pid, note.started_s
        elif isinstance(note.event, ExperimentEnded | AutopilotEnded):
            self._tuner = None
        self._writer.event(note.event)

    def _look_for_tuner(self) -> None:
        """Record that a tuner's process was killed: it has not recorded its end."""
        now_ns = self._writer.now_ns()
        if self._tuner is None or now_ns < self._tuner_due_ns:
            return
        self._tuner_due_ns = now_ns + _TUNER_NS
        if not is_alive(*self._tuner):
            self._tuner = None
            self._writer.event(TunerLost(now_ns, self._writer.status[2]))
