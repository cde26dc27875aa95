"""Notices: a run begins to starve, gets no batch, has a loss of NaN, or ends. Decided and passed on here."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.findings.banner import banner, describe_bound
from tfwatch.analysis.findings.loss import divergence_text
from tfwatch.analysis.findings.situation import NOT_JUDGED, Banner
from tfwatch.analysis.steps.verdict import Bound, Judgement, Verdict
from tfwatch.analysis.tuning.tuner_text import (
    AUTOPILOT_EVENTS,
    running_autopilot,
    running_experiment,
)
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open, printable
from tfwatch.core.events import ExperimentBegan, ExperimentBlock, ExperimentEnded, PipelineSwitched
from tfwatch.core.rows import step_ms
from tfwatch.live.run_situation import MeasuredSetting, at_this_moment, build_situation, judge_now
from tfwatch.terminal.notification import NotifyCommand, desktop_notification, notification

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.analysis.findings.situation import Situation
    from tfwatch.runs.reading.reader import Snapshot
    from tfwatch.terminal.notification import NotifyOptions

#: A cause is quiet for this long after its notice; twice as long after each further one.
QUIET_S = 600.0
_RECENT = 64


class Cause(Enum):
    """The cause of a notice; its value is passed to the user's command."""

    STARVING = "starving"
    STALL = "stall"
    LOSS = "loss"
    END = "end"


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice. sentence: for people, with the figures."""

    cause: Cause
    sentence: str


class NoticeDecider:
    """Decides on the notices of one run, or of the runs of one script, one after another.

    A cause that goes on is noticed once; one that returns again and again, less and less often.
    after_s: the time that the run starves, or waits for one batch, until a notice. was_running: the run is known to
    have run, so its end is noticed at the first look too.
    """

    def __init__(self, after_s: float, *, was_running: bool = False) -> None:
        self._after_s = after_s
        self._alarms = {
            Cause.STARVING: _Alarm(after_s, after_s),
            Cause.STALL: _Alarm(0.0, 0.0),
            Cause.LOSS: _Alarm(0.0, after_s),
        }
        self._was_running = was_running

    def take(self, now: Situation, finding: Banner, at_s: float) -> list[Notice]:
        """Return the notices that are due. finding: of the situation. at_s: the time now, of any one clock."""
        if now.life in ("ended", "killed"):
            return self._end(finding)
        self._was_running = True
        holds = {
            Cause.STARVING: _is_starving(now),
            Cause.STALL: self._is_stalled(now),
            Cause.LOSS: now.diverged is not None,
        }
        due = [cause for cause, alarm in self._alarms.items() if alarm.take(holds[cause], at_s)]
        return [Notice(cause, _sentence(cause, now, finding)) for cause in due]

    def _end(self, finding: Banner) -> list[Notice]:
        """Return the notice of an end that was seen; a run that was over before has none."""
        was_running, self._was_running = self._was_running, False
        return [Notice(Cause.END, _words(finding))] if was_running else []

    def _is_stalled(self, now: Situation) -> bool:
        if now.life == "not responding":
            return now.silent_s >= self._after_s
        return now.is_stalled and now.phase_s >= self._after_s


class _Alarm:
    """A condition that is on once it holds for `on_after_s`, and off once it does not for `off_after_s`."""

    def __init__(self, on_after_s: float, off_after_s: float) -> None:
        self._after_s = {True: on_after_s, False: off_after_s}
        self._is_on = False
        self._changes_since_s: float | None = None
        self._is_announced = False
        self._quiet_until_s = float("-inf")
        self._quiet_s = QUIET_S

    def take(self, holds: bool, at_s: float) -> bool:
        """Return True where a notice is due."""
        self._update(holds, at_s)
        if not self._is_on or self._is_announced or at_s < self._quiet_until_s:
            return False
        self._is_announced = True
        self._quiet_until_s = at_s + self._quiet_s
        self._quiet_s *= 2
        return True

    def _update(self, holds: bool, at_s: float) -> None:
        if holds == self._is_on:
            self._changes_since_s = None
            return
        if self._changes_since_s is None:
            self._changes_since_s = at_s
        if at_s - self._changes_since_s >= self._after_s[holds]:
            self._is_on, self._changes_since_s, self._is_announced = holds, None, False


def _is_starving(now: Situation) -> bool:
    """Return whether the run is highly input-bound by itself: an A/B test and the autopilot try slow settings too."""
    is_tried = now.experiment is not None or now.autopilot_run is not None
    judgement = now.judgement
    return (
        judgement.verdict is Verdict.HIGHLY
        and judgement.bound is Bound.INPUT
        and not (is_tried or now.is_stalled)
        and now.life == "running"
    )


def _sentence(cause: Cause, now: Situation, finding: Banner) -> str:
    if cause is Cause.STARVING:
        return _words(describe_bound(now) or finding)
    if cause is Cause.LOSS and now.diverged is not None:
        return divergence_text(now.diverged)
    return _words(finding)


def _words(finding: Banner) -> str:
    return f"{finding.word}: {finding.brief or finding.sentence}"


class LightFollower:
    """Follows a run where no screen does: the situation without forecasts, comparisons and the list of stalls."""

    def __init__(self) -> None:
        self._judgement = NOT_JUDGED
        self._switches = 0

    def follow(self, snapshot: Snapshot) -> tuple[Situation, Banner]:
        """Return the situation of a snapshot and its finding."""
        setting = MeasuredSetting(self._judge(snapshot))
        now = at_this_moment(
            build_situation(snapshot.manifest, snapshot.stages_found, setting), snapshot
        )
        recent, events = snapshot.steps[-_RECENT:], snapshot.events
        now = replace(
            now,
            median_step_ms=float(np.median(step_ms(recent))) if len(recent) else None,
            experiment=running_experiment(
                events.of(ExperimentBegan, ExperimentBlock, ExperimentEnded)
            ),
            autopilot_run=running_autopilot(events.of(*AUTOPILOT_EVENTS)),
        )
        return now, banner(now)

    def _judge(self, snapshot: Snapshot) -> Judgement:
        switches = len(snapshot.events.of(PipelineSwitched))
        before = self._judgement if switches == self._switches else NOT_JUDGED
        self._judgement, self._switches = judge_now(snapshot, before), switches
        return self._judgement


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
        self._command = (
            NotifyCommand(options.command, self._failures.append) if options.command else None
        )

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
        ways += (
            ["the desktop"] if self._in_terminal and desktop_notification("", self._environ) else []
        )
        ways += ["your command"] if self._command else []
        lasting = f"starving or without a batch for {self.options.after_s:g} s"
        return f"notices by {' and '.join(ways)}: {lasting}, loss NaN, the end"

    def look(
        self, snapshot: Snapshot, situation: Situation, finding: Banner, *, ends: bool = True
    ) -> None:
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
            variables = {
                "TFWATCH_NOTICE": sentence,
                "TFWATCH_CAUSE": notice.cause.value,
                "TFWATCH_RUN": folder,
            }
            self._command.run(sentence, variables)
        self.show(sentence, notification(sentence, self._environ) if self._in_terminal else "")
