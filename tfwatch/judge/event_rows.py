"""The events of a run as rows, oldest first: each fact in one sentence, for every list that shows
events.

The facts are the run's events, its stalls, and known log lines. A row
becomes text only when it is asked for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.events import is_of_experiment, without_experiments
from tfwatch.core.knobs import KNOBS, WORKERS, epochs_until
from tfwatch.judge.effects import wording
from tfwatch.judge.effects.switching_state import AUTOPILOT_EVENTS, autopilot_runs
from tfwatch.judge.findings.situation import metric_name
from tfwatch.judge.log_lines import LogFinding
from tfwatch.judge.other_programs import beside_switch
from tfwatch.judge.steps.stalls import (
    CONTENTION,
    LIMITS,
    STOPPED,
    Stall,
    is_stall_of_callback,
    join_piece,
)
from tfwatch.judge.troubles import divergence_text, ignored_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.effects.switching_state import AutopilotRun
    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row: seconds since the clock origin, the time of day, a letter, a sentence and its
    style.

    brief: the sentence with fewer figures; empty where it has none to spare.
    """

    at_s: float
    time: str
    mark: str
    text: str
    style: str = ""
    brief: str = ""


#: The marks of an experiment and of the autopilot; and of what needs none on a time axis.
_EXPERIMENT, _AUTOPILOT, NO_MARK = "A", "F", "."
#: The marks of ends that are no failure.
_END_MARKS = {"finished": "✓", "stopped": NO_MARK}
#: The newest rows of a column of time that are looked at for one with a mark, and those that are
#: looked at for an epoch: no pane has more.
_MOST_IN_COLUMN, _MOST_IN_PANE = 3, 64
#: When a requested setting takes effect, by the number of epoch starts until then.
_WHEN = ("", ", from the next epoch", ", after an epoch has filled it")
#: The metrics of an epoch's row: the loss, and the first other one.
_METRICS = {"val_loss": 0, "loss": 1, "accuracy": 2}
#: The shortest pause that gets a row.
_PAUSED_MS = 200.0
#: Rows of steps hold the lower bits of an epoch's number.
_EPOCH_BITS = 0xFFFF
#: Mark, sentence, style.
RowText: TypeAlias = tuple[str, str, str]
#: The facts that can become a row.
RowSource: TypeAlias = facts.Event | Stall | LogFinding
#: Seconds since the clock origin, and the fact.
_Timed: TypeAlias = tuple[float, RowSource]
_BESIDE = ", beside other programs"
#: Styles of a switch or test, of trouble to look at, and of a loss.
_ACCENT, _WARNING, _ERROR = "$text-accent", "$text-warning", "$text-error"


# -- facts in words --------------------------------------------------------------------------------


def _describe_epoch(
    event: facts.EpochEnded, snapshot: Snapshot, *, is_brief: bool = False
) -> RowText:
    """Describe an epoch: its steps, then its losses and a metric, validation first: a narrow pane
    cuts the end. is_brief: with its step time and one loss alone."""
    sees_wait = snapshot.manifest.sees_data_wait
    figures = _steps_of_epoch(snapshot.epochs, event, sees_wait=sees_wait)
    metrics = sorted(event.metrics.items(), key=lambda item: _METRICS.get(item[0], len(_METRICS)))
    if is_brief:
        figures, metrics = figures[:1], metrics[:1]
    figures += [f"{metric_name(name)} {value:.4g}" for name, value in metrics[: len(_METRICS)]]
    validations = reversed(snapshot.events.of(facts.ValidationEnded))
    validation = next((one for one in validations if one.epoch == event.epoch), None)
    if validation and not is_brief:
        figures.append(f"validation {units.seconds(validation.took_ms / 1e3)}")
    return "E", f"epoch {event.epoch + 1}: {', '.join(figures)}", ""


