"""Runs tools of the operating system: by their absolute path, without a shell or a terminal."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: None of the user's variables: the tools print English and find the system's tools first.
ENVIRONMENT = {"LANG": "C", "LC_ALL": "C", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
#: The time that a killed tool has to end, seconds.
_KILLED_S = 0.1


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool."""

    out: str = ""
    #: Why there is no answer, e.g. `did not respond within 2 s`; empty for a success.
    failure: str = ""


def run(argv: Sequence[str], timeout_s: float, environ: Mapping[str, str] = ENVIRONMENT) -> Result:
    """Run a tool to its end and return its output. Never raises an OSError.

    The tool has no terminal and no stdin, so it cannot prompt. One that takes longer is killed.
    """
    try:
        # Without close_fds Python uses posix_spawn; with it, macOS copies the page tables of a
        # whole training.
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            close_fds=False,
        )
    except (OSError, ValueError) as error:
        return Result(failure=getattr(error, "strerror", None) or str(error))
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Result(failure=f"did not respond within {timeout_s:g} s")
    text = out.decode(errors="replace")
    if process.returncode == 0:
        return Result(text)
    words = (err.decode(errors="replace").strip() or text.strip()).split("\n")[0][:200]
    return Result(text, f"it ended with {process.returncode}{words and f': {words}'}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a tool; one that hangs in the kernel is left behind, with its pipes closed."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_S)
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def start(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a tool that runs as long as its caller reads its output; its stderr is in it.

    It has its own session: sudo finds no terminal there to prompt on, and ctrl+c does not reach it.

    Raises:
        OSError: the tool cannot be started.
    """
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=ENVIRONMENT,
        start_new_session=True,
    )
