"""The server of the metrics: a scrape, and what cannot be served."""

import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screens.canned import usual
from tfwatch.cli.serve import start_server
from tfwatch.core.errors import BadInputError


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server of one run."""
    usual(tmp_path / "runs" / "2026-11-20_cnn").writer.flush()
    server, thread = start_server(tmp_path / "runs", "127.0.0.1", 0)
    yield server.server_port
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_a_scrape_has_the_runs(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        assert b"tfwatch_steps_total" in reply.read()


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
