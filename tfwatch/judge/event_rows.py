"""The events of a run as rows, oldest first: each fact in one sentence, for every list that shows
events.

The facts are the run's events, its stalls, patterns and compiles, and known log lines. A row
becomes text only when it is asked for.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias, overload

from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.events import (
    AutopilotEnded,
    ExperimentBegan,
    ExperimentEnded,
    LossDiverged,
    LossRecovered,
    MoveJudged,
    is_of_experiment,
    without_experiments,
)
from tfwatch.core.knobs import KNOBS, epochs_until
from tfwatch.judge.effects import switch_text, tuner_text
from tfwatch.judge.effects.switch_text import comparison_line, setting_text
from tfwatch.judge.findings.log_lines import LogSummary, summarise_log
from tfwatch.judge.findings.loss import divergence_text, recovery_text
from tfwatch.judge.findings.machine import GPU
from tfwatch.judge.findings.situation import metric_name
from tfwatch.judge.steps.causes import LIMITS, STOPPED, join_piece
from tfwatch.judge.steps.fits import FitFigures
from tfwatch.judge.steps.patterns import Pattern, pattern_text
from tfwatch.judge.steps.spikes import Compiled
from tfwatch.judge.steps.stalls import Stall, StallGroup, period_text, split_periodic
from tfwatch.judge.whole_run import EpochSteps, epoch_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.view import RunView
    from tfwatch.runs.snapshot import Snapshot


#: The kinds of events in words, by their marks.
_KINDS = {
    **{knob.key: f"switch {knob.label}" for knob in KNOBS.values()},
    **{
        "S": "stall",
        "E": "epoch",
        "C": "compile",
        "A": "A/B test",
        "F": "autopilot",
        "Z": "sleep",
        "!": "trouble",
    },
    **{"H": "heat", "M": "swap", "X": "end"},
}


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row: seconds since the clock origin, the time of day, a letter, a sentence and its
    style."""

    at_s: float
    time: str
    mark: str
    text: str
    style: str = ""

    @property
    def searched_text(self) -> str:
        """The text that a filter looks at: with the kind of the event in words."""
        return f"{self.time} {_KINDS.get(self.mark, '')} {self.text}".lower()


#: The marks of an experiment and of the autopilot.
_EXPERIMENT, _AUTOPILOT = "A", "F"
#: When a requested setting takes effect, by the number of epoch starts until then.
_WHEN = ("", ", from the next epoch", ", after an epoch has filled it")
#: The shortest pause that gets a row.
_PAUSED_MS = 200.0
#: A shorter sleep shows its length, not its times of day.
_SLEPT_MS = 60_000.0
#: The newest fits that have a row.
_MOST_FITS = 100
#: Mark, sentence, style.
RowText: TypeAlias = tuple[str, str, str]
#: The facts that can become a row.
RowSource: TypeAlias = (
    facts.Event | Stall | StallGroup | Pattern | Compiled | LogSummary | FitFigures
)


def describe_finding(what: Stall | Pattern | Compiled) -> RowText:
    """Describe a stall, a pattern of stalls or a compile."""
    if isinstance(what, Compiled):
        again = f"retraced at step {units.count(what.step)}" if what.again else "compiled"
        return "C", f"{again} in {units.seconds(what.took_ms / 1e3)}, not counted", ""
    if isinstance(what, Pattern):
        return "S", f"{pattern_text(what)}, from step {units.count(what.step)} on", "$text-error"
    cause = "" if what.cause == "unexplained" else f", {what.cause}"
    text = (
        f"no batch for {units.seconds(what.lost_ms / 1e3)} at step {units.count(what.step)}{cause}"
    )
    return "S", text, "$text-error"


def describe_periodic(group: StallGroup, steps_per_epoch: int | None) -> RowText:
    """Describe stalls that recur: the figures come first, because a narrow pane cuts the end."""
    every = period_text(group.period, steps_per_epoch)
    cause = group.stalls[0].cause
    why = "" if cause == "unexplained" else f", {cause}"
    times = units.counted(len(group.stalls), "stall")
    text = (
        f"{times}, {every}: {units.seconds(group.lost_ms / 1e3)} without a batch{why} (S lists"
        " them)"
    )
    return "S", text, "$text-error"


