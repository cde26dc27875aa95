"""The server of the metrics: a scrape, clients that send garbage, and what cannot be served."""

from __future__ import annotations

import contextlib
import socket
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.screens.canned import usual
from tfwatch.cli.serve import start_server
from tfwatch.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server of one run."""
    usual(tmp_path / "runs" / "2026-11-20_cnn").writer.flush()
    server, thread = start_server(tmp_path / "runs", "127.0.0.1", 0)
    yield server.server_port
    server.shutdown()
    thread.join(10)
    server.server_close()


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        return str(reply.read().decode())


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", id="TLS"),
        pytest.param(b"GET " + b"A" * 100_000 + b"\r\n\r\n", id="long line"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", id="body"),
    ],
)
def test_garbage_ends_its_own_connection_alone(port: int, sent: bytes) -> None:
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    with client, contextlib.suppress(OSError):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass

    assert "tfwatch_steps_total" in scrape(port)


def test_an_address_that_cannot_be_used_is_a_sentence(port: int, tmp_path: Path) -> None:
    with pytest.raises(
        BadInputError, match=f"127.0.0.1, port {port}, cannot be used: Address already in use"
    ):
        start_server(tmp_path, "127.0.0.1", port)
    with pytest.raises(BadInputError, match="no such host"):
        start_server(tmp_path, "no such host", 0)


def test_without_the_library_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(BadInputError, match="pip install 'prometheus-client"):
        start_server(tmp_path, "127.0.0.1", 0)