def _steps_of_epoch(rows: Rows, ended: facts.EpochEnded, *, sees_wait: bool) -> list[str]:
    """Return `23.4 ms/step` and `data wait 41 %` of an epoch that ended; none without steps. rows:
    of `core.rows.EPOCH`."""
    at = int(np.searchsorted(rows["first_ns"], ended.at_ns, side="right")) - 1
    if at < 0 or int(rows["epoch"][at]) != ended.epoch & _EPOCH_BITS:
        return []
    row = rows[at]
    # Compute stands there without the copies.
    total_ms = sum(float(row[name]) for name in ("wait_ms", "compute_ms", "copy_ms", "host_ms"))
    share = float(row["wait_ms"]) / total_ms if total_ms > 0 and sees_wait else None
    return [f"{total_ms / int(row['steps']):.1f} ms/step", f"data wait {units.percent(share)}"]


def _describe_pause(event: facts.Paused) -> RowText | None:
    """Describe a long pause, or a stretch of heat or swapping; None for one that has no row."""
    took, detail = units.seconds(event.took_ms / 1e3), event.detail
    if event.cause == "swap":
        return LIMITS[event.cause][0], f"swapping for {took}: memory was too small", _WARNING
    if event.cause in LIMITS:
        why = f" ({detail})" if detail else ""
        return LIMITS[event.cause][0], f"slowed by heat for {took}{why}", _WARNING
    if event.took_ms < _PAUSED_MS or event.cause == CONTENTION:
        return None
    if event.cause == STOPPED:
        where = f" {detail}" if detail else ""
        return NO_MARK, f"paused for {took}{where}: the process was stopped", ""
    at = f", {event.place}" if event.place else ""
    by = f"{event.cause} {detail}".strip() + at
    if is_stall_of_callback(event):
        return "S", f"no step for {took}: {by}", _WARNING
    return NO_MARK, f"paused for {took} by {by}", ""


def _stall_text(stall: Stall, where: str = "") -> str:
    why = f": {stall.reason}" if stall.reason else ""
    return f"no batch for {units.seconds(stall.lost_ms / 1e3)}{where}{why}"


def _describe_step(what: RowSource) -> RowText | None:
    match what:
        case Stall():
            return "S", _stall_text(what, f" at step {units.count(what.step)}"), _ERROR
        case facts.Traced():
            again = f"traced again at step {units.count(what.step)}" if what.traces > 1 else ""
            took = f"{again or 'compiled'} in {units.seconds(what.took_ms / 1e3)}, not counted"
            return "C", f"{took}: {what.change}" if what.change else took, ""
        case facts.StepProfiled():
            steps = f"{units.counted(what.steps, 'step')} up to step {units.count(what.step)}"
            done = f"{steps} profiled; starting took {units.milliseconds(what.cost_ms)}"
            return NO_MARK, f"no profile: {what.missing}" if what.missing else done, ""
        case LogFinding():
            return NO_MARK, f"TensorFlow (5 log): {what.text}", _WARNING
        case facts.Paused():
            return _describe_pause(what)
        case facts.Slept():
            return "Z", f"asleep for {units.seconds(what.slept_ms / 1e3)}, not counted", ""
        case facts.Noted():
            return NO_MARK, what.text, ""
    return None


def _describe_switching(event: RowSource) -> RowText | None:
    match event:
        case facts.ExperimentBegan():
            subject = wording.subject_text(event.knob, event.values)
            return _EXPERIMENT, f"A/B test: {subject}", _ACCENT
        case facts.ExperimentEnded():
            subject = wording.subject_text(event.knob, event.values)
            return _EXPERIMENT, f"{subject}: {wording.kept_text(event)}", _ACCENT
        case facts.MoveJudged():
            return _AUTOPILOT, wording.move_line(event), "" if event.kept else "$foreground 65%"
        case facts.TunerLost():
            return NO_MARK, wording.TUNER_LOST, _WARNING
        case facts.SwitchFailed():
            goes_on = f"{wording.setting_text(event.knob, event.now)} continues"
            where = f"{event.change.words} at step {units.count(event.step)}"
            return KNOBS[event.knob].key, f"{where}: failed: {event.reason}; {goes_on}", _WARNING
        case facts.RandomDrawsAllowed():
            text = f"{other_draws_text(event)}, accepted by {event.by}: {event.reason}"
            return KNOBS[WORKERS].key, text, _WARNING
        case facts.SwitchAsked():
            when = _WHEN[min(event.epochs or epochs_until(event.knob, event.new), len(_WHEN) - 1)]
            return KNOBS[event.knob].key, f"{event.change.words} requested{when}", ""
    return None


