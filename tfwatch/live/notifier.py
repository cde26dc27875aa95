"""Passes the notices of a run on: to its user's terminal and to the user's own command."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open, printable
from tfwatch.live.notices import Cause, LightFollower, Notice, NoticeDecider
from tfwatch.terminal.notification import desktop_notification, notification
from tfwatch.terminal.notify_command import NotifyCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.analysis.findings.situation import Banner, Situation
    from tfwatch.runs.reader import Snapshot
    from tfwatch.terminal.notification import NotifyOptions

#: A process that ends waits this long for the user's command; the command may take longer.
END_S = 2.0


class Notifier:
    """Follows one run, or the runs of one script, and passes their notices on while it is on.

    show: shows a sentence in the terminal; its second argument is what rings the bell there, empty where the user
    wants no notice in the terminal. A screen replaces it by its own.
    was_running: the run is this process' own, whose end is noticed also where it comes before the first look.
    """

    def __init__(
        self,
        options: NotifyOptions,
        show: Callable[[str, str], None] = lambda _sentence, _bell: None,
        clock: Clock = SYSTEM,
        environ: Mapping[str, str] = os.environ,
        *,
        was_running: bool = False,
    ) -> None:
        self.show = show
        self.is_on = options.is_asked
        self.options = options
        self._clock = clock
        self._environ = environ
        self._in_terminal = options.in_terminal or not options.command
        self._decider = NoticeDecider(options.after_s, was_running=was_running)
        self._light = LightFollower()
        self._failures: deque[str] = deque()
        self._is_broken = False
        self._command = NotifyCommand(options.command, self._failures.append) if options.command else None

    @property
    def rings(self) -> bool:
        """True where notices ring the terminal's bell."""
        return self.is_on and self._in_terminal

    def stop(self, why: str) -> None:
        """Stop for good, for this reason: a defect would be reported with every frame."""
        self._is_broken, self.is_on = True, False
        self._failures.append(f"no more notices: {why}")

    def toggle(self) -> None:
        """Turn the notices on or off."""
        self.is_on = not self.is_on and not self._is_broken

    def describe(self) -> str:
        """Return whether notices are on, in words."""
        if not self.is_on:
            return "notices are off"
        ways = ["the bell"] if self._in_terminal else []
        ways += ["the desktop"] if self._in_terminal and desktop_notification("", self._environ) else []
        ways += ["your command"] if self._command else []
        lasting = f"starving or without a batch for {self.options.after_s:g} s"
        return f"notices by {' and '.join(ways)}: {lasting}, loss NaN, the end"

    def look(self, snapshot: Snapshot, situation: Situation, finding: Banner, *, ends: bool = True) -> None:
        """Pass on what is due. ends: the end of the run is noticed, unless the user of this screen stopped it."""
        if self._is_broken:
            return
        with fails_open(self.stop):
            for notice in self._decider.take(situation, finding, self._clock.now_ns() / 1e9):
                is_expected = not ends or situation.stopping_s is not None
                if notice.cause is not Cause.END or not is_expected:
                    self._pass_on(notice, snapshot.manifest.title, snapshot)

    def follow(self, snapshot: Snapshot, *, ends: bool = True) -> None:
        """Judge a snapshot where no screen does, and pass on what is due."""
        with fails_open(self.stop):
            self.look(snapshot, *self._light.follow(snapshot), ends=ends)

    def script_ended(self, state: str) -> None:
        """Pass on that a script ended. state: in words, e.g. `script ended, exit code 0`."""
        with fails_open(self.stop):
            self._pass_on(Notice(Cause.END, state), "", None)

    def take_failures(self) -> list[str]:
        """Return what went wrong since the last call, in sentences."""
        return [self._failures.popleft() for _ in range(len(self._failures))]

    def close(self) -> None:
        """Wait a moment for the user's command."""
        if self._command:
            self._command.wait(END_S)

    def _pass_on(self, notice: Notice, title: str, snapshot: Snapshot | None) -> None:
        if not self.is_on:
            return
        sentence = printable(f"{title}: {notice.sentence}" if title else notice.sentence)
        if self._command:
            folder = str(snapshot.folder.absolute()) if snapshot and snapshot.folder else ""
            variables = {"TFWATCH_NOTICE": sentence, "TFWATCH_CAUSE": notice.cause.value, "TFWATCH_RUN": folder}
            self._command.run(sentence, variables)
        self.show(sentence, notification(sentence, self._environ) if self._in_terminal else "")
