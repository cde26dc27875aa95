"""A tf.data service of another program: lost processes, and the figures of its workers."""

from __future__ import annotations

import math
import os
import socket
from typing import TYPE_CHECKING

import pytest

from tfwatch.core.events import FeedFound, Noted
from tfwatch.runs.format import Manifest
from tfwatch.runs.reading.opened import read_run
from tfwatch.runs.writer import RunWriter
from tfwatch.tfdata.feed.figures import FigureReader, responding
from tfwatch.tfdata.feed.remote import RemoteFeed
from tfwatch.watch.script.feed_watcher import FeedWatcher

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def servers() -> Iterator[list[socket.socket]]:
    """A dispatcher and two workers, which only listen."""
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    yield found
    for one in found:
        one.close()


def address(server: socket.socket) -> str:
    return f"localhost:{server.getsockname()[1]}"


def test_a_process_is_lost_with_the_second_refusal_and_named_once(
    servers: list[socket.socket],
) -> None:
    dispatcher, *workers = map(address, servers)
    feed = RemoteFeed(dispatcher, workers)
    assert feed.newly_lost() == []
    servers[1].close()
    assert feed.newly_lost() == []
    (sentence,) = feed.newly_lost()
    assert sentence.startswith(f"feed: the worker at {workers[0]} does not respond, 1 of 2 left; ")
    assert feed.newly_lost() == []
    assert feed.lost == {workers[0]}
    servers[0].close()
    assert feed.newly_lost() == []
    assert feed.newly_lost()[0].startswith(
        f"feed: the dispatcher at {dispatcher} does not respond; "
    )
    port = int(workers[0].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        feed.newly_lost()
        assert list(feed.restart_lost()) == [f"feed: the worker at {workers[0]} responds again"]
    assert feed.lost == {dispatcher}


def test_an_address_without_a_machine_does_not_respond() -> None:
    assert responding(["no-such-host.invalid:1"]) == [False]


@pytest.mark.skipif(
    not hasattr(socket, "TCP_INFO") or not os.path.isdir("/proc/self/fd"),
    reason="Linux counts bytes",
)
def test_the_bytes_of_a_worker_are_those_of_its_connections(servers: list[socket.socket]) -> None:
    figures, members = FigureReader(), {address(servers[1]): os.getpid(), address(servers[2]): None}
    assert math.isnan(figures.read(members, 1.0)[0].bytes_s)
    with socket.create_connection(servers[1].getsockname()) as taking:
        sending, _ = servers[1].accept()
        with sending:
            sending.sendall(bytes(3000))
            assert len(taking.recv(3000, socket.MSG_WAITALL)) == 3000
            sent, idle = figures.read(members, 3.0)
    assert (sent.bytes_s, idle.bytes_s) == (1500.0, 0.0)
    assert sent.cores >= 0.0
    assert math.isnan(idle.cores)


def test_the_watcher_records_the_workers_and_what_is_lost(servers: list[socket.socket]) -> None:
    dispatcher, *workers = map(address, servers)
    writer = RunWriter(None, Manifest("run", "train", 0, 0, os.getpid(), 0.0, ""))
    watcher = FeedWatcher(RemoteFeed(dispatcher, workers), lambda: writer)
    watcher.look()
    servers[2].close()
    watcher.look()
    watcher.look()
    writer.flush()
    run = read_run(writer)
    (found,) = [event for event in run.events if isinstance(event, FeedFound)]
    assert (found.dispatcher, found.workers) == (dispatcher, workers)
    assert [event.text[:40] for event in run.events if isinstance(event, Noted)] == [
        f"feed: the worker at {workers[1]} does not"[:40]
    ]
    assert run.feeds["worker"].tolist() == [0, 1, 0, 1, 0, 1]
    assert run.feeds["lost"].tolist() == [0, 0, 0, 0, 0, 1]