def describe_switch(event: facts.PipelineSwitched, comparison: Comparison | None) -> RowText:
    """Describe a switch and its effect."""
    letter = KNOBS[event.knob].key
    if comparison:
        return letter, comparison_line(comparison), "$text-accent"
    where = f"at step {units.count(event.step)}"
    return (
        letter,
        f"{setting_text(event.knob, event.old)} > {event.new} {where}",
        "$text-accent",
    )


def describe_request(event: facts.SwitchAsked) -> RowText:
    """Describe a requested switch."""
    when = _WHEN[min(event.epochs or epochs_until(event.knob, event.new), len(_WHEN) - 1)]
    return (
        KNOBS[event.knob].key,
        f"{setting_text(event.knob, event.old)} → {event.new} requested{when}",
        "",
    )


def describe_missed_switch(event: facts.SwitchMissed) -> RowText:
    """Describe a switch that the run ended too early for."""
    return (
        KNOBS[event.knob].key,
        switch_text.missed_switch_text(event),
        "$text-warning",
    )


def describe_epoch(
    event: facts.EpochEnded, steps: EpochSteps | None, validation_ms: float | None
) -> RowText:
    """Describe an epoch: its steps, then its metrics, validation first: a narrow pane cuts the
    end."""
    validation_first = sorted(
        event.metrics.items(), key=lambda item: not item[0].startswith("val_")
    )
    figures = [] if steps is None else [steps.text]
    figures += [f"{metric_name(name)} {value:.3g}" for name, value in validation_first[:4]]
    if validation_ms is not None:
        figures.append(f"validation {units.seconds(validation_ms / 1e3)}")
    figures.append(f"to step {units.count(event.step)}")
    return "E", f"epoch {event.epoch + 1}: {', '.join(figures)}", ""


def describe_sleep(event: facts.Slept, snapshot: Snapshot) -> RowText:
    """Describe a sleep of the machine by its times of day; a short one by its length."""
    if event.slept_ms < _SLEPT_MS:
        return "Z", f"asleep for {units.seconds(event.slept_ms / 1e3)}, not counted", ""
    # The run's clock stops in a sleep: the moment just before it is the time of falling asleep.
    began, woke = (
        f"{snapshot.local_time((event.at_ns - before) / 1e9):%H:%M}" for before in (1000, 0)
    )
    return "Z", f"asleep {began} - {woke}, not counted", ""


def describe_log_lines(what: LogSummary) -> RowText:
    """Describe known lines of TensorFlow's log."""
    if what.harmless:
        return ".", f"{what.text} (5 log)", ""
    return ".", f"TensorFlow (5 log): {what.text}", "$text-warning"


def describe_limit(event: facts.Paused) -> RowText:
    """Describe a stretch of heat or swapping."""
    took = units.seconds(event.took_ms / 1e3)
    letter, _ = LIMITS[event.cause]
    if event.cause == "swap":
        return letter, f"swapping for {took}: memory was too small", "$text-warning"
    why = f" ({event.detail})" if event.detail else ""
    return letter, f"slowed by heat for {took}{why}", "$text-warning"


