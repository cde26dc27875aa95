"""The control socket of a run: other processes of the same user send requests to its training.

A socket in a folder of its own that only the user can enter; the kernel names the peer's user. One connection carries
one message. A daemon thread waits in `poll` and only calls `Control`, so the training never waits for a client.
"""

from __future__ import annotations

import atexit
import os
import selectors
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.knobs import option_name
from tfwatch.core.refusals import Refusal
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
    decode_message,
    encode_answer,
)
from tfwatch.runs.control.private_sockets import (
    SOCKET_NAME,
    is_own_user,
    make_private_folder,
    remove_folder,
    remove_stale_folders,
)
from tfwatch.runs.reading.streams import OpenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tfwatch.runs.control.messages import Message
    from tfwatch.runs.control.requests import Control, TunerRequest
    from tfwatch.runs.writer import RunWriter

#: Requests that a training has not taken yet: more are refused.
_MOST_WAITING = 64
NO_FIT = "no fit runs at the moment"
OWN_LOOP = "the loop is the script's own: it can be followed, not changed"
_ANOTHER_USER = "this training belongs to another user"
_TOO_LONG = f"a message has at most {LONGEST} bytes"
_TOO_MANY = "too many requests"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server.

    clients: open connections. idle_s: the time for a whole message. wakes_per_s: of the thread; a flood waits in the
    kernel. requests_per_s: of accepted messages; more are refused.
    """

    clients: int = 8
    idle_s: float = 5.0
    wakes_per_s: float = 100.0
    requests_per_s: float = 10.0


class _Bucket:
    """A rate limit: `per_s` on average, and twice as many, at least 10, at once."""

    def __init__(self, per_s: float, clock: Clock) -> None:
        self._per_s, self._clock = per_s, clock
        self._most = self._left = max(10.0, 2 * per_s)
        self._at_ns = clock.now_ns()

    def take(self) -> bool:
        """Count one; return False where it is one too many, which is not counted."""
        now_ns = self._clock.now_ns()
        self._left = min(self._most, self._left + (now_ns - self._at_ns) / 1e9 * self._per_s)
        self._at_ns = now_ns
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(slots=True)
class _Client:
    """A connection. is_own: its peer is this user. until_ns: the time at which it is dropped."""

    socket: socket.socket
    is_own: bool
    until_ns: int
    received: bytes = b""


#: The open servers of this process.
_servers: set[ControlServer] = set()
#: The places that this process has swept.
_swept: set[Path] = set()


class ControlServer:
    """Takes the requests for one run.

    control: that of the training that runs now; None where there is none, for the reason `no_control`.
    start_tuner: called with the control before its first job for the tuner; None where the run has a tuner.
    is_own: returns whether a connection's peer is this user.
    """

    def __init__(
        self,
        writer: RunWriter,
        control: Control | None = None,
        *,
        no_control: str = NO_FIT,
        start_tuner: Callable[[Control], None] | None = None,
        limits: Limits | None = None,
        is_own: Callable[[socket.socket], bool] | None = None,
    ) -> None:
        self.control = control
        self.no_control = no_control
        self._writer = writer
        self._start_tuner = start_tuner
        self._limits = limits or Limits()
        self._is_own = is_own or is_own_user
        self._clock = SYSTEM
        self._requests = _Bucket(self._limits.requests_per_s, self._clock)
        self._wakes = _Bucket(self._limits.wakes_per_s, self._clock)
        self._closing = threading.Event()
        self._clients: dict[int, _Client] = {}
        self._folder: Path | None = None
        self._listener: socket.socket | None = None
        self._wake: tuple[socket.socket, socket.socket] | None = None
        self._opened: dict[socket.socket, OpenFile] = {}
        self._thread = threading.Thread(target=self._run, name="tfwatch-control", daemon=True)

    def open(self) -> None:
        """Have the thread listen, and describe the socket's path, or why there is none. Never raises nor waits."""
        _servers.add(self)
        with fails_open(self._give_up):
            self._wake = socket.socketpair()
            self._opened |= {one: OpenFile.of(one.fileno()) for one in self._wake}
            self._wake[1].setblocking(False)
            self._thread.start()

    def close(self) -> None:
        """Close and remove the socket. A second call, or one in a forked process, does nothing."""
        if self not in _servers:
            return
        _servers.discard(self)
        # Taken before the thread wakes: the process may end while the thread removes it.
        folder, self._folder = self._folder, None
        self._closing.set()
        with fails_open(lambda why: self._writer.note(f"the control socket may remain: {why}")):
            if self._wake and self._is_ours(self._wake[1]):
                with suppress(OSError):  # it is full, or closed by the thread: that ends without it
                    self._wake[1].send(b"x")
            if folder:
                remove_folder(folder)

    def leave_to_parent(self) -> None:
        """Close the copies of a forked process, so that only its parent answers."""
        self._close_sockets()
        self._folder = self._listener = self._wake = None

    # -- the socket ---------------------------------------------------------------------------------

    @property
    def _path(self) -> Path | None:
        return self._folder and self._folder / SOCKET_NAME

    def _listen(self) -> None:
        self._folder = make_private_folder()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._opened[self._listener] = OpenFile.of(self._listener.fileno())
        self._listener.setblocking(False)
        self._listener.bind(str(self._path))
        self._listener.listen(2 * self._limits.clients)
        self._writer.describe(control_socket=str(self._path))

    def _sweep(self) -> None:
        """Remove the folders that killed processes left beside this one, once a process."""
        folder = self._folder
        if folder and folder.parent not in _swept:
            _swept.add(folder.parent)
            remove_stale_folders(folder.parent)

    def _give_up(self, why: str) -> None:
        _servers.discard(self)
        if (
            not self._closing.is_set()
        ):  # else the folder was removed while the thread was about to listen in it
            self._writer.describe(control_socket="", no_control=why)
        self._release()

    def _is_ours(self, one: socket.socket) -> bool:
        """Return whether the socket is the one that was opened: a program may close descriptors, and reuse them."""
        return one not in self._opened or self._opened[one].is_ours()

    def _release(self) -> None:
        self._close_sockets()
        self._remove()

    def _close_sockets(self) -> None:
        for one in self._sockets():
            if self._is_ours(one):
                one.close()
            else:
                one.detach()

    def _remove(self) -> None:
        folder, self._folder = self._folder, None
        if folder:
            remove_folder(folder)

    def _sockets(self) -> Iterator[socket.socket]:
        yield from filter(None, (self._listener, *(self._wake or ())))
        yield from (client.socket for client in list(self._clients.values()))

    # -- its thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        with fails_open(self._give_up):
            self._listen()
            self._sweep()
            while not self._closing.is_set():
                self._wait()
        self._release()

    def _wait(self) -> None:
        """Wait for a client, and serve those that are ready."""
        assert self._listener
        assert self._wake
        # Not epoll: a forked process would share its state.
        with selectors.PollSelector() as waiting:
            waiting.register(self._wake[0], selectors.EVENT_READ)
            if len(self._clients) < self._limits.clients:
                waiting.register(self._listener, selectors.EVENT_READ, self._accept)
            for client in self._clients.values():
                waiting.register(client.socket, selectors.EVENT_READ, self._receive)
            ready = [(key.data, key.fd) for key, _ in waiting.select(self._patience_s())]
        if not all(map(self._is_ours, self._sockets())):
            raise OSError("the program closed its sockets")
        for serve, fd in ready:
            if serve and not self._closing.is_set():
                self._pace()
                serve(fd)
        self._drop_idle()

    def _patience_s(self) -> float | None:
        """Return the time until a client is dropped; None without a client."""
        until_ns = min((client.until_ns for client in self._clients.values()), default=None)
        return None if until_ns is None else max(0.0, (until_ns - self._clock.now_ns()) / 1e9)

    def _pace(self) -> None:
        """Rest while there were too many wakes."""
        while not self._wakes.take():
            if self._closing.wait(1 / self._limits.wakes_per_s):
                return

    def _accept(self, _: int) -> None:
        assert self._listener
        with suppress(OSError):  # the client has left already, or no descriptor is free
            connection, _address = self._listener.accept()
            connection.setblocking(False)
            until_ns = self._clock.now_ns() + int(self._limits.idle_s * 1e9)
            self._opened[connection] = OpenFile.of(connection.fileno())
            self._clients[connection.fileno()] = _Client(
                connection, self._is_own(connection), until_ns
            )

    def _receive(self, fd: int) -> None:
        client = self._clients.get(fd)
        if client is None:
            return
        try:
            data = client.socket.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.received += data
        line, end, _ = client.received.partition(b"\n")
        if not data or (end and _has_left(client.socket)):
            self._drop(client)
        elif len(line) >= LONGEST:
            self._reply(client, Answer(_TOO_LONG))
        elif end:
            self._reply(client, self._answer_line(line) if client.is_own else Answer(_ANOTHER_USER))

    def _reply(self, client: _Client, answer: Answer) -> None:
        """Send the answer, which the socket's buffer takes at once, and end the connection."""
        with suppress(OSError):
            client.socket.send(encode_answer(answer))
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._clients.pop(client.socket.fileno(), None)
        self._opened.pop(client.socket, None)
        client.socket.close()

    def _drop_idle(self) -> None:
        now_ns = self._clock.now_ns()
        for client in [one for one in self._clients.values() if one.until_ns <= now_ns]:
            self._drop(client)

    # -- requests -------------------------------------------------------------------------------------

    def _answer_line(self, line: bytes) -> Answer:
        failures: list[str] = []
        with fails_open(failures.append):
            try:
                return self._answer(decode_message(line))
            except (BadMessageError, ValueError) as error:
                return Answer(str(error))
        return Answer(failures[0])

    def _answer(self, message: Message) -> Answer:
        control = self.control
        if isinstance(message, AskStatus):
            return Answer(
                "" if control else self.no_control, control is not None and control.is_stopping
            )
        if control is None:
            return Answer(self.no_control)
        if not self._requests.take() or control.waiting_count >= _MOST_WAITING:
            return Answer(_TOO_MANY)
        if isinstance(message, AskStop):
            control.ask_stop()
            return Answer("", is_stopping=True)
        if control.is_stopping and not isinstance(message, CancelTuner):
            return Answer(Refusal.RUN_IS_ENDING.words)
        return self._pass_on(control, message)

    def _pass_on(self, control: Control, message: Message) -> Answer:
        match message:
            case AskSwitch(knob) | AskExperiment(knob) if refused := self.refusal(knob):
                return Answer(refused)
            case AskSwitch():
                control.ask(message.request())
            case AskExperiment():
                self._ask_tuner(control, message.experiment())
            case AskAutopilot():
                self._ask_tuner(control, message.autopilot())
            case CancelTuner():
                control.ask_tuner(None)
        return Answer()

    def refusal(self, knob: str) -> str:
        """Return `workers: fixed in this run's own pipeline`, or another reason; empty where it is switchable."""
        refused = self._writer.manifest().why_not_switchable(knob)
        return f"{option_name(knob)}: {refused.words}" if refused else ""

    def _ask_tuner(self, control: Control, request: TunerRequest) -> None:
        control.ask_tuner(request)
        if self._start_tuner:
            self._start_tuner(control)


def _has_left(connection: socket.socket) -> bool:
    """Return whether the client has closed it: one that gave up, and reported so, gets no late effect."""
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _close_all() -> None:
    for server in list(_servers):
        server.close()


def _leave_all_to_parent() -> None:
    for server in list(_servers):
        server.leave_to_parent()
    _servers.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_leave_all_to_parent)
