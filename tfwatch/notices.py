"""Notices: a run ends, fails, or gets no batch. Decided here, and passed on by the bell, the
desktop and a command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.runs.snapshot import Snapshot


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
#: A run without a batch, or without a sign of life, for this long is stalled.
STALL_S = 30.0
#: A process that ends waits this long for the user's command; the command may take longer.
END_S = 2.0


class Notifier:
    """Follows one run, or the runs of one script, and passes their notices on.

    show: shows a sentence in the terminal; its second argument is what rings the bell there, empty
    where the user wants no notice in the terminal. A screen replaces it by its own.
    """

    def __init__(
        self,
        options: NotifyOptions,
        show: Callable[[str, str], None] = lambda _sentence, _bell: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.show = show
        self.is_on = options.is_asked
        self._environ = environ
        self._in_terminal = options.in_terminal
        self._failures: deque[str] = deque()
        self._was_running = self._was_stalled = False
        self._command = (
            NotifyCommand(options.command, self._failures.append) if options.command else None
        )

    @property
    def rings(self) -> bool:
        """True where notices ring the terminal's bell."""
        return self.is_on and self._in_terminal

    def stop(self, why: str) -> None:
        """Stop for good, for this reason: a defect would be reported with every frame."""
        self.is_on = False
        self._failures.append(f"no more notices: {why}")

    def look(
        self, snapshot: Snapshot, situation: Situation, finding: Finding, *, ends: bool = True
    ) -> None:
        """Pass on what is due. ends: the end of the run is one, unless the user stopped it."""
        if not self.is_on:
            return
        with fails_open(self.stop):
            if cause := self._decide(situation, ends and situation.stopping_s is None):
                title = f"{snapshot.manifest.workload}: {finding.word}"
                folder = str(snapshot.folder.absolute()) if snapshot.folder else ""
                self._pass_on(cause, f"{title}: {finding.brief or finding.sentence}", folder)

    def follow(self, snapshot: Snapshot, *, ends: bool = True) -> None:
        """Pass on what is due where no screen judges the run."""
        from tfwatch.judge.banner import banner
        from tfwatch.judge.findings.situation import Situation, at_this_moment

        with fails_open(self.stop):
            situation = at_this_moment(Situation(snapshot.manifest, live=False), snapshot)
            self.look(snapshot, situation, banner(situation, ()), ends=ends)

    def script_ended(self, state: str) -> None:
        """Pass on that a script ended. state: in words, e.g. `script ended, exit code 0`."""
        if self.is_on:
            with fails_open(self.stop):
                self._pass_on("end", state, "")

    def take_failures(self) -> list[str]:
        """Return what went wrong since the last call, in sentences."""
        return [self._failures.popleft() for _ in range(len(self._failures))]

    def close(self) -> None:
        """Wait a moment for the user's command."""
        if self._command:
            self._command.wait(END_S)

    def _decide(self, now: Situation, ends: bool) -> str:
        """Return `end` or `stall` at their first look; else an empty string.

        A run that was over before the first look has no end.
        """
        if now.life in ("ended", "killed"):
            was_running, self._was_running = self._was_running, False
            return "end" if was_running and ends else ""
        self._was_running = True
        was_stalled, self._was_stalled = self._was_stalled, _is_stalled(now)
        return "stall" if self._was_stalled and not was_stalled else ""

    def _pass_on(self, cause: str, sentence: str, folder: str) -> None:
        sentence = printable(sentence)
        if self._command:
            self._command.run(
                sentence,
                {"TFWATCH_NOTICE": sentence, "TFWATCH_CAUSE": cause, "TFWATCH_RUN": folder},
            )
        self.show(sentence, notification(sentence, self._environ) if self._in_terminal else "")


def _is_stalled(now: Situation) -> bool:
    if now.life == "not responding":
        return now.silent_s >= STALL_S
    return now.is_stalled and now.phase_s >= STALL_S


BELL = "\a"
#: Characters of a notification: no desktop shows more.
_LONGEST = 300
#: Values of TERM_PROGRAM, and beginnings of TERM, of terminals that document `OSC 9 ; text`.
#: Elsewhere it stays off: consoles of older Linux kernels print it, and ConEmu reads `9 ; 1` as a
#: command.
_OSC_9 = ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal")
_OSC_9_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm", "foot")
#: Terminals without any, whatever TERM_PROGRAM they inherit, and multiplexers, which drop it.
_NEVER_TERMS = ("linux", "dumb", "eterm", "vt", "tmux", "screen")


def notification(sentence: str, environ: Mapping[str, str]) -> str:
    """Return the characters that notify the user of this terminal: the bell, and a notification of
    the desktop where the terminal is known to show one."""
    term = environ.get("TERM", "")
    knows = environ.get("TERM_PROGRAM") in _OSC_9 or term.startswith(_OSC_9_TERMS)
    if not knows or term.startswith(_NEVER_TERMS):
        return BELL
    # ConEmu's commands begin with a digit; the title keeps a sentence from looking like one.
    return f"{BELL}\x1b]9;tfwatch: {printable(sentence)[:_LONGEST]}\x1b\\"


class NotifyCommand:
    """A command that gets each notice as its last argument and in its environment.

    on_failure: called with a sentence; each sentence once.
    """

    def __init__(self, words: Sequence[str], on_failure: Callable[[str], None]) -> None:
        self._words = tuple(words)
        self._on_failure = on_failure
        self._reported: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, sentence: str, variables: Mapping[str, str]) -> None:
        """Start the command. variables: its environment, over that of this process."""
        self.wait(0.0)
        if self._process:
            self._report("the notify command still runs: a notice was not passed on")
            return
        try:
            self._process = _start((*self._words, sentence), {**os.environ, **variables})
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._report(f"the notify command cannot start: {why or error}")

    def wait(self, timeout_s: float) -> None:
        """Wait for the command, for at most this time; it outlives this process."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process and (code := self._process.wait(timeout_s)):
                self._report(f"the notify command failed: exit code {code}")
            self._process = None

    def _report(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._reported.add(sentence)
            self._on_failure(sentence)


def _start(words: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, without streams and without blocked signals."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    # Python in a forked child of a process that trains may deadlock: only where a signal is
    # blocked, beside a script.
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
