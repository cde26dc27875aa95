"""Notices: a run ends, fails, or gets no batch; passed on by bell, desktop and a command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


NO_NOTICES = NotifyOptions()
#: A run without a batch, or without a sign of life, for this long is stalled.
STALL_S = 30.0
#: A process that ends waits this long for the user's command; the command may take longer.
END_S = 2.0
BELL = "\a"
#: Characters of a notification: no desktop shows more.
_LONGEST = 300


def notification(sentence: str, environ: Mapping[str, str]) -> str:
    """Return the characters that notify the user of this terminal: the bell, and a notification of
    the desktop where the terminal documents `OSC 9 ; text`.

    Multiplexers drop it, older consoles print it, and ConEmu reads `9 ; 1` as a command: the title
    keeps a sentence from looking like one.
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM")
    is_known = program in ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal")
    if term.startswith(("xterm-kitty", "foot")) or (is_known and term.startswith("xterm")):
        return f"{BELL}\x1b]9;tfwatch: {printable(sentence)[:_LONGEST]}\x1b\\"
    return BELL


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
        self.is_on = options.in_terminal or bool(options.command)
        #: Notices ring the terminal's bell.
        self.rings = options.in_terminal
        self._options, self._environ = options, environ
        self._failures: list[str] = []
        self._was_running = self._was_stalled = False
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self, why: str) -> None:
        """Stop for good, for this reason: a defect would be reported with every frame."""
        self.is_on = False
        self._failures.append(f"no more notices: {why}")

    def look(
        self, snapshot: Snapshot, situation: Situation, finding: Finding, *, ends: bool = True
    ) -> None:
        """Pass on what is due. ends: the end of the run is one, unless the user stopped it."""
        from tfwatch.judge.banner import stall

        with fails_open(self.stop):
            if self.is_on and (cause := self._decide(situation, ends)):
                # The banner shows a stall like those before as the finding that it is.
                finding = stall(situation) if cause == "stall" and situation.is_stalled else finding
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
        with fails_open(self.stop):
            if self.is_on:
                self._pass_on("end", state, "")

    def take_failures(self) -> list[str]:
        """Return what went wrong since the last call, in sentences."""
        failures, self._failures = self._failures, []
        return failures

    def close(self) -> None:
        """Wait a moment for the user's command, which may outlive this process."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process and (code := self._process.wait(END_S)):
                self._failures.append(f"the notify command failed: exit code {code}")

    def _decide(self, now: Situation, ends: bool) -> str:
        """Return `end` or `stall` at their first look; else an empty string.

        A run that was over before the first look has no end.
        """
        if now.life in ("ended", "killed"):
            was_running, self._was_running = self._was_running, False
            return "end" if was_running and ends and now.stopping_s is None else ""
        was_stalled, self._was_running = self._was_stalled, True
        is_silent = now.life == "not responding" and now.silent_s >= STALL_S
        self._was_stalled = is_silent or (now.is_stalled and now.phase_s >= STALL_S)
        return "stall" if self._was_stalled and not was_stalled else ""

    def _pass_on(self, cause: str, sentence: str, folder: str) -> None:
        sentence = printable(sentence)
        if self._options.command:
            self._run(sentence, {"TFWATCH_CAUSE": cause, "TFWATCH_RUN": folder})
        self.show(sentence, notification(sentence, self._environ) if self.rings else "")

    def _run(self, sentence: str, variables: Mapping[str, str]) -> None:
        """Start the user's command with the sentence as its last argument, in a session of its
        own, without streams and without blocked signals."""
        blocked, nowhere = signal.pthread_sigmask(signal.SIG_BLOCK, ()), subprocess.DEVNULL
        # Python in a forked child of a process that trains may deadlock: only where a signal is
        # blocked, beside a script.
        unblock = (lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ())) if blocked else None
        try:
            self._process = subprocess.Popen(
                (*self._options.command, sentence),
                env={**os.environ, **variables},
                stdin=nowhere,
                stdout=nowhere,
                stderr=nowhere,
                start_new_session=True,
                preexec_fn=unblock,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = (isinstance(error, OSError) and error.strerror) or error
            self._failures.append(f"the notify command cannot start: {why}")
