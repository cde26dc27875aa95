"""The client of a control socket: the trainings that run on this machine, and a screen's requests to one of them."""

from __future__ import annotations

import queue
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tfwatch.runs.control.messages import (
    LONGEST,
    Answer,
    AskAutopilot,
    AskExperiment,
    AskStatus,
    AskStop,
    AskSwitch,
    BadMessageError,
    CancelTuner,
    decode_answer,
    encode_message,
)
from tfwatch.runs.control.private_sockets import is_own_user
from tfwatch.runs.control.requests import Autopilot, Experiment, Refused
from tfwatch.runs.format import Manifest, NotARunError
from tfwatch.runs.library.finding import find_run, list_single_runs, replay_argument
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.reading.liveness import is_process_alive
from tfwatch.runs.reading.opened import open_run
from tfwatch.runs.reading.streams import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.runs.control.messages import Message
    from tfwatch.runs.control.requests import Request, TunerRequest

#: Seconds until a process that does not answer is given up.
PATIENCE_S = 5.0
_RETRY_S = 0.02
_GONE = "the training is gone: its control socket does not answer"
_NO_ANSWER = "the training does not answer"
_ANOTHER_USER = "this training belongs to another user"


class NoAnswerError(Exception):
    """The training did not answer; the message is a sentence for the user."""


