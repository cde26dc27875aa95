"""Runs tools of the operating system: by their absolute path, without a shell or a terminal."""

from __future__ import annotations

import contextlib
import resource
import selectors
import subprocess
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

#: None of the user's variables: the tools print English and find the system's tools first.
ENVIRONMENT = {"LANG": "C", "LC_ALL": "C", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
#: The limit of each of a tool's streams.
LIMIT_BYTES = 2**20
_READ_BYTES = 2**16
#: Waits for a killed tool to end, and for a tool that has closed its pipes.
_KILLED_S = 0.1
_CLOSED_S = 0.001


class NotStartedError(Exception):
    """A tool cannot be started; the message is the system's reason."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool.

    code: the exit code, negative for the signal that ended the tool; None where it did not end by
    itself.
    trouble: why it did not, e.g. `did not respond within 2 s`; empty where it did, for any exit
    code.
    cpu_ns: CPU time of the tool and its children.
    """

    out: str = ""
    err: str = ""
    code: int | None = None
    trouble: str = ""
    cpu_ns: int = field(default=0, compare=False)

    @property
    def failure(self) -> str:
        """The reason why there is no answer: the trouble, or the first line of a failed tool; empty
        for a success."""
        if self.trouble or self.code == 0:
            return self.trouble
        words = (self.err.strip() or self.out.strip()).split("\n")[0][:200]
        return f"it ended with {self.code}{words and f': {words}'}"


def run(
    argv: Sequence[str], timeout_s: float, limit_bytes: int = LIMIT_BYTES, clock: Clock = SYSTEM
) -> Result:
    """Run a tool to its end and return its output. Never raises an OSError.

    The tool has no terminal and no stdin, so it cannot prompt. A tool that takes longer, or prints
    more than `limit_bytes` on stdout or stderr, is killed; a tool that cannot be killed (it belongs
    to root) keeps running with its pipes closed.
    """
    running = RunningTool(argv, timeout_s, clock.now_ns(), limit_bytes)
    while (result := running.poll(clock.now_ns(), wait=True)) is None:
        pass
    return result


def start_long_running(
    argv: Sequence[str], *, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a tool that runs until the caller ends it, with a pipe for its stderr.

    It has its own session: sudo finds no terminal there to prompt on or to change, and ctrl+c does
    not reach it.

    Raises:
        NotStartedError: the tool cannot be started.
    """
    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        raise NotStartedError(_refusal(error)) from error


def _refusal(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


class RunningTool:
    """A tool that runs in parallel with its caller, within the limits of `run`.

    now_ns is the monotonic clock. A tool that cannot be started has its result immediately.
    """

    def __init__(
        self, argv: Sequence[str], timeout_s: float, now_ns: int, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        self._timeout_s = timeout_s
        self._due_ns = now_ns + round(timeout_s * 1e9)
        self._limit = limit_bytes
        self._output = {"out": bytearray(), "err": bytearray()}
        self._pipes = selectors.DefaultSelector()
        self._process: subprocess.Popen[bytes] | None = None
        self._cpu_ns = 0
        self._result: Result | None = None
        try:
            # Without close_fds Python uses posix_spawn; with it, macOS copies the page tables of a
            # whole training.
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                close_fds=False,
            )
        except (OSError, ValueError) as error:
            self._end(_refusal(error))
            return
        # The tool ends with this object, and with the interpreter.
        self._finalizer = weakref.finalize(self, _kill, self._process)
        assert self._process.stdout
        assert self._process.stderr
        self._pipes.register(self._process.stdout, selectors.EVENT_READ, "out")
        self._pipes.register(self._process.stderr, selectors.EVENT_READ, "err")

    def poll(self, now_ns: int, wait: bool = False) -> Result | None:
        """Read its new output; return the result, or None while it runs. wait: block until there is
        output."""
        if self._result or not self._process:
            return self._result
        left_s = max(self._due_ns - now_ns, 0) / 1e9
        flooded = self._take(left_s if wait else 0.0)
        if flooded:
            self._kill(f"prints more than {self._limit} bytes")
        elif not self._pipes.get_map() and self._has_ended(min(left_s, _CLOSED_S) if wait else 0.0):
            self._end("")
        elif not left_s:
            self._kill(f"did not respond within {self._timeout_s:g} s")
        return self._result

    def _take(self, wait_s: float) -> bool:
        """Read the available output once; return whether it exceeds the limit."""
        for key, _ in self._pipes.select(wait_s) if self._pipes.get_map() else []:
            piece = key.fileobj.read1(_READ_BYTES)  # type: ignore[union-attr]
            if not piece:
                self._pipes.unregister(key.fileobj)
            self._output[key.data] += piece
        return any(len(taken) > self._limit for taken in self._output.values())

    def _has_ended(self, wait_s: float) -> bool:
        """Reap the tool if it ends within `wait_s`, which adds its CPU time to that of this
        process' children."""
        assert self._process
        before_ns = _children_ns()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        self._cpu_ns += _children_ns() - before_ns
        return self._process.returncode is not None

    def _kill(self, trouble: str) -> None:
        assert self._process
        _kill(self._process)
        self._has_ended(_KILLED_S)
        self._end(trouble)

    def _end(self, trouble: str) -> None:
        process = self._process
        if process:
            self._finalizer.detach()
        self._pipes.close()
        for pipe in (process.stdout, process.stderr) if process else ():
            if pipe:
                pipe.close()
        out, err = (
            taken[: self._limit].decode(errors="replace") for taken in self._output.values()
        )
        code = process.returncode if process and not trouble else None
        self._result = Result(out, err, code, trouble, self._cpu_ns)
        _SPENT.add(self._cpu_ns)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        process.kill()


class _Spent:
    """A sum that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.ns = 0

    def add(self, ns: int) -> None:
        with self._lock:
            self.ns += ns


_SPENT = _Spent()


def spent_ns() -> int:
    """Return the CPU time of all tools that this process has run and that have ended."""
    return _SPENT.ns


def _children_ns() -> int:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1e9)
