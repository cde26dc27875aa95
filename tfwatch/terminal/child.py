"""A child process in the foreground, which gets the signals that this process gets."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tfwatch.core.errors import name_of_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_AWAITED = (*_PASSED_ON, signal.SIGCHLD)


def run_child(
    command: Sequence[str],
    on_started: Callable[[int], None],
    outputs: tuple[int | None, int | None] = (None, None),
    descriptors: Sequence[int] = (),
) -> int:
    """Run a command with the standard streams of this process; return its exit code, or minus the
    signal it died of.

    on_started: called with the process id. outputs: the descriptors of its standard output and
    error; None is that of this process. descriptors: further ones that it inherits.

    Raises:
        OSError: the process cannot be created.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    # The default of SIGCHLD may drop it while it is blocked; a Python handler is no more than a
    # mark.
    default = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        child = subprocess.Popen(
            command,
            stdout=outputs[0],
            stderr=outputs[1],
            pass_fds=descriptors,
            preexec_fn=lambda: _restore(before, default),
        )
        on_started(child.pid)
        while child.poll() is None:
            _pass_on(child.pid)
        return child.returncode
    finally:
        _restore(before, default)


def _restore(mask: set[signal.Signals | int], sigchld: object) -> None:
    signal.signal(signal.SIGCHLD, sigchld)  # type: ignore[arg-type]
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _pass_on(pid: int) -> None:
    """Wait for a signal, and send it to the child unless the terminal has: it signals the whole
    foreground."""
    number, is_shared = _next_signal()
    if number != signal.SIGCHLD and not is_shared:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _next_signal() -> tuple[int, bool]:
    """Return the next signal, and whether the terminal sent it."""
    if sys.platform == "linux":
        info = signal.sigwaitinfo(_AWAITED)
        return info.si_signo, info.si_code > 0
    number = signal.sigwait(_AWAITED)  # macOS does not say who sent a signal
    return number, number in (signal.SIGINT, signal.SIGQUIT) and _is_in_foreground()


def _is_in_foreground() -> bool:
    for fd in (0, 1, 2):
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(fd) == os.getpgrp()
    return False


def describe_end(code: int) -> str:
    """Return how a script ended. code: its exit code, or minus the signal that it died of."""
    return (
        f"script ended by {name_of_signal(-code)}"
        if code < 0
        else f"script ended, exit code {code}"
    )


def end_as(code: int) -> int:
    """Return an exit code; minus a signal: die of this signal, without a second core file."""
    if code >= 0:
        return code
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code
