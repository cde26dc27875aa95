"""The dispatcher and the workers of the tf.data service as child processes: start, check, restart and end."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import psutil

from tfwatch.core.errors import name_of_signal

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM = "tfwatch.tfdata.feed.service_program"
_START_S = 120.0
#: A dispatcher that runs responds within milliseconds; a Python that asks it starts within seconds on a busy machine.
_CHECK_S = 30.0
_END_S = 2.0
#: Of all workers together: a worker that runs out of memory does so again.
_MOST_RESTARTS = 20
_MOST_ERROR_BYTES = 4096
#: The processes that this one sees: those of another container have other numbers.
_PROCESSES = "/proc/self/ns/pid"
LOCAL = "localhost"


class FeedError(Exception):
    """The service cannot be used; the message is a sentence for the user."""


@dataclass
class ServiceProcess:
    """A child process of the service.

    host, where: the program's arguments. address: HOST:PORT, where it listens. errors: the open file that takes its
    stderr until it listens.
    """

    role: str
    host: str
    where: str
    process: subprocess.Popen[str]
    address: str = ""
    errors: int = -1

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self.process.poll() is None


@dataclass
class LocalFeed:
    """A dispatcher and its workers on this machine; `stop` ends them, as does the end of this process.

    dispatcher: None where it runs elsewhere. directory: that of its journal.
    """

    dispatcher: ServiceProcess | None
    workers: list[ServiceProcess] = field(default_factory=list)
    directory: str = ""
    restarts: int = 0
    _reported: set[int] = field(default_factory=set)
    _is_stopping: bool = False

    @property
    def address(self) -> str:
        """The dispatcher's HOST:PORT; empty where it runs elsewhere."""
        return self.dispatcher.address if self.dispatcher else ""

    @property
    def members(self) -> dict[str, int | None]:
        """The workers' processes, by HOST:PORT."""
        return {one.address: one.process.pid for one in self.workers}

    @property
    def lost(self) -> frozenset[str]:
        """The addresses of the processes that ended."""
        return frozenset(one.address for one in self._all if not one.is_alive)

    @property
    def can_serve(self) -> bool:
        """True while a worker runs, and the dispatcher where it is on this machine."""
        return any(one.is_alive for one in self.workers) and (
            self.dispatcher is None or self.dispatcher.is_alive
        )

    @property
    def _all(self) -> list[ServiceProcess]:
        return [*self.workers, *([self.dispatcher] if self.dispatcher else [])]

    def newly_lost(self) -> list[str]:
        """Return a sentence for each process that ended since the last call, and not because `stop` ends it."""
        lost = [
            one for one in self._all if not one.is_alive and one.process.pid not in self._reported
        ]
        if self._is_stopping:  # looked at last: `stop` may be called by another thread meanwhile
            return []
        self._reported.update(one.process.pid for one in lost)
        return [self._loss(one) for one in lost]

    def _loss(self, lost: ServiceProcess) -> str:
        if lost is self.dispatcher:
            return "feed: the dispatcher ended"
        left = sum(worker.is_alive for worker in self.workers)
        number = self.workers.index(lost) + 1
        return (
            f"feed: worker {number} ended, {left} of {len(self.workers)} left; "
            "elements that it held are missing from this epoch"
        )

    def restart_lost(self) -> Iterator[str]:
        """Start each lost process again at its address, where trainings wait for it; yield a sentence for each."""
        if self.dispatcher and self._may_restart(self.dispatcher):
            self.dispatcher = self._again(self.dispatcher)
            yield from _result(self.dispatcher, "the dispatcher")
        for index, worker in enumerate(self.workers):
            if self._may_restart(worker):
                self.workers[index] = self._again(worker)
                yield from _result(self.workers[index], f"worker {index + 1}")

    def _may_restart(self, one: ServiceProcess) -> bool:
        is_lost = not one.is_alive and bool(one.address) and not self._is_stopping
        return is_lost and self.restarts < _MOST_RESTARTS

    def _again(self, lost: ServiceProcess) -> ServiceProcess:
        self.restarts += 1
        port = lost.address.rpartition(":")[2]
        where, more = (port, self.directory) if lost is self.dispatcher else (lost.where, port)
        again = _spawn(lost.role, lost.host, where, more)
        again.address = lost.address
        return again

    def stop(self) -> None:
        """End all processes."""
        self._is_stopping = True
        for one in self._all:
            one.process.kill()
        try:
            for one in self._all:
                one.process.wait(_END_S)
        finally:
            if self.directory:
                shutil.rmtree(self.directory, ignore_errors=True)


