"""Notices: a run ends, fails, or gets no batch. Decided and passed on here."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from tfwatch.core.errors import fails_open, printable
from tfwatch.judge.findings.banner import banner
from tfwatch.judge.findings.situation import (
    NOT_JUDGED,
    MeasuredSetting,
    at_this_moment,
    build_situation,
)
from tfwatch.terminal.notification import NotifyCommand, notification

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.judge.findings.situation import Banner, Situation
    from tfwatch.runs.reading.reader import Snapshot
    from tfwatch.terminal.notification import NotifyOptions

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
        self, snapshot: Snapshot, situation: Situation, finding: Banner, *, ends: bool = True
    ) -> None:
        """Pass on what is due. ends: the end of the run is one, unless the user stopped it."""
        if not self.is_on:
            return
        with fails_open(self.stop):
            if cause := self._decide(situation, ends and situation.stopping_s is None):
                title = f"{snapshot.manifest.title}: {finding.word}"
                folder = str(snapshot.folder.absolute()) if snapshot.folder else ""
                self._pass_on(cause, f"{title}: {finding.brief or finding.sentence}", folder)

    def follow(self, snapshot: Snapshot, *, ends: bool = True) -> None:
        """Pass on what is due where no screen judges the run."""
        with fails_open(self.stop):
            measured = MeasuredSetting(NOT_JUDGED)
            situation = build_situation(snapshot.manifest, snapshot.stages_found, measured)
            situation = at_this_moment(situation, snapshot)
            self.look(snapshot, situation, banner(situation), ends=ends)

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
