"""A notice to the user: the bell, a desktop notification of the terminal, or the user's own command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BELL = "\a"
_TITLE = "tfwatch"
_END = "\x1b\\"
#: Characters of a notification: no desktop shows more.
_LONGEST = 300
#: Values of TERM_PROGRAM, and beginnings of TERM, of terminals that document `OSC 9 ; text`. Elsewhere
#: it stays off: consoles of older Linux kernels print it, and ConEmu reads `9 ; 1` as a command.
_OSC_9 = ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal")
_OSC_9_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm")
#: Those that document `OSC 777 ; notify ; title ; text`.
_OSC_777_TERMS = ("foot", "rxvt-unicode", "contour")
#: Terminals without any, whatever TERM_PROGRAM they inherit, and multiplexers, which drop it.
_NEVER_TERMS = ("linux", "dumb", "eterm", "vt", "tmux", "screen")


@dataclass(frozen=True, slots=True)
class NotifyOptions:
    """The notices that a user asks for."""

    #: By the bell and the desktop.
    in_terminal: bool = False
    #: The words of the user's command; empty without one.
    command: tuple[str, ...] = ()

    @property
    def is_asked(self) -> bool:
        """True where the user asks for any notice."""
        return self.in_terminal or bool(self.command)


NO_NOTICES = NotifyOptions()


def notification(sentence: str, environ: Mapping[str, str]) -> str:
    """Return the characters that notify the user of this terminal: the bell, and a notification where it has one."""
    return BELL + desktop_notification(sentence, environ)


def desktop_notification(sentence: str, environ: Mapping[str, str]) -> str:
    """Return the sequence of a desktop notification; empty where this terminal is not known to show one."""
    text, term = printable(sentence)[:_LONGEST], environ.get("TERM", "")
    if term.startswith(_NEVER_TERMS):
        return ""
    if environ.get("TERM_PROGRAM") in _OSC_9 or term.startswith(_OSC_9_TERMS):
        # ConEmu's commands begin with a digit; the title keeps a sentence from looking like one.
        return f"\x1b]9;{_TITLE}: {text}{_END}"
    if term.startswith(_OSC_777_TERMS):
        return f"\x1b]777;notify;{_TITLE};{text.replace(';', ',')}{_END}"
    return ""


TIMEOUT_S = 60.0


class NotifyCommand:
    """A command that gets each notice as its last argument and in its environment.

    on_failure: called with a sentence, from a thread of the command; each sentence once.
    """

    def __init__(
        self, words: Sequence[str], on_failure: Callable[[str], None], timeout_s: float = TIMEOUT_S
    ) -> None:
        self._words = tuple(words)
        self._on_failure = on_failure
        self._timeout_s = timeout_s
        self._reported: set[str] = set()
        self._thread: threading.Thread | None = None

    def run(self, sentence: str, variables: Mapping[str, str]) -> None:
        """Start the command in a thread. variables: its environment, over that of this process."""
        if self._thread and self._thread.is_alive():
            self._report("the notify command still runs: a notice was not passed on")
            return
        self._thread = threading.Thread(
            target=self._guarded, args=(sentence, variables), name="tfwatch-notify", daemon=True
        )
        with fails_open(self._report):
            self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Wait for the command, for at most this time; it outlives this process."""
        if self._thread and self._thread.is_alive():
            self._thread.join(timeout_s)

    def _guarded(self, sentence: str, variables: Mapping[str, str]) -> None:
        with fails_open(self._report):
            self._run(sentence, variables)

    def _run(self, sentence: str, variables: Mapping[str, str]) -> None:
        try:
            process = _start((*self._words, sentence), {**os.environ, **variables})
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._report(f"the notify command cannot start: {why or error}")
            return
        try:
            code = process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._report(f"the notify command was ended: it took longer than {self._timeout_s:g} s")
        else:
            if code:
                self._report(f"the notify command failed: exit code {code}")

    def _report(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._reported.add(sentence)
            self._on_failure(sentence)


def _start(words: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, without streams and without blocked signals."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    # Python in a forked child of a process that trains may deadlock: only where a signal is blocked,
    # beside a script.
    unblock = (lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ())) if blocked else None
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        words,
        env=environ,
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
        preexec_fn=unblock,
    )