def _describe_trouble(event: RowSource) -> RowText | None:
    match event:
        case facts.StopRefused():
            return NO_MARK, f"not stopped: {event.reason}", _WARNING
        case facts.RecordingLost():
            text = f"not recorded from step {units.count(event.step)} on: {event.reason}"
            return "!", text, _ERROR
        case facts.RecordingResumed():
            return "!", "recording again; the rows kept in memory are now on disk", ""
        case facts.WatchFailed():
            return "!", f"tfwatch failed and stopped measuring: {event.reason}", _ERROR
        case facts.LossDiverged():
            return "!", divergence_text(event), _ERROR
        case facts.TrainableIgnored():
            return NO_MARK, ignored_text(event), _WARNING
        case facts.TrainingFailed():
            return "X", f"failed at step {units.count(event.step)}: {event.error}", _ERROR
        case facts.RunEnded():
            after = f"after {units.counted(event.steps, 'step')}"
            if event.is_by_user:
                return NO_MARK, f"stopped by you {after}", ""
            detail = f": {event.detail}" if event.detail else ""
            return _END_MARKS.get(event.cause, "X"), f"{event.cause} {after}{detail}", ""
    return None


def _describe_plain(event: RowSource) -> RowText | None:
    return _describe_step(event) or _describe_switching(event) or _describe_trouble(event)


# -- the rows of a run -----------------------------------------------------------------------------

#: Events whose rows need other data.
_NEEDING_MORE = (facts.PipelineSwitched, facts.EpochEnded, facts.AutopilotEnded)


class EventCollector:
    """Collects the facts with a row while the run goes on."""

    def __init__(self) -> None:
        self._events: list[_Timed] = []
        self._limits: list[facts.Paused] = []
        self._taken = 0
        self._trains = False
        self._rows: EventRows | None = None
        self._made_of: tuple[object, ...] = ()

    def take(self, view: RunView) -> EventRows:
        """Return the rows of a view, oldest first: the same object while they are the same. Every
        call passes the same run."""
        waiting = tuple(state.asked for state in view.knobs.values())
        found = view.snapshot.events, view.situation.stalls, view.log_findings
        made_of = tuple(map(len, found)), view.comparisons, waiting
        if self._rows is None or made_of != self._made_of:
            self._made_of, self._rows = made_of, self._collect(view)
        return self._rows

    def _collect(self, view: RunView) -> EventRows:
        for event in view.snapshot.events[self._taken :]:
            self._add(event)
        self._taken = len(view.snapshot.events)
        rows = self._events.copy()
        limits = ((limit.at_ns / 1e9, limit) for limit in self._limits)
        for timed in (*_find_provisional(view), *limits):
            insort(rows, timed, key=itemgetter(0))
        return EventRows(rows, view.snapshot, view.comparisons)

    def _add(self, event: facts.Event) -> None:
        self._trains = self._trains or isinstance(event, facts.EpochStarted)
        if isinstance(event, facts.Paused) and event.cause in LIMITS and self._trains:
            join_piece(self._limits, event)
        elif self._has_row(event):
            insort(self._events, (event.at_ns / 1e9, event), key=itemgetter(0))

    def _has_row(self, event: facts.Event) -> bool:
        if isinstance(event, facts.SwitchAsked) or is_of_experiment(event):
            return False  # a request has a row while it waits
        if isinstance(event, facts.Paused) and not self._trains:
            return False  # a pause in the import delays no step
        return isinstance(event, _NEEDING_MORE) or _describe_plain(event) is not None