def describe_event(event: facts.Event) -> RowText | None:
    """Describe an event that needs no other data; None for an event without a row."""
    match event:
        case ExperimentBegan():
            return (
                _EXPERIMENT,
                f"A/B test: {tuner_text.subject_text(event.knob, event.values)}",
                "$text-accent",
            )
        case ExperimentEnded():
            return _EXPERIMENT, tuner_text.experiment_line(event), "$text-accent"
        case MoveJudged():
            return (
                _AUTOPILOT,
                tuner_text.judged_move_text(event),
                "" if event.kept else "$foreground 65%",
            )
        case AutopilotEnded():
            return _AUTOPILOT, tuner_text.autopilot_end_text(event), "$text-accent"
        case facts.StopRefused():
            return ".", f"not stopped: {event.reason}", "$text-warning"
        case facts.TunerLost():
            return ".", tuner_text.TUNER_LOST, "$text-warning"
        case facts.SwitchFailed():
            return KNOBS[event.knob].key, switch_text.failed_switch_text(event), "$text-warning"
        case facts.SensorMissing():
            return (
                ".",
                f"{event.sensor} n/a: {event.reason}{f'; {event.fix}' if event.fix else ''}",
                "",
            )
        case facts.GpuFound():
            first = f", the first of {event.gpus}" if event.gpus > 1 else ""
            return ".", f"{event.name}{first}: figures from {event.source}", ""
        case facts.GpusFound():
            return ".", f"{len(event.names)} GPUs of the strategy: {', '.join(event.names)}", ""
        case facts.Paused() if event.took_ms >= _PAUSED_MS and event.cause not in (
            "CPU contention",
            *LIMITS,
        ):
            took = units.seconds(event.took_ms / 1e3)
            if event.cause == STOPPED:
                where = f" {event.detail}" if event.detail else ""
                return ".", f"paused for {took}{where}: the process was stopped", ""
            name = f"{event.cause} {event.detail}".strip()
            return ".", f"paused for {took} by {name}", ""
        case facts.Noted():
            return ".", event.text, ""
    return _describe_trouble(event)


def _describe_trouble(event: facts.Event) -> RowText | None:
    match event:
        case facts.RecordingLost():
            text = f"not recorded from step {units.count(event.step)} on: {event.reason}"
            return "!", text, "$text-error"
        case facts.RecordingResumed():
            return "!", "recording again; the rows kept in memory are now on disk", ""
        case facts.WatchFailed():
            return "!", f"tfwatch failed and stopped measuring: {event.reason}", "$text-error"
        case LossDiverged():
            return "!", divergence_text(event), "$text-error"
        case LossRecovered():
            return "!", recovery_text(event), ""
        case facts.TrainingFailed():
            return "X", f"failed at step {units.count(event.step)}: {event.error}", "$text-error"
        case facts.RunEnded():
            detail = f": {event.detail}" if event.detail else ""
            return "X", f"{event.cause} after {units.counted(event.steps, 'step')}{detail}", ""
    return None


#: Seconds since the clock origin, the fact, and the milliseconds of an epoch's validation.
_Timed: TypeAlias = tuple[float, RowSource, float | None]
#: Events whose rows need other data.
_NEEDING_MORE = (facts.PipelineSwitched, facts.SwitchMissed, facts.EpochEnded, facts.Slept)


class EventCollector:
    """Collects the facts with a row while the run goes on."""

    def __init__(self) -> None:
        self._events: list[_Timed] = []
        self._limits: list[facts.Paused] = []
        self._taken = 0
        self._trains = False
        self._has_gpu = False
        self._validated: facts.ValidationEnded | None = None

    def take(self, view: RunView) -> EventRows:
        """Return the rows of a view, oldest first; every call passes the same run."""
        for event in view.snapshot.events[self._taken :]:
            self._add(event)
        self._taken = len(view.snapshot.events)
        rows = self._events.copy()
        for timed in (
            *_find_provisional(view),
            *((limit.at_ns / 1e9, limit, None) for limit in self._limits),
        ):
            insort(rows, timed, key=itemgetter(0))
        return EventRows(rows, view.snapshot, view.comparisons)

    def _add(self, event: facts.Event) -> None:
        took_ms = None
        self._trains = self._trains or isinstance(event, facts.EpochStarted)
        if isinstance(event, facts.Paused) and not self._trains:
            return  # a pause in the import delays no step
        self._has_gpu = self._has_gpu or isinstance(event, facts.GpuFound)
        if isinstance(event, facts.SensorMissing) and not self._was_read(event):
            return  # a figure that the machine never had is no news; the key n lists it
        if isinstance(event, facts.ValidationEnded):
            self._validated = event
        elif (
            isinstance(event, facts.EpochEnded)
            and self._validated
            and self._validated.epoch == event.epoch
        ):
            took_ms = self._validated.took_ms
        elif isinstance(event, facts.Paused) and event.cause in LIMITS:
            join_piece(self._limits, event)
        if (isinstance(event, _NEEDING_MORE) or describe_event(event)) and not is_of_experiment(
            event
        ):
            insort(self._events, (event.at_ns / 1e9, event, took_ms), key=itemgetter(0))

    def _was_read(self, missing: facts.SensorMissing) -> bool:
        return self._has_gpu if missing.sensor == GPU else self._trains


