"""Notices: a run begins to starve, gets no batch, has a loss of NaN, or ends. Decided here, once per cause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.findings.banner import banner, describe_bound
from tfwatch.analysis.findings.loss import divergence_text
from tfwatch.analysis.findings.situation import NOT_JUDGED, Banner
from tfwatch.analysis.steps.verdict import Bound, Judgement, Verdict
from tfwatch.analysis.tuning.tuner_text import AUTOPILOT_EVENTS, running_autopilot, running_experiment
from tfwatch.core.events import ExperimentBegan, ExperimentBlock, ExperimentEnded, PipelineSwitched
from tfwatch.core.rows import step_ms
from tfwatch.live.view import MeasuredSetting, at_this_moment, build_situation, judge_now

if TYPE_CHECKING:
    from tfwatch.analysis.findings.situation import Situation
    from tfwatch.runs.reader import Snapshot

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
        now = at_this_moment(build_situation(snapshot.manifest, snapshot.stages_found, setting), snapshot)
        recent, events = snapshot.steps[-_RECENT:], snapshot.events
        now = replace(
            now,
            median_step_ms=float(np.median(step_ms(recent))) if len(recent) else None,
            experiment=running_experiment(events.of(ExperimentBegan, ExperimentBlock, ExperimentEnded)),
            autopilot_run=running_autopilot(events.of(*AUTOPILOT_EVENTS)),
        )
        return now, banner(now)

    def _judge(self, snapshot: Snapshot) -> Judgement:
        switches = len(snapshot.events.of(PipelineSwitched))
        before = self._judgement if switches == self._switches else NOT_JUDGED
        self._judgement, self._switches = judge_now(snapshot, before), switches
        return self._judgement