def _find_provisional(view: RunView) -> Iterator[_Timed]:
    """Find the facts that later frames may change: findings in the steps so far, and requests that
    still wait."""
    yield from ((stall.start_ns / 1e9, stall) for stall in view.situation.stalls)
    for line in view.log_findings:
        yield _moment(view.snapshot, line.wall_s), line
    waiting = {state.asked_s for state in view.knobs.values() if state.asked is not None}
    if waiting:
        asked = without_experiments(view.snapshot.events.of(facts.SwitchAsked))
        yield from ((one.at_ns / 1e9, one) for one in asked if one.at_ns / 1e9 in waiting)


def _moment(snapshot: Snapshot, wall_s: float | None) -> float:
    """Return seconds since the clock origin; 0 for a line without a time."""
    at_s = 0.0 if wall_s is None else wall_s - snapshot.manifest.origin_wall_ns / 1e9
    return min(max(at_s, 0.0), snapshot.now_s)


def _fact_of(what: RowSource) -> object:
    """Return what is equal for events that repeat one fact: epochs, stalls at one place, traces
    after the first."""
    match what:
        case facts.EpochEnded() | facts.StepProfiled(missing=""):
            return type(what)
        case facts.Traced() if what.traces > 1:
            return facts.Traced
        case Stall():
            return Stall, what.reason
        case facts.Paused():
            return facts.Paused, what.cause, what.detail, what.place
    return id(what)


class EventRows(Sequence[EventRow]):
    """The rows, sorted by time. has_steps: the sentences on switches have the steps of each."""

    def __init__(
        self,
        rows: list[_Timed],
        snapshot: Snapshot,
        comparisons: Sequence[Comparison],
        *,
        has_steps: bool = True,
    ) -> None:
        self._rows = rows
        self._has_steps = has_steps
        self._made: dict[int, EventRow] = {}
        self._snapshot = snapshot
        self._comparisons = comparisons
        self._switches = {(c.step, c.knob): c for c in comparisons}

    def __len__(self) -> int:
        return len(self._rows)

    def without_repeated(self) -> EventRows:
        """Return the newest rows: of those that repeat one fact the newest, none of a profile,
        which has a pane; these rows where they have no more."""
        newest = {_fact_of(timed[1]): timed for timed in self._rows[-_MOST_IN_PANE:]}
        newest.pop(facts.StepProfiled, None)
        kept = sorted(newest.values(), key=itemgetter(0))
        same = len(kept) == len(self._rows)
        return self if same else EventRows(kept, self._snapshot, self._comparisons)

    def newest_in_each(self, edges_s: Sequence[float]) -> list[EventRow]:
        """Return the newest row with a mark in each column of time; the edges rise."""
        ends = [bisect_left(self._rows, at_s, key=itemgetter(0)) for at_s in edges_s]
        newest = (self._newest_marked(first, end) for first, end in pairwise(ends) if first < end)
        return [row for row in newest if row]

    def _newest_marked(self, first: int, end: int) -> EventRow | None:
        rows = map(self.__getitem__, range(end - 1, max(first, end - _MOST_IN_COLUMN) - 1, -1))
        return next((row for row in rows if row.mark != NO_MARK), None)

    @overload
    def __getitem__(self, at: int) -> EventRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[EventRow]: ...
    def __getitem__(self, at: int | slice) -> EventRow | list[EventRow]:
        if isinstance(at, slice):
            return [self[n] for n in range(len(self._rows))[at]]
        at = range(len(self._rows))[at]
        if at not in self._made:
            at_s, what = self._rows[at]
            time = f"{self._snapshot.local_time(at_s):%H:%M:%S}"
            self._made[at] = EventRow(at_s, time, *self._describe(what), self._brief(what))
        return self._made[at]

    @cached_property
    def _autopilot_runs(self) -> Sequence[AutopilotRun]:
        return autopilot_runs(self._snapshot.events.of(*AUTOPILOT_EVENTS))

    def _autopilot_run(self, ended: facts.AutopilotEnded) -> AutopilotRun | None:
        return next((one for one in self._autopilot_runs if one.ended == ended), None)

    def _describe(self, what: RowSource) -> RowText:
        match what:
            case facts.PipelineSwitched():
                return KNOBS[what.knob].key, self._switch_text(what), _ACCENT
            case facts.EpochEnded():
                return _describe_epoch(what, self._snapshot)
            case facts.AutopilotEnded():
                run = self._autopilot_run(what)
                # A damaged run may lack its begin.
                said = wording.autopilot_text(run) if run else what.reason
                return _AUTOPILOT, f"autopilot: {said}", _ACCENT
        text = _describe_plain(what)
        assert text
        return text

    def _switch_text(self, what: facts.PipelineSwitched) -> str:
        known = self._switches.get((what.step, what.knob))
        beside = beside_switch(self._snapshot, what.at_ns)
        if known and not self._has_steps:
            outcome = wording.outcome_text(known, has_steps=False)
            return f"{what.change.words}: {outcome}{beside and _BESIDE}"
        where = f"{what.change.words} at step {units.count(what.step)}"
        return f"{where}: {wording.outcome_text(known)}{beside}" if known else where

    def _brief(self, what: RowSource) -> str:
        match what:
            case facts.PipelineSwitched() if known := self._switches.get((what.step, what.knob)):
                beside = beside_switch(self._snapshot, what.at_ns) and _BESIDE
                return f"{what.change.words}: {wording.brief_outcome_text(known)}{beside}"
            case facts.EpochEnded():
                return _describe_epoch(what, self._snapshot, is_brief=True)[1]
            case Stall():
                return _stall_text(what)
            case facts.AutopilotEnded():
                run = self._autopilot_run(what)
                # What it gained is in the sentence.
                return (
                    "" if run is None or run.kept else f"autopilot: {wording.autopilot_brief(run)}"
                )
            case facts.RandomDrawsAllowed():
                return f"{other_draws_text(what)}, accepted by {what.by}"
        return ""