class ControlClient:
    """The control of a run in another process; it offers a screen what `Control` offers in the training's own.

    `ask`, `ask_tuner` and `ask_stop` never wait: a thread sends them in order, and what is refused comes back through
    `take_refusals`. `call` waits for the answer. Each message has a connection of its own, so that leaving needs no
    word and an idle screen costs the training nothing.
    """

    def __init__(self, path: str, patience_s: float = PATIENCE_S) -> None:
        self._path = path
        self._patience_s = patience_s
        self._is_stopping = False
        self._refusals: deque[Refused] = deque()
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._retry = threading.Event()

    # -- for a screen -----------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        """True from a request to stop on, of this client or one that the training has confirmed."""
        return self._is_stopping

    def ask(self, request: Request) -> None:
        """Send a request of the user for another value of a knob."""
        self._send(AskSwitch(request.knob, request.value, request.by))

    def ask_tuner(self, request: TunerRequest | None) -> None:
        """Send another job for the tuner; None: none."""
        if isinstance(request, Experiment):
            self._send(
                AskExperiment(request.knob, list(request.values), request.steps, request.seed)
            )
        else:
            self._send(
                AskAutopilot(request.memory_bytes)
                if isinstance(request, Autopilot)
                else CancelTuner()
            )

    def ask_stop(self) -> None:
        """Send the request to end the training at the next batch."""
        self._is_stopping = True
        self._send(AskStop())

    def take_refusals(self) -> list[Refused]:
        """Remove and return the requests that were refused since the last call."""
        return [self._refusals.popleft() for _ in range(len(self._refusals))]

    # -- messages ---------------------------------------------------------------------------------

    def check(self) -> Answer:
        """Ask whether the run takes requests now.

        Raises:
            NoAnswerError: nobody answers.
        """
        answer = self.call(AskStatus())
        self._is_stopping = answer.is_stopping
        return answer

    def call(self, message: Message) -> Answer:
        """Send a message and wait for its answer.

        Raises:
            NoAnswerError: there is none.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(self._patience_s)
                self._connect(connection)
                if not is_own_user(connection):
                    raise NoAnswerError(_ANOTHER_USER)
                connection.sendall(encode_message(message))
                return decode_answer(_read_line(connection))
        except PermissionError as error:
            raise NoAnswerError(_ANOTHER_USER) from error
        except (TimeoutError, BlockingIOError) as error:
            raise NoAnswerError(_NO_ANSWER) from error
        except (OSError, ValueError) as error:  # also a path that is too long
            raise NoAnswerError(_GONE) from error

    def _connect(self, connection: socket.socket) -> None:
        """Connect; Linux refuses at once while many others wait for the training."""
        for _ in range(int(self._patience_s / _RETRY_S)):
            with suppress(BlockingIOError):
                connection.connect(self._path)
                return
            self._retry.wait(_RETRY_S)
        raise TimeoutError

    def _send(self, message: Message) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tfwatch-client", daemon=True)
            self._thread.start()
        self._messages.put(message)

    def _run(self) -> None:
        while True:
            message = self._messages.get()
            try:
                refused = self.call(message).refused
            except NoAnswerError as error:
                refused = str(error)
            if refused:
                self._refuse(message, refused)

    def _refuse(self, message: Message, reason: str) -> None:
        is_stop = isinstance(message, AskStop)
        self._is_stopping = self._is_stopping and not is_stop
        self._refusals.append(
            Refused(reason, message.knob if isinstance(message, AskSwitch) else "", is_stop)
        )


def _read_line(connection: socket.socket) -> bytes:
    """Read up to the end of a line.

    Raises:
        OSError: the peer left before it. BadMessageError: there is none.
    """
    line = b""
    while not line.endswith(b"\n"):
        data = connection.recv(LONGEST)
        if not data:
            raise ConnectionResetError
        line += data
        if len(line) > LONGEST:
            raise BadMessageError("the answer is too long")
    return line


_UNWATCHED = "start it with tfwatch run, or add callbacks=[tfwatch.Watch()] to its fit"
_START = "start one with tfwatch run or tfwatch train; tfwatch replay shows those that are over"
_EARLIER_VERSION = "another version of tfwatch writes it"


class NotRunningError(Exception):
    """There is no such training; the message is a sentence for the user."""


def find_running(wanted: str | None, runs_dir: Path) -> Path:
    """Return the run that trains now: the one that a user names, as for `find_run` or by its process, or the newest.

    Raises:
        NotRunningError: there is none. FileNotFoundError: there is no such run. OSError: the runs cannot be read.
    """
    if wanted is None:
        none = f"no training runs on this machine now, among the runs in {runs_dir}: {_START}"
        return _first(_running(runs_dir), none)
    if (
        wanted.isascii()
        and wanted.isdigit()
        and len(wanted) < 10
        and psutil.pid_exists(int(wanted))
    ):
        of_process = (run for run in _running(runs_dir) if _is_of(int(wanted), _manifest(run)))
        return _first(of_process, f"process {wanted} is not watched: {_UNWATCHED}")
    try:
        return find_run(wanted, runs_dir)
    except FileNotFoundError as error:
        if not wanted.isdigit():
            raise
        raise NotRunningError(f"there is no process {wanted}, and {error}") from error


def control_of(folder: Path) -> ControlClient:
    """Return the control of a run that trains on this machine.

    Raises:
        NotRunningError: it does not, or nobody answers. NotARunError: the folder is not a run.
    """
    manifest = FolderSource(folder).manifest()
    client = ControlClient(manifest.control_socket)
    try:
        _check(manifest, folder)
        client.check()
    except NoAnswerError as error:
        raise NotRunningError(f"{folder.name}: {error}; {_replay(folder)} follows it") from error
    return client


def _check(manifest: Manifest, folder: Path) -> None:
    if open_run(folder).life.is_over:
        raise NotRunningError(f"{folder.name} is over: {_replay(folder)} shows it")
    if manifest.boot_id != boot_id():
        host = manifest.machine.get("host") or "another machine"
        raise NotRunningError(
            f"{folder.name} trains on {host}: attach there; {_replay(folder)} follows it"
        )
    if not manifest.control_socket:
        reason = manifest.no_control or _EARLIER_VERSION
        raise NotRunningError(
            f"{folder.name} takes no requests: {reason}; {_replay(folder)} follows it"
        )


def _replay(folder: Path) -> str:
    return f"tfwatch replay {replay_argument(folder)}"


def _first(runs: Iterator[Path], why_none: str) -> Path:
    for run in runs:
        return run
    raise NotRunningError(why_none)


def _running(runs_dir: Path) -> Iterator[Path]:
    """Yield the runs whose training goes on, the newest first."""
    for folder in list_single_runs(runs_dir):
        with suppress(NotARunError, OSError, ValueError):
            manifest = _manifest(folder)
            if (
                manifest.boot_id == boot_id()
                and is_process_alive(manifest)
                and not open_run(folder).life.is_over
            ):
                yield folder


def _manifest(folder: Path) -> Manifest:
    return FolderSource(folder).manifest()


def _is_of(pid: int, manifest: Manifest) -> bool:
    """Return whether a process, or its child, as that of `tfwatch run`, writes a run."""
    if manifest.pid == pid:
        return True
    with suppress(psutil.Error):
        return bool(psutil.Process(manifest.pid).ppid() == pid)
    return False
