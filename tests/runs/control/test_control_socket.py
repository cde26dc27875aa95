"""The control socket: requests of another process, and all that must not come through it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.processes import wait_until
from tests.whole import events_of
from tfwatch.core.events import Noted
from tfwatch.core.knobs import KNOBS
from tfwatch.core.refusals import Refusal
from tfwatch.runs.control import messages
from tfwatch.runs.control import server as control_server
from tfwatch.runs.control.client import ControlClient, NoAnswerError
from tfwatch.runs.control.messages import AskStatus, AskStop, AskSwitch, BadMessageError
from tfwatch.runs.control.private_sockets import make_private_folder, remove_folder
from tfwatch.runs.control.requests import Autopilot, Control, Experiment, Refused, Request
from tfwatch.runs.control.server import ControlServer, Limits
from tfwatch.runs.create import make_writer
from tfwatch.runs.reading.opened import read_run

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Limits that no test reaches by itself.
FREE = Limits(wakes_per_s=1e6, requests_per_s=1e6)


@contextmanager
def serving(
    control: Control | None, limits: Limits = FREE, **options: Any
) -> Iterator[tuple[ControlServer, str]]:
    """Serve a control that has prefetch to switch; yield the server and its path."""
    writer = make_writer(
        "cnn", switchable=["prefetch"], knobs={"prefetch": "off", "workers": "off"}
    )
    server = ControlServer(writer, control, limits=limits, **options)
    server.open()
    wait_until(lambda: writer.manifest().control_socket or writer.manifest().no_control)
    try:
        yield server, writer.manifest().control_socket
    finally:
        server.close()


def send(path: str, data: bytes) -> bytes:
    """Send bytes, and return all that comes back."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def refused(answer: bytes) -> str:
    return str(json.loads(answer)["refused"])


def test_requests_of_a_client_reach_the_control_in_order() -> None:
    control = Control()
    with serving(control) as (_, path):
        client = ControlClient(path)
        client.ask(Request("prefetch", "2"))
        client.ask(Request("prefetch", "auto", "command"))
        client.ask_tuner(Experiment("prefetch", ("off", "4"), 300, 7))
        wait_until(lambda: control.tuner_request_count == 1)
        assert control.take() == [Request("prefetch", "auto", "command")]
        assert control.user_request_count == 2
        assert control.next_tuner_request(0) == (1, Experiment("prefetch", ("off", "4"), 300, 7))

        client.ask_tuner(Autopilot(1e9))
        client.ask_tuner(None)
        wait_until(lambda: control.tuner_request_count == 3)

        client.ask_stop()
        assert client.is_stopping
        wait_until(control.stop.is_set)
        assert control.was_stopped
        assert client.check().is_stopping
        assert client.take_refusals() == []


def test_what_the_run_does_not_take_is_refused_with_the_reason() -> None:
    control = Control()
    with serving(control) as (_, path):
        client = ControlClient(path)
        client.ask(Request("workers", "4"))
        client.ask(Request("cache", "on"))
        wait_until(lambda: len(client._refusals) == 2)
        found = client.take_refusals()

    assert found == [
        Refused("workers: fixed in this run's own pipeline", "workers"),
        Refused("cache: " + Refusal.NOTHING_TO_CACHE.words, "cache"),
    ]
    assert not control.has_requests


def test_between_two_fits_nothing_is_taken() -> None:
    with serving(None) as (server, path):
        client = ControlClient(path)
        assert client.check().refused == control_server.NO_FIT
        client.ask_stop()
        wait_until(lambda: not client.is_stopping)
        assert client.take_refusals() == [Refused(control_server.NO_FIT, is_stop=True)]
        server.control = Control()
        assert not client.check().refused


def test_a_training_that_stops_takes_no_more_requests() -> None:
    control = Control()
    control.ask_stop()
    with serving(control) as (_, path):
        assert ControlClient(path).call(AskSwitch("prefetch", "4")).refused == "the run is ending"


# -- messages ---------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = st.fixed_dictionaries(
    {"do": st.sampled_from([*messages._KINDS, "", None])},
    optional={
        "knob": st.sampled_from(tuple(KNOBS)) | JSON,
        "value": st.sampled_from(["off", "4", "on", "20 ms", "nan", "9" * 400]) | JSON,
        "values": st.lists(st.sampled_from(["off", "4", "8", "on"]) | JSON, max_size=20) | JSON,
        "by": st.sampled_from(["key", "command", "autopilot"]) | JSON,
        "steps": JSON,
        "seed": JSON,
        "memory_bytes": JSON,
        "more": JSON,
    },
)