#: Changes of settings.
_CHANGES = facts.PipelineSwitched, facts.SwitchFailed, facts.ExperimentEnded, facts.AutopilotEnded


def changes_of_run(run: Snapshot, comparisons: Sequence[Comparison]) -> EventRows:
    """Return the rows of the changes of a run's settings: switches, A/B tests, the autopilot."""
    events = without_experiments(run.events.of(*_CHANGES))
    return EventRows([(one.at_ns / 1e9, one) for one in events], run, comparisons)


def measured_changes_of_run(run: Snapshot, comparisons: Sequence[Comparison]) -> EventRows:
    """Return the rows of those that are measured, proved gains last: switches that are proved
    faster or slower and whose knob was not switched again, A/B tests, the autopilot. What the
    autopilot tried and undid is a part of its row."""
    runs = autopilot_runs(run.events.of(*AUTOPILOT_EVENTS))
    undone = set().union(*(one.undone for one in runs))
    last = {
        one.knob: one
        for one in comparisons
        if one.by != facts.AUTOPILOT
        or undone.isdisjoint({(one.knob, one.old), (one.knob, one.new)})
    }
    answers = {(one.step, one.knob): one.answer for one in last.values() if one.is_proved}
    gains = [one.ended for one in runs if one.kept]
    made = without_experiments(run.events.of(facts.PipelineSwitched))
    switched = [one for one in made if (one.step, one.knob) in answers]
    tested = run.events.of(facts.ExperimentEnded, facts.AutopilotEnded)

    def rank(row: _Timed) -> tuple[bool, float]:
        what = row[1]
        if isinstance(what, facts.PipelineSwitched):
            return answers[what.step, what.knob] == "faster", row[0]
        is_gain = isinstance(what, facts.ExperimentEnded) and what.answer == "faster"
        return is_gain or what in gains, row[0]

    rows: list[_Timed] = [(one.at_ns / 1e9, one) for one in (*switched, *tested)]
    return EventRows(sorted(rows, key=rank), run, comparisons, has_steps=False)


def other_draws_text(allowed: facts.RandomDrawsAllowed) -> str:
    """Return `other random draws from step 1 488 on`."""
    return f"other random draws from step {units.count(allowed.step + 1)} on"


def sentence_of(event: facts.Event, run: Snapshot) -> str:
    """Return the sentence of the row of an event that has one."""
    return EventRows([(event.at_ns / 1e9, event)], run, ())[0].text
