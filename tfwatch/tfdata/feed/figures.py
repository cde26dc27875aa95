"""Figures of the workers of the tf.data service: whether each responds, its cores, and the bytes that it sends here.

TensorFlow gives none of them to a Python program. The operating system does: the CPU time of a process of this machine,
and for each connection of this process the bytes received (`TCP_INFO` of Linux).
"""

from __future__ import annotations

import math
import os
import selectors
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: A process that listens accepts a connection within milliseconds, also a busy one: its kernel does.
_RESPONSE_S = 1.0
#: `tcpi_bytes_received` of `struct tcp_info`, since Linux 4.1.
_RECEIVED = struct.Struct("<128xQ")
_NO_BYTES = "only Linux counts the bytes of a connection"
_IPV6_OF_IPV4 = "::ffff:"


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """One worker over the seconds since the reading before. NaN is unknown."""

    cores: float = math.nan
    bytes_s: float = math.nan


class FigureReader:
    """Reads the figures of workers; each reading is over the time since the one before."""

    def __init__(self) -> None:
        self._at_s = math.nan
        self._cpu_s: dict[int, float] = {}
        self._received: dict[tuple[str, int, int], int] = {}
        self._ips: dict[str, frozenset[str]] = {}

    @property
    def missing(self) -> dict[str, str]:
        """The reasons why a figure of all workers is unknown, by column."""
        return (
            {}
            if hasattr(socket, "TCP_INFO") and os.path.isdir("/proc/self/fd")
            else {"bytes_s": _NO_BYTES}
        )

    def read(self, workers: Mapping[str, int | None], at_s: float) -> list[WorkerFigures]:
        """Return the figures of workers, by HOST:PORT with the process where it runs on this machine."""
        lasted_s, self._at_s = at_s - self._at_s, at_s
        new = self._new_bytes()
        return [
            WorkerFigures(
                self._new_cpu_s(pid) / lasted_s, self._bytes_from(address, new) / lasted_s
            )
            for address, pid in workers.items()
        ]

    def _new_cpu_s(self, pid: int | None) -> float:
        if pid is None:
            return math.nan
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            return math.nan
        now_s = float(times.user + times.system)
        before_s, self._cpu_s[pid] = self._cpu_s.get(pid, math.nan), now_s
        return now_s - before_s

    def _new_bytes(self) -> dict[tuple[str, int], int]:
        """Return the bytes received since the reading before, by the other end's address and port."""
        new: dict[tuple[str, int], int] = {}
        received = dict(_connections())
        for (host, port, own), count in received.items():
            before = self._received.get((host, port, own), 0)
            new[host, port] = new.get((host, port), 0) + max(count - before, 0)
        self._received = received
        return new

    def _bytes_from(self, address: str, new: Mapping[tuple[str, int], int]) -> float:
        if self.missing:
            return math.nan
        host, _, port = address.rpartition(":")
        if host not in self._ips:
            self._ips[host] = _resolve(host)
        return float(sum(new.get((ip, int(port)), 0) for ip in self._ips[host]))


def _connections() -> Iterator[tuple[tuple[str, int, int], int]]:
    """Yield the bytes received on each TCP connection of this process, by the other end and the own port."""
    if not os.path.isdir("/proc/self/fd"):
        return
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError, struct.error, ValueError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    if (
                        one.family in (socket.AF_INET, socket.AF_INET6)
                        and one.type == socket.SOCK_STREAM
                    ):
                        (count,) = _RECEIVED.unpack(
                            one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
                        )
                        host, port = one.getpeername()[:2]
                        yield (host.removeprefix(_IPV6_OF_IPV4), port, one.getsockname()[1]), count


def _resolve(host: str) -> frozenset[str]:
    with suppress(OSError):
        return frozenset(
            str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        )
    return frozenset()


def responding(addresses: Sequence[str]) -> list[bool]:
    """Return for each HOST:PORT whether a connection is accepted within a second."""
    with selectors.DefaultSelector() as selector:
        open_now = {
            address: one for address in addresses if (one := _begin_connecting(address)) is not None
        }
        for address, one in open_now.items():
            selector.register(one, selectors.EVENT_WRITE, address)
        good = _await_connections(selector, len(open_now))
    for one in open_now.values():
        one.close()
    return [address in good for address in addresses]


def _begin_connecting(address: str) -> socket.socket | None:
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM)[0]
        one = socket.socket(*found[:3])
    except OSError:
        return None
    one.setblocking(False)
    one.connect_ex(found[4])
    return one


def _await_connections(selector: selectors.BaseSelector, count: int) -> set[str]:
    good: set[str] = set()
    done = 0
    while done < count and (ready := selector.select(_RESPONSE_S)):
        for key, _ in ready:
            done += 1
            selector.unregister(key.fileobj)
            assert isinstance(key.fileobj, socket.socket)
            if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                good.add(key.data)
    return good