#: One for all examples: it takes longer to make than to ask.
ASKED = ControlServer(make_writer("cnn", switchable=list(KNOBS)), limits=FREE)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.builds(lambda value: json.dumps(value).encode(), JSON | FIELDS))
def test_any_line_is_a_valid_request_or_a_sentence(line: bytes) -> None:
    control = ASKED.control = Control()
    answer = ASKED._answer_line(line)
    assert len(messages.encode_answer(answer)) < messages.LONGEST
    for request in control.take():
        control.knobs.with_value(request.knob, request.value)
        assert request.by in ("key", "command")
    if answer.refused:
        assert not control.stop.is_set()
        assert control.user_request_count == 0
        assert answer.refused.isprintable()


@pytest.mark.parametrize(
    "message",
    [
        AskStatus(),
        AskStop(),
        AskSwitch("latency_ms", "20 ms"),
        messages.AskExperiment("prefetch", ["off", "4"], 300, -5),
        messages.AskAutopilot(1e9),
        messages.CancelTuner(),
    ],
)
def test_a_message_is_read_as_it_was_written(message: messages.Message) -> None:
    assert messages.decode_message(messages.encode_message(message)) == message


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"no", "this is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "this is not a JSON object"),
        (b"{}", "there is no request None"),
        (b'{"do": "exec"}', "there is no request exec"),
        (b'{"do": "switch", "knob": "prefetch"}', "it lacks value"),
        (b'{"do": "stop", "now": true}', "it has no field now"),
        (
            b'{"do": "switch", "knob": "prefetch", "value": "4", "by": "autopilot"}',
            r"Expected `str` matching regex '\\A(?:key|command)\\Z' - at `$.by`",
        ),
    ],
)
def test_a_line_that_is_no_message_is_a_sentence(line: bytes, sentence: str) -> None:
    with pytest.raises(BadMessageError) as error:
        messages.decode_message(line)
    assert str(error.value) == sentence


# -- bounds -----------------------------------------------------------------------------------------


def test_a_message_has_a_largest_size() -> None:
    control = Control()
    with serving(control) as (_, path):
        assert refused(send(path, b"x" * messages.LONGEST)) == "a message has at most 4096 bytes"
        with pytest.raises(ConnectionResetError):
            send(path, b"x" * 3 * messages.LONGEST)
        assert refused(
            send(path, messages.encode_message(AskSwitch("prefetch", "9" * 3000)))
        ).startswith("'9999")
    assert not control.has_requests


def test_a_message_may_come_in_pieces_and_only_the_first_counts() -> None:
    control = Control()
    line = messages.encode_message(AskSwitch("prefetch", "4"))
    with (
        serving(control) as (_, path),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
    ):
        connection.connect(path)
        for byte in line[:-1]:
            connection.send(bytes([byte]))
        connection.send(line[-1:] + messages.encode_message(AskStop()))
        connection.settimeout(10)
        assert not refused(connection.recv(4096))
    assert control.take() == [Request("prefetch", "4")]
    assert not control.stop.is_set()


def test_idle_clients_are_dropped_and_the_next_one_is_served() -> None:
    with serving(Control(), Limits(clients=3, idle_s=0.2, wakes_per_s=1e6)) as (server, path):
        idle = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(5)]
        for one in idle:
            one.connect(path)
            one.settimeout(10)
        wait_until(lambda: len(server._clients) == 3)
        assert not ControlClient(path).check().refused, (
            "it waits in the kernel until the idle ones are gone"
        )
        assert [one.recv(10) for one in idle] == [b""] * 5
        for one in idle:
            one.close()


def test_a_flood_is_refused_and_the_training_gets_few_requests() -> None:
    control = Control()
    with serving(control, Limits(wakes_per_s=1e6, requests_per_s=1)) as (_, path):
        client, began_s = ControlClient(path), time.monotonic()
        answers = [client.call(AskSwitch("prefetch", "4")).refused for _ in range(200)]
        took_s = time.monotonic() - began_s
    assert set(answers) == {"", "too many requests"}
    assert control.waiting_count == answers.count("") <= 10 + took_s + 1


def test_a_flood_of_connections_costs_few_wakes() -> None:
    with serving(Control(), Limits(wakes_per_s=50)) as (server, path):
        served: list[socket.socket] = []

        def is_own(connection: socket.socket) -> bool:
            served.append(connection)
            return True

        server._is_own = is_own
        began_s = time.monotonic()
        while time.monotonic() - began_s < 0.5:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.setblocking(False)
                connection.connect_ex(path)
        took_s = time.monotonic() - began_s
        assert 1 < len(served) <= 100 + 50 * took_s + 1


