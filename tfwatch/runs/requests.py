"""Requests to a training: lines of `requests.jsonl` in its run folder, which any program of its
user appends.

    {"do": "switch", "knob": "prefetch", "value": "4", "by": "key"}
    {"do": "switch", "knob": "prefetch", "value": "off", "by": "command", "at_step": 100}
    {"do": "switch", "knob": "workers", "value": "8", "by": "autopilot", "after": 812}
    {"do": "stop", "by": "key"}
    {"do": "profile", "by": "automatic"}
    {"do": "note", "event": {"event": "AutopilotBegan", ...}, "pid": 4711, "started_s": 1764.2}

The training's writer reads new lines ten times a second, and the training takes them before its
next batch. There is no other answer than the run's events. The order of the lines is that of the
requests.
"""

from __future__ import annotations

import os
import queue
import stat
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, Union

import msgspec

from tfwatch.core.bounds import Count, Knob, ProcessId, StartTime, Whole, encode_json, one_of
from tfwatch.core.errors import quoted
from tfwatch.core.events import AUTOMATIC, AUTOPILOT, EXPERIMENT, AnyEvent, decode, encode
from tfwatch.core.knobs import KNOBS, check_value, option_name
from tfwatch.runs.format import FILE_MODE, REQUESTS, append_line, belongs_to_user, opened_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The longest line with its end, bytes: it is appended with one write.
LONGEST = 4096
#: Bytes that one look at the file reads.
_AT_ONCE = 2**20
#: The file's size, bytes, from which on requests are neither appended nor taken.
MOST_BYTES = 16 * 2**20
#: The origins of a user's request, and of the tuner's.
BY_USER: Final = ("key", "command", "code")
BY_TUNER: Final = (EXPERIMENT, AUTOPILOT)
_By: TypeAlias = Annotated[str, one_of(*BY_USER, *BY_TUNER)]


class NoRequestsError(OSError):
    """The run takes no requests, or this one cannot be appended; the text is a sentence."""


class _Request(
    msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True, omit_defaults=True
):
    """A line."""


class SwitchRequest(_Request, frozen=True, tag="switch"):
    """A request for another value of a knob."""

    knob: Knob
    #: As text: `off`, `4`.
    value: str
    by: _By
    #: It waits until so many steps are done.
    at_step: Count = 0
    #: The tuner's: the offset up to which it has read the file. A later request of the user for the
    #: knob precedes it.
    after: Whole = 0
    #: The user accepts that a map draws other random numbers (`Manifest.random_maps`).
    random_draws: bool = False


class StopRequest(_Request, frozen=True, tag="stop"):
    """A request to end the training at the next batch.

    By the tuner, a training has done its work: it is finished, not stopped.
    """

    by: _By


class ProfileRequest(_Request, frozen=True, tag="profile"):
    """A request to profile the next steps; by `automatic` once in a run."""

    by: Annotated[str, one_of(*BY_USER, AUTOMATIC)]


class TunerNote(_Request, frozen=True, tag="note"):
    """An event of the tuner, to be recorded as one of the run."""

    event: AnyEvent
    #: The tuner's process, and its start in seconds since 1970.
    pid: ProcessId
    started_s: StartTime


Request: TypeAlias = Union[SwitchRequest, StopRequest, ProfileRequest, TunerNote]  # noqa: UP007
_DECODER: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)


def encode_request(request: Request) -> bytes:
    """Return the line of a request."""
    return encode_json(request) + b"\n"


def decode_request(line: bytes) -> Request:
    """Read a line.

    Raises:
        ValueError: it is no request; the text is a sentence.
    """
    try:
        request = _DECODER.decode(line)
        if isinstance(request, SwitchRequest):
            check_value(request.knob, request.value)
        elif isinstance(request, TunerNote) and decode(encode(request.event)) is None:
            raise ValueError("its event has a setting that its knob does not have")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no request: {quoted(error)}") from error
    return request