def _find_provisional(view: RunView) -> Iterator[_Timed]:
    """Find the facts that later frames may change: findings in the steps so far, and requests that
    still wait."""
    periodic, single = split_periodic(view.stalls)
    yield from ((stall.start_ns / 1e9, stall, None) for stall in single)
    yield from ((group.stalls[-1].start_ns / 1e9, group, None) for group in periodic)
    yield from ((pattern.start_ns / 1e9, pattern, None) for pattern in view.patterns)
    yield from (
        ((compiled.start_ns / 1e6 + compiled.took_ms) / 1e3, compiled, None)
        for compiled in view.compiles
    )
    yield from (
        (_moment(view.snapshot, one.wall_s), one, None) for one in summarise_log(view.log_findings)
    )
    if view.fit > 1:
        origin_s = view.snapshot.manifest.origin_wall_ns / 1e9
        yield from ((fit.end_s - origin_s, fit, None) for fit in view.fits[-_MOST_FITS:])
    waiting = {state.asked_s for state in view.knobs.values() if state.asked is not None}
    if waiting:
        asked = without_experiments(view.snapshot.events.of(facts.SwitchAsked))
        yield from (
            (event.at_ns / 1e9, event, None) for event in asked if event.at_ns / 1e9 in waiting
        )


def _moment(snapshot: Snapshot, wall_s: float | None) -> float:
    """Return seconds since the clock origin; 0 for a line without a time."""
    at_s = 0.0 if wall_s is None else wall_s - snapshot.manifest.origin_wall_ns / 1e9
    return min(max(at_s, 0.0), snapshot.now_s)


class EventRows(Sequence[EventRow]):
    """The rows, sorted by time."""

    def __init__(
        self, rows: list[_Timed], snapshot: Snapshot, comparisons: Sequence[Comparison]
    ) -> None:
        self._rows = rows
        self._snapshot = snapshot
        self._switches = {(c.step, c.knob): c for c in comparisons}

    def __len__(self) -> int:
        return len(self._rows)

    def with_text(self, wanted: str) -> EventRows:
        """Return the rows whose time, kind or sentence contains a text, in any case."""
        wanted = wanted.lower()
        matching = [timed for timed in self._rows if wanted in self._make_row(*timed).searched_text]
        return EventRows(matching, self._snapshot, tuple(self._switches.values()))

    @overload
    def __getitem__(self, at: int) -> EventRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[EventRow]: ...
    def __getitem__(self, at: int | slice) -> EventRow | list[EventRow]:
        if isinstance(at, slice):
            return [self._make_row(*timed) for timed in self._rows[at]]
        return self._make_row(*self._rows[at])

    def _make_row(self, at_s: float, what: RowSource, validation_ms: float | None) -> EventRow:
        time = f"{self._snapshot.local_time(at_s):%H:%M:%S}"
        return EventRow(at_s, time, *self._describe(what, validation_ms))

    def _describe(self, what: RowSource, validation_ms: float | None) -> RowText:
        match what:
            case facts.PipelineSwitched():
                return describe_switch(
                    what,
                    self._switches.get((what.step, what.knob)),
                )
            case facts.EpochEnded():
                steps = epoch_steps(self._snapshot.epochs, what)
                return describe_epoch(what, steps, validation_ms)
            case facts.SwitchMissed():
                return describe_missed_switch(what)
            case facts.SwitchAsked():
                return describe_request(what)
            case facts.Slept():
                return describe_sleep(what, self._snapshot)
            case facts.Paused() if what.cause in LIMITS:
                return describe_limit(what)
            case StallGroup():
                return describe_periodic(what, self._snapshot.manifest.steps_per_epoch)
            case Stall() | Pattern() | Compiled():
                return describe_finding(what)
            case LogSummary():
                return describe_log_lines(what)
            case FitFigures():
                return "E", what.words, "$text-accent"
        text = describe_event(what)
        assert text
        return text
