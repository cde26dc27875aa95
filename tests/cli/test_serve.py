"""The metrics server under clients that are slow, many or hostile: its threads and connections stay
few."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.core import GaugeMetricFamily

from tests.runs.processes import wait_until
from tfwatch.cli import serve as module
from tfwatch.cli.serve import (
    FRESH_S,
    MOST_CONNECTIONS,
    THREADS,
    MetricsServer,
    Published,
    make_server,
)
from tfwatch.core.clock import Clock
from tfwatch.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client.core import Metric

DEADLINE_S = 0.3


def make() -> list[Metric]:
    return [GaugeMetricFamily("tfwatch_answer", "The answer.", value=42)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetricsServer]:
    """A server on a port of its own."""
    monkeypatch.setattr(module, "DEADLINE_S", DEADLINE_S)
    found = MetricsServer("127.0.0.1", 0, Published(make))
    thread = threading.Thread(
        target=found.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    yield found
    found.shutdown()
    thread.join(10)
    found.server_close()


def scrape(server: MetricsServer) -> str:
    with urllib.request.urlopen(server.url, timeout=10) as reply:
        return str(reply.read().decode())


def connect(server: MetricsServer) -> socket.socket:
    return socket.create_connection(server.server_address[:2], timeout=10)  # type: ignore[arg-type]


def workers() -> int:
    return sum(thread.name.startswith("tfwatch-serve") for thread in threading.enumerate())


def test_a_scrape_is_answered(server: MetricsServer) -> None:
    assert "tfwatch_answer 42.0" in scrape(server)


def test_a_crowd_that_sends_slowly_is_closed_and_the_next_scrape_answered(
    server: MetricsServer,
) -> None:
    before = workers()
    crowd = [connect(server) for _ in range(3 * MOST_CONNECTIONS)]
    deadline_s = time.monotonic() + 20
    still_open = crowd
    while still_open and time.monotonic() < deadline_s:
        still_open = [client for client in still_open if is_open(client)]
        assert workers() == before

    assert still_open == []
    # A client sees its end before the server counts it as closed.
    wait_until(lambda: server.open_connections < MOST_CONNECTIONS)
    assert "tfwatch_answer 42.0" in scrape(server)
    for client in crowd:
        client.close()


def is_open(client: socket.socket) -> bool:
    """Send a byte of a request that never ends; return whether the server still listens."""
    with contextlib.suppress(OSError):
        client.send(b"G")
        client.settimeout(0.01)
        try:
            return client.recv(1) != b""
        except TimeoutError:
            return True
    return False


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", id="TLS"),
        pytest.param(b"GET " + b"A" * 100_000 + b"\r\n\r\n", id="long line"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", id="many headers"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", id="body"),
        pytest.param(b"\x00" * 1000 + b"\r\n", id="zeros"),
    ],
)
def test_garbage_ends_its_own_connection_alone(
    server: MetricsServer, sent: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server) as client, contextlib.suppress(ConnectionError):
        client.sendall(sent)
        while client.recv(4096):
            pass

    assert "tfwatch_answer 42.0" in scrape(server)
    assert capsys.readouterr().err == ""


def test_many_scrapes_read_the_runs_once_a_second() -> None:
    now_ns, reads = [0], [0]

    def count() -> list[Metric]:
        reads[0] += 1
        return make()

    published = Published(count, Clock(lambda: now_ns[0], lambda: 0, lambda: 0))
    for _ in range(100):
        list(published.collect())
    assert reads == [1]
    now_ns[0] += int(FRESH_S * 1e9)
    list(published.restricted_registry(["tfwatch_answer"]).collect())
    assert reads == [2]


def test_threads_are_made_at_the_start_and_no_more(server: MetricsServer) -> None:
    before = workers()
    for _ in range(3 * THREADS):
        scrape(server)

    assert workers() == before


def test_an_address_that_cannot_be_used_is_a_sentence(
    server: MetricsServer, tmp_path: Path
) -> None:
    port = int(server.server_address[1])
    with pytest.raises(
        BadInputError, match=f"127.0.0.1, port {port}, cannot be used: Address already in use"
    ):
        make_server(tmp_path, "127.0.0.1", port)
    with pytest.raises(BadInputError, match="no such host"):
        make_server(tmp_path, "no such host", 0)


def test_without_the_library_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(BadInputError, match=r"pip install 'tfwatch\[serve\]'"):
        make_server(tmp_path, "127.0.0.1", 0)
