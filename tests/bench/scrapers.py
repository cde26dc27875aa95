"""Hostile clients of `tfwatch serve --prometheus`: the steps of a training beside it, with and without them.

    tfwatch train cnn --headless --steps 100000 & tfwatch serve --prometheus &
    python -m tests.bench.scrapers RUN_FOLDER

In turns of 8 s: no client, then 200 connections that send a byte now and then, or garbage, and requests whose answers
nobody reads. Prints the median step of each pair and their ratio, and the threads, memory and CPU of the server.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tfwatch.core.rows import step_ms
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.rows import Rows

ADDRESS = ("127.0.0.1", 9464)
TURN_S = 8.0
PAIRS = 5
_CROWD = 200
_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def main(run: str) -> None:
    """Print the pairs, and the median of their ratios."""
    os.nice(19)  # the clients' own work is not the server's
    server = _server()
    ratios: list[float] = []
    for _ in range(PAIRS):
        quiet = _steps_of(run, lambda: time.sleep(TURN_S))
        before_s = sum(server.cpu_times()[:2])
        hostile = _steps_of(run, _crowd)
        cores = (sum(server.cpu_times()[:2]) - before_s) / TURN_S
        ratios.append(_median_ms(hostile) / _median_ms(quiet))
        print(
            f"{_median_ms(quiet):.1f} ms, with clients {_median_ms(hostile):.1f} ms, {ratios[-1]:.3f} x; server: "
            f"{server.num_threads()} threads, {server.memory_info().rss / 2**20:.0f} MB, {cores:.2f} of a core"
        )
    print(f"median ratio {statistics.median(ratios):.3f}")


def _server() -> psutil.Process:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "--prometheus" in words and "python" in words[0]:
            return process
    sys.exit("start it first: tfwatch serve --prometheus")


def _steps_of(run: str, turn: Callable[[], None]) -> Rows:
    """Return the steps of a turn."""
    first = len(open_run(run).steps)
    turn()
    found: Rows = open_run(run).steps[first:]
    return found


def _median_ms(steps: Rows) -> float:
    return float(np.median(step_ms(steps)))


def _crowd() -> None:
    """Connect, send slowly, send garbage and read nothing, for a turn."""
    end_s, turns = time.monotonic() + TURN_S, 0
    clients: list[socket.socket] = []
    while time.monotonic() < end_s:
        turns += 1
        with contextlib.suppress(OSError):
            clients.append(_connect(_REQUEST if turns % 2 else b""))
        clients = [
            client for client in clients if _is_open(client, b"G" if turns % 3 else b"\x00\xff\r\n")
        ][-_CROWD:]
        time.sleep(0.02)
    for client in clients:
        client.close()


def _connect(sent: bytes) -> socket.socket:
    client = socket.create_connection(ADDRESS, timeout=2)
    client.setblocking(False)
    client.send(sent)
    return client


def _is_open(client: socket.socket, sent: bytes) -> bool:
    with contextlib.suppress(OSError):
        client.send(sent)
        return True
    client.close()
    return False


if __name__ == "__main__":
    main(sys.argv[1])