def start_local(workers: int, host: str = LOCAL, port: int = 0) -> LocalFeed:
    """Start a dispatcher and workers. port: that of the dispatcher; 0 takes a free one.

    Raises:
        FeedError: one of them did not start.
    """
    remove_stale_journals()
    directory = tempfile.mkdtemp(prefix=f"{_journals()}{os.getpid()}-")
    feed = LocalFeed(_spawn("dispatcher", host, str(port), directory), directory=directory)
    with _stopped_on_error(feed):
        assert feed.dispatcher
        _await_address(feed.dispatcher)
        _add_workers(feed, workers, host, feed.address)
    return feed


def _journals() -> str:
    """Return how the names of the journals of this machine, or of this container, begin."""
    with suppress(OSError):
        return f"tfwatch-feed-{crc32(f'{os.uname().nodename} {os.stat(_PROCESSES).st_ino}'.encode()):08x}-"
    return f"tfwatch-feed-{crc32(os.uname().nodename.encode()):08x}-"


def remove_stale_journals() -> None:
    """Remove this user's journals of services of which all processes were killed at once."""
    begin = _journals()
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            pid = entry.name.removeprefix(begin).partition("-")[0]
            is_own = entry.name.startswith(begin) and entry.is_dir(follow_symlinks=False)
            if (
                is_own
                and pid.isdecimal()
                and entry.stat().st_uid == os.geteuid()
                and not psutil.pid_exists(int(pid))
            ):
                shutil.rmtree(entry.path, ignore_errors=True)


def join(dispatcher: str, workers: int, host: str) -> LocalFeed:
    """Start workers of a dispatcher elsewhere. host: the name by which trainings reach this machine.

    Raises:
        FeedError: one of them did not start.
    """
    feed = LocalFeed(None)
    with _stopped_on_error(feed):
        _add_workers(feed, workers, host, dispatcher)
    return feed


@contextmanager
def _stopped_on_error(feed: LocalFeed) -> Iterator[None]:
    try:
        yield
    except BaseException:
        feed.stop()
        raise


def _add_workers(feed: LocalFeed, workers: int, host: str, dispatcher: str) -> None:
    for _ in range(workers):
        feed.workers.append(_spawn("worker", host, dispatcher))
    for worker in feed.workers:
        _await_address(worker)


def _result(again: ServiceProcess, name: str) -> Iterator[str]:
    try:
        _await_address(again)
        yield f"feed: {name} runs again"
    except FeedError as error:
        yield f"feed: {error}"


def find_workers(address: str) -> list[str]:
    """Return the HOST:PORT of each worker of the dispatcher at an address.

    Raises:
        FeedError: no dispatcher responds there.
    """
    check = _spawn("check", LOCAL, address)
    try:
        _await_address(check, _CHECK_S)
        return check.address.split()[1:]
    finally:
        check.process.kill()
        check.process.wait(_END_S)


def _spawn(role: str, host: str, where: str, *more: str) -> ServiceProcess:
    root = os.path.dirname(
        os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    )
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-m", _PROGRAM, str(os.getpid()), role, host, where, *more]
    environment = {**os.environ, "PYTHONPATH": paths}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
        )
        return ServiceProcess(role, host, where, process, errors=os.dup(errors.fileno()))


def _await_address(child: ServiceProcess, limit_s: float = _START_S) -> None:
    """Wait for the line with the address."""
    assert child.process.stdout
    try:
        with child.process.stdout as lines, selectors.DefaultSelector() as selector:
            selector.register(lines, selectors.EVENT_READ)
            if not selector.select(limit_s):
                raise FeedError(
                    f"the {child.role} of the tf.data service did not start in {limit_s:.0f} s"
                )
            line = lines.readline().strip()
        if not line:
            raise FeedError(_why_not_started(child))
        child.address = line
    finally:
        os.close(child.errors)


def _why_not_started(child: ServiceProcess) -> str:
    code = child.process.wait()
    if code < 0:
        return f"the {child.role} of the tf.data service did not start: {name_of_signal(-code)} ended it"
    size = os.fstat(child.errors).st_size
    text = os.pread(child.errors, _MOST_ERROR_BYTES, max(0, size - _MOST_ERROR_BYTES)).decode(
        errors="replace"
    )
    reason = next(
        (line.strip() for line in reversed(text.splitlines()) if line.strip()), f"exit code {code}"
    )
    return (
        reason
        if child.role == "check"
        else f"the {child.role} of the tf.data service did not start: {reason}"
    )