def test_waiting_requests_are_bounded() -> None:
    control = Control()
    with serving(control) as (_, path):
        client = ControlClient(path)
        answers = [client.call(AskSwitch("prefetch", "4")).refused for _ in range(70)]
    assert answers == [""] * 64 + ["too many requests"] * 6


# -- the user ---------------------------------------------------------------------------------------


def test_a_client_of_another_user_is_refused() -> None:
    control = Control()
    with serving(control, is_own=lambda _: False) as (_, path):
        assert (
            refused(send(path, messages.encode_message(AskStop())))
            == "this training belongs to another user"
        )
        assert ControlClient(path).check().refused == "this training belongs to another user"
    assert not control.stop.is_set()


def test_a_training_of_another_user_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Control()) as (_, path):
        monkeypatch.setattr("tfwatch.runs.control.client.is_own_user", lambda _: False)
        with pytest.raises(NoAnswerError, match="belongs to another user"):
            ControlClient(path).check()


def test_the_folder_is_the_users_alone() -> None:
    with serving(Control()) as (_, path):
        folder = Path(path).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.stat().st_uid == os.geteuid()
        assert len(os.fsencode(path)) < 104


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("is_folder_open", [False, True], ids=["private folder", "opened folder"])
def test_another_user_cannot_connect(is_folder_open: bool) -> None:
    control = Control()
    with serving(control) as (_, path):
        if is_folder_open:  # the kernel's word on the peer still holds
            Path(path).parent.chmod(0o755)
            Path(path).chmod(0o777)
        assert _as_nobody(path) == (
            "this training belongs to another user" if is_folder_open else "PermissionError"
        )
    assert not control.stop.is_set()


def _as_nobody(path: str) -> str:
    """Ask to stop, as the user `nobody` in a child process; return the refusal, or the error's class."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, refused(send(path, messages.encode_message(AskStop()))).encode())
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with open(reading, encoding="utf-8") as said:
        return said.read()


# -- either side ends -------------------------------------------------------------------------------


def test_attached_and_detached_a_thousand_times_in_mid_training() -> None:
    control, done, taken = Control(), threading.Event(), list[Request]()

    def train() -> None:
        while not done.wait(0.0005):
            taken.extend(control.take())

    training = threading.Thread(target=train)
    with serving(control) as (server, path):
        training.start()
        begun = psutil.Process().num_fds(), threading.active_count()
        for number in range(1000):
            client = ControlClient(path)
            assert not client.check().refused
            if number % 100 == 99:
                assert not client.call(AskSwitch("prefetch", str(number + 1))).refused
        wait_until(lambda: not server._clients)
        assert (psutil.Process().num_fds(), threading.active_count()) == begun
    done.set()
    training.join(10)
    taken.extend(control.take())
    assert taken[-1] == Request("prefetch", "1000")


def test_the_socket_is_removed_and_a_late_client_reads_a_sentence() -> None:
    with serving(Control()) as (server, path):
        server.close()
        assert not Path(path).parent.exists()
        with pytest.raises(NoAnswerError, match="the training is gone"):
            ControlClient(path).check()


_SERVE = """
import time
from tfwatch.runs.control.requests import Control
from tfwatch.runs.control.server import ControlServer
from tfwatch.runs.create import make_writer
control = Control()
writer = make_writer("cnn", switchable=["prefetch"])
ControlServer(writer, control).open()
while not writer.manifest().control_socket:
    time.sleep(0.01)