def append(folder: Path, request: Request) -> None:
    """Append a request to a run's file with one write; also where other programs append at the same
    time.

    Raises:
        NoRequestsError: it cannot be appended.
    """
    line = encode_request(request)
    if len(line) > LONGEST:
        raise NoRequestsError(f"a request has at most {LONGEST} bytes")
    fd = _open_own(folder, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        if os.fstat(fd).st_size > MOST_BYTES:
            raise NoRequestsError("the run has had too many requests, and takes no more")
        append_line(fd, line)
    except OSError as error:
        raise _in_words(error) from error
    finally:
        os.close(fd)


def why_no_requests(folder: Path) -> str:
    """Return the reason why a run's folder takes no requests of this user; empty where it does."""
    try:
        os.close(_open_own(folder, os.O_RDONLY))
    except FileNotFoundError:
        pass
    except NoRequestsError as error:
        return str(error)
    return ""


def _open_own(folder: Path, flags: int) -> int:
    """Open the file of requests, of which nobody else can have written a line; raise
    FileNotFoundError where nothing was requested yet."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with opened_folder(folder) as place:
            _check_own(os.fstat(place), "folder", folder)
            fd = os.open(REQUESTS, flags, FILE_MODE, dir_fd=place)
    except FileNotFoundError:
        if flags & os.O_CREAT:
            raise NoRequestsError("the run's folder is gone") from None
        raise
    except OSError as error:
        raise _in_words(error) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NoRequestsError(f"{REQUESTS} is not a regular file")
        _check_own(status, REQUESTS, folder)
    except OSError:
        os.close(fd)
        raise
    return fd


def _check_own(status: os.stat_result, what: str, folder: Path) -> None:
    if not belongs_to_user(status, folder.parent):
        raise NoRequestsError("this training belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NoRequestsError(f"the run takes no requests: others may write to its {what}")


def _in_words(error: OSError) -> NoRequestsError:
    if isinstance(error, NoRequestsError):
        return error
    return NoRequestsError(f"{REQUESTS}: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class Line:
    """A whole line of the file. request: None where it is none, for the reason `problem`. end: the
    offset after it."""

    end: int
    request: Request | None
    problem: str = ""


class RequestFile:
    """Follows the requests of a run. offset: that of the end of the last whole line that was
    read."""

    def __init__(self, folder: Path) -> None:
        self.offset = 0
        self._folder = folder

    def skip_all(self) -> None:
        """Leave out the lines up to now."""
        self._read_new(is_skipped=True)

    def read(self) -> list[Line]:
        """Return the new whole lines, without those that are empty. Where there is no file yet,
        there are none.

        Raises:
            NoRequestsError: it is not this user's alone, cannot be read, or has more than
            `MOST_BYTES`.
        """
        return list(self._lines(self._read_new()))

    def _read_new(self, *, is_skipped: bool = False) -> bytes:
        with suppress(FileNotFoundError):
            fd = _open_own(self._folder, os.O_RDONLY)
            try:
                if is_skipped:
                    self.offset = os.fstat(fd).st_size
                elif self.offset > MOST_BYTES:
                    raise NoRequestsError("there were too many requests: no more are taken")
                else:
                    return os.pread(fd, _AT_ONCE, self.offset)
            except OSError as error:
                raise _in_words(error) from error
            finally:
                os.close(fd)
        return b""

    def _lines(self, data: bytes) -> Iterator[Line]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self.offset += len(line) + 1
            if line.strip():
                try:
                    yield Line(self.offset, decode_request(line))
                except ValueError as error:
                    yield Line(self.offset, None, str(error))
        if len(rest) >= LONGEST:  # no request: what follows in its line is none either
            self.offset += len(rest)


class RequestSender:
    """Sends the requests of a screen or a command to a run, in order and without a wait: a thread
    appends them.

    folder: the run's. is_stopping: this sender has asked the training to stop.
    """

    def __init__(self, folder: Path) -> None:
        self.is_stopping = False
        self._folder = folder
        self._failures: deque[str] = deque()
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, request: Request) -> None:
        """Send a request."""
        self.is_stopping = self.is_stopping or isinstance(request, StopRequest)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tfwatch-requests", daemon=True)
            self._thread.start()
        self._requests.put(request)

    def take_failures(self) -> list[str]:
        """Remove and return why requests since the last call could not be sent."""
        return [self._failures.popleft() for _ in range(len(self._failures))]

    def _run(self) -> None:
        while True:
            request = self._requests.get()
            try:
                append(self._folder, request)
            except NoRequestsError as error:
                self.is_stopping = self.is_stopping and not isinstance(request, StopRequest)
                self._failures.append(str(error))


# -- as the command line words them --------------------------------------------------------------


def parse_switch(text: str) -> SwitchRequest:
    """Read `100:prefetch=4`: a step, and a change.

    Raises:
        ValueError: the text is not a switch; the message is a sentence for the user.
    """
    step, colon, rest = text.partition(":")
    if not (colon and "=" in rest and step.isascii() and step.isdigit()):
        raise ValueError(f"{text!r} is not a switch: give STEP:KNOB=VALUE, e.g. 100:prefetch=4")
    return parse_change(rest, int(step))


def parse_change(text: str, at_step: int = 0) -> SwitchRequest:
    """Read `prefetch=4`: a knob by its name on the command line, and its value.

    Raises:
        ValueError: the text is not that; the message is a sentence for the user.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not a setting: give KNOB=VALUE, e.g. prefetch=4")
    knob = _knob(name)
    return SwitchRequest(knob, check_value(knob, value), "command", at_step)


def parse_settings(text: str) -> tuple[str, tuple[str, str]]:
    """Read `prefetch=off,4`: a knob, named as for `parse_change`, and two different settings of
    it.

    Raises:
        ValueError: the text is not that; the message is a sentence for the user.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} has no settings: give KNOB=VALUE,VALUE, e.g. prefetch=off,4")
    knob = _knob(name)
    if KNOBS[knob].epochs:
        raise ValueError(
            f"{name} takes effect with an epoch: an A/B test needs a knob that switches live"
        )
    settings = [check_value(knob, value.strip()) for value in rest.split(",")]
    if len(settings) != 2 or settings[0] == settings[1]:
        raise ValueError(
            f"{text!r}: an A/B test compares two different settings, e.g. prefetch=off,4"
        )
    return knob, (settings[0], settings[1])


def _knob(name: str) -> str:
    """Return the knob of a name on the command line."""
    knob = next((knob for knob in KNOBS if option_name(knob) == name), None)
    if knob is None:
        *most, last = map(option_name, KNOBS)
        raise ValueError(f"{name!r} is not a knob: choose {', '.join(most)} or {last}")
    return knob
