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
#: Terminals that document `OSC 9 ; text`, and those that document `OSC 777 ; notify ; title ; text`. Everywhere else it
#: stays off: consoles of older Linux kernels print it, and ConEmu reads `9 ; 1` as a command.
_OSC_9 = ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal")
_OSC_9_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm")
#: Variables that stay in the shells of tmux and screen, and that ssh may pass on.
_OSC_9_VARIABLES = ("KITTY_WINDOW_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "ITERM_SESSION_ID")
#: Terminals that have none of it, whatever variables their shells inherit, and multiplexers, which
#: drop it.
_NEVER_TERMS = ("linux", "dumb", "eterm", "vt", "tmux", "screen")
_OSC_777_TERMS = ("foot", "rxvt-unicode", "contour")
_OSC_777_VARIABLES = ("KONSOLE_VERSION",)


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
    text = printable(sentence)[:_LONGEST]
    if environ.get("TERM", "").startswith(_NEVER_TERMS):
        return ""
    if _has_osc_9(environ):
        # ConEmu's commands begin with a digit; the title keeps a sentence from looking like one.
        sequence = f"\x1b]9;{_TITLE}: {text}{_END}"
    elif _has_osc_777(environ):
        sequence = f"\x1b]777;notify;{_TITLE};{text.replace(';', ',')}{_END}"
    else:
        return ""
    return sequence


def _has_osc_9(environ: Mapping[str, str]) -> bool:
    return (
        environ.get("TERM_PROGRAM") in _OSC_9
        or environ.get("LC_TERMINAL") == "iTerm2"
        or environ.get("TERM") in _OSC_9_TERMS
        or any(environ.get(name) for name in _OSC_9_VARIABLES)
    )


def _has_osc_777(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "").startswith(_OSC_777_TERMS) or any(
        environ.get(name) for name in _OSC_777_VARIABLES
    )


#: Commands that run side by side; the next notice is not passed on.
MOST = 3
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
        self._threads: list[threading.Thread] = []

    def run(self, sentence: str, variables: Mapping[str, str]) -> None:
        """Start the command in a thread. variables: its environment, over that of this process."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= MOST:
            self._report(f"{MOST} notify commands still run: a notice was not passed on")
            return
        thread = threading.Thread(
            target=self._guarded, args=(sentence, variables), name="tfwatch-notify", daemon=True
        )
        with fails_open(self._report):
            thread.start()
            self._threads.append(thread)

    def wait(self, timeout_s: float) -> None:
        """Wait for the commands that run, for at most this time; they outlive this process."""
        for thread in self._threads:
            thread.join(timeout_s / MOST)

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
    """Start a command in a session of its own, without streams, and without signals that this thread blocks."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    # Python in a forked child of a process that trains may deadlock: only where a signal is blocked, beside a script.
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