print(writer.manifest().control_socket, flush=True)
control.stop.wait()
print("stopped", flush=True)
"""


@contextmanager
def _other_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_killed_training_leaves_a_folder_that_a_client_recognises() -> None:
    with _other_process() as (process, path):
        assert not ControlClient(path).check().refused
        process.kill()
        process.wait(10)
        assert Path(path).exists()
        with pytest.raises(NoAnswerError, match="the training is gone"):
            ControlClient(path).check()
    remove_folder(Path(path).parent)


def test_a_suspended_training_does_not_answer_and_the_client_does_not_wait_for_it() -> None:
    with _other_process() as (process, path):
        process.send_signal(signal.SIGSTOP)
        client = ControlClient(path, patience_s=0.2)
        wait_until(lambda: not _answers(client))
        client.ask_stop()
        wait_until(lambda: not client.is_stopping)
        assert client.take_refusals() == [Refused("the training does not answer", is_stop=True)]
        process.send_signal(signal.SIGCONT)
        assert not ControlClient(path).check().is_stopping, (
            "what was reported as lost has no effect later"
        )
        ControlClient(path).call(AskStop())
        assert process.stdout
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(10) == 0
    assert not Path(path).parent.exists(), (
        "a process that ends removes it, also where nothing closes it"
    )


def _answers(client: ControlClient) -> bool:
    try:
        client.check()
    except NoAnswerError:
        return False
    return True


def test_a_client_that_dies_in_mid_message_costs_nothing() -> None:
    with serving(Control()) as (server, path):
        for data in (b"", b'{"do": "st'):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(path)
            connection.send(data)
            connection.close()
        assert not ControlClient(path).check().refused
        wait_until(lambda: not server._clients)


def test_a_forked_process_neither_answers_nor_removes_the_socket() -> None:
    with serving(Control()) as (server, path):
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            server.close()
            inherited = [
                one.laddr for one in psutil.Process().net_connections("unix") if one.laddr == path
            ]
            os.write(writing, str(inherited).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        os.close(writing)
        with open(reading, encoding="utf-8") as said:
            assert said.read() == "[]", "the child holds no copy of the socket"
        assert not ControlClient(path).check().refused
    assert not Path(path).exists()


def test_whoever_closes_removes_the_folder_as_the_thread_may_end_with_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(Control()) as (server, path):
        closing, left_to_thread = server._closing, []

        def close() -> None:
            left_to_thread.append(server._folder)
            threading.Event.set(closing)

        monkeypatch.setattr(closing, "set", close)
        server.close()
        assert left_to_thread == [None]
        assert not Path(path).parent.exists()


class _Full:
    def send(self, data: bytes) -> int:
        raise BlockingIOError


def test_the_socket_is_removed_where_its_thread_cannot_be_woken() -> None:
    with serving(Control()) as (server, path):
        assert server._wake
        reading, writing = server._wake
        server._wake = reading, cast("Any", _Full())
        server.close()
        assert not Path(path).parent.exists()
        server._wake = reading, writing
        writing.send(b"x")


def test_a_socket_that_may_remain_is_noted_in_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise RuntimeError("no room")

    with serving(Control()) as (server, path), monkeypatch.context() as patched:
        patched.setattr("tfwatch.runs.control.server.remove_folder", fail)
        server.close()
    server._writer.flush()
    notes = [one.text for one in events_of(read_run(server._writer), Noted)]
    assert "the control socket may remain: RuntimeError: no room" in notes
    remove_folder(Path(path).parent)


def test_without_a_place_for_the_socket_the_manifest_has_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", fail)
    with serving(Control()) as (server, path):
        assert path == ""
        assert server._writer.manifest().no_control == "OSError: [Errno 28] No space left on device"
        server._thread.join(10)
        assert not server._thread.is_alive()


def test_without_a_thread_the_manifest_has_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("threading.Thread.start", fail)
    with serving(Control()) as (server, path):
        assert path == ""
        assert server._writer.manifest().no_control == "RuntimeError: can't start new thread"
        assert list(tmp_path.iterdir()) == []


def test_a_hung_temporary_folder_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    responds, make = threading.Event(), make_private_folder

    def make_late() -> Path:
        responds.wait(20)
        return make()

    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(control_server, "make_private_folder", make_late)
    server = ControlServer(make_writer("cnn"), Control())
    server.open()
    server.close()
    responds.set()
    server._thread.join(10)
    assert list(tmp_path.iterdir()) == [], "it is removed, although the run ended first"


def test_a_long_temporary_folder_gives_way_to_a_short_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(deep))
    with serving(Control()) as (_, path):
        assert path.startswith("/tmp/tfwatch-control-")
        assert not ControlClient(path).check().refused


def test_without_a_client_the_server_waits_without_a_time_limit() -> None:
    with serving(Control(), Limits(idle_s=60)) as (server, path):
        assert server._patience_s() is None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(path)
            wait_until(lambda: bool(server._clients))
            assert 50 < (server._patience_s() or 0) <= 60
        wait_until(lambda: not server._clients)
        assert server._patience_s() is None


def test_a_file_of_the_program_that_reuses_a_descriptor_is_not_closed(tmp_path: Path) -> None:
    with (tmp_path / "theirs").open("wb") as theirs, serving(Control()) as (server, _):
        assert server._listener
        fd = server._listener.fileno()
        os.dup2(theirs.fileno(), fd)
        server.close()
        server._thread.join(10)

        assert os.path.sameopenfile(fd, theirs.fileno())
        os.close(fd)
