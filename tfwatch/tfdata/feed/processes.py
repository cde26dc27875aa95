"""The dispatcher and the workers of the tf.data service as child processes, and a look at how they are."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAM = "tfwatch.tfdata.feed.service_program"
_START_S = 120.0
_END_S = 2.0
LOCAL = "localhost"


class FeedError(Exception):
    """The service cannot be used; the message is a sentence for the user."""


@dataclass
class ServiceProcess:
    """A child process of the service. address: HOST:PORT, where it listens."""

    role: str
    process: subprocess.Popen[str]
    address: str = ""
    cpu: psutil.Process | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def busy_cores(self) -> float | None:
        """Return the cores that it used since the last call; None where that is not known."""
        try:
            self.cpu = self.cpu or psutil.Process(self.process.pid)
            return float(self.cpu.cpu_percent()) / 100
        except psutil.Error:
            return None


@dataclass
class LocalFeed:
    """A dispatcher and its workers on this machine; `stop` ends them, as does the end of this process.

    dispatcher: None where it runs elsewhere.
    """

    dispatcher: ServiceProcess | None
    workers: list[ServiceProcess] = field(default_factory=list)
    _reported: set[int] = field(default_factory=set)

    @property
    def address(self) -> str:
        """The dispatcher's HOST:PORT; empty where it runs elsewhere."""
        return self.dispatcher.address if self.dispatcher else ""

    @property
    def is_alive(self) -> bool:
        """Whether any of the processes runs."""
        return any(one.is_alive for one in self._all)

    @property
    def _all(self) -> list[ServiceProcess]:
        return [*self.workers, *([self.dispatcher] if self.dispatcher else [])]

    def newly_lost(self) -> list[str]:
        """Return a sentence for each process that ended since the last call."""
        sentences = []
        for one in self._all:
            if not one.is_alive and one.process.pid not in self._reported:
                self._reported.add(one.process.pid)
                sentences.append(self._loss(one))
        return sentences

    def _loss(self, lost: ServiceProcess) -> str:
        if lost is self.dispatcher:
            return "feed: the dispatcher ended; the next epoch cannot begin"
        left = sum(worker.is_alive for worker in self.workers)
        number = self.workers.index(lost) + 1
        return (
            f"feed: worker {number} ended, {left} of {len(self.workers)} left; "
            "the elements that it held are missing from this epoch"
        )

    def stop(self) -> None:
        """End all processes."""
        for one in self._all:
            one.process.kill()
        for one in self._all:
            one.process.wait(_END_S)


def start_local(workers: int, host: str = LOCAL, port: int = 0) -> LocalFeed:
    """Start a dispatcher and workers.

    Raises:
        FeedError: one of them did not start.
    """
    dispatcher = _spawn("dispatcher", host, str(port))
    feed = LocalFeed(dispatcher)
    try:
        _await_address(dispatcher)
        for _ in range(workers):
            feed.workers.append(_spawn("worker", host, dispatcher.address))
        for worker in feed.workers:
            _await_address(worker)
    except BaseException:
        feed.stop()
        raise
    return feed


def join(dispatcher: str, host: str) -> ServiceProcess:
    """Start a worker of a dispatcher elsewhere. host: the name by which trainings reach this machine.

    Raises:
        FeedError: it did not start.
    """
    worker = _spawn("worker", host, dispatcher)
    try:
        _await_address(worker)
    except BaseException:
        worker.process.kill()
        worker.process.wait(_END_S)
        raise
    return worker


def _spawn(role: str, host: str, where: str) -> ServiceProcess:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-m", _PROGRAM, str(os.getpid()), role, host, where]
    environment = {**os.environ, "PYTHONPATH": paths}
    errors = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
    )
    return ServiceProcess(role, process)


def _await_address(child: ServiceProcess, now: Callable[[], float] = time.monotonic) -> None:
    """Wait for the line with the address."""
    assert child.process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(child.process.stdout, selectors.EVENT_READ)
        end = now() + _START_S
        if not selector.select(max(0.0, end - now())):
            raise FeedError(f"the {child.role} of the tf.data service did not start in {_START_S:.0f} s")
    child.address = child.process.stdout.readline().strip()
    if not child.address:
        raise FeedError(f"the {child.role} of the tf.data service ended as it began, with code {child.process.wait()}")
