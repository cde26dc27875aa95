"""Runs a tool of the operating system for a moment: by its absolute path, without a shell, with limits."""

from __future__ import annotations

import contextlib
import selectors
import subprocess
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Nothing of the user's: the tools speak English and find no other tool before the system's.
ENVIRONMENT = {"LANG": "C", "LC_ALL": "C", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
_PIECE = 2**16


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool said.

    code: its exit code, negative for the signal that ended it; None where it did not come to its end.
    trouble: why it did not, e.g. `gives no answer within 2 s`; empty where it did, whatever its code.
    """

    out: str = ""
    err: str = ""
    code: int | None = None
    trouble: str = ""

    @property
    def why_not(self) -> str:
        """Why there is no answer: the trouble, or its first words where it failed; empty where it did its work."""
        if self.trouble or self.code == 0:
            return self.trouble
        words = (self.err.strip() or self.out.strip()).split("\n")[0][:200]
        return f"it ended with {self.code}{words and f': {words}'}"


def run(argv: Sequence[str], timeout_s: float, limit_bytes: int = 2**20, clock: Clock = SYSTEM) -> Result:
    """Run a tool and take what it prints, `limit_bytes` of stdout and of stderr at most. Never raises an OSError.

    It has no terminal and no stdin, so it can ask for nothing. One that takes longer, or prints more, is killed; one
    that cannot be killed (it belongs to root) is left behind with its pipes closed.
    """
    try:
        # Without close_fds Python uses posix_spawn: macOS would copy the page tables of a whole training otherwise.
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            close_fds=False,
        )
    except (OSError, ValueError) as error:
        return Result(trouble=getattr(error, "strerror", None) or str(error))
    assert process.stdout
    assert process.stderr
    with process.stdout, process.stderr:
        due_ns = clock.now_ns() + round(timeout_s * 1e9)
        (out, err), trouble = _collect((process.stdout, process.stderr), due_ns, limit_bytes, clock)
        code = None if trouble else _wait(process, due_ns, clock)
    if code is None:
        with contextlib.suppress(OSError):
            process.kill()
        _wait(process, clock.now_ns() + 100_000_000, clock)
        trouble = trouble or "silent"
    told = {"silent": f"gives no answer within {timeout_s:g} s", "flood": f"prints more than {limit_bytes} bytes"}
    return Result(_text(out[:limit_bytes]), _text(err[:limit_bytes]), code, told.get(trouble, ""))


def _text(taken: bytearray) -> str:
    return taken.decode(errors="replace")


def _collect(
    pipes: tuple[IO[bytes], IO[bytes]], due_ns: int, limit: int, clock: Clock
) -> tuple[tuple[bytearray, bytearray], str]:
    """What came through both pipes, and `silent` or `flood` where that was not all."""
    taken = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        for pipe, into in zip(pipes, taken, strict=True):
            waiting.register(pipe, selectors.EVENT_READ, into)
        while waiting.get_map():
            left_s = (due_ns - clock.now_ns()) / 1e9
            ready = waiting.select(left_s) if left_s > 0 else []
            if not ready:
                return taken, "silent"
            for key, _ in ready:
                piece = key.fileobj.read1(_PIECE)  # type: ignore[union-attr]
                if not piece:
                    waiting.unregister(key.fileobj)
                key.data.extend(piece)
                if len(key.data) > limit:
                    return taken, "flood"
    return taken, ""


def _wait(process: subprocess.Popen[bytes], due_ns: int, clock: Clock) -> int | None:
    """The exit code; None where it has none in time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(max((due_ns - clock.now_ns()) / 1e9, 0.001))
    return None
