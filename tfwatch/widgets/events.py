"""The events: a row each, newest first, in words; choosing one looks at its moment.

What happened: the run's rare facts, newest first; choosing one looks at its moment.

What happened in words: a mark, a sentence and a style for each fact that is a row.

The run's events, and what was found in its steps, as rows of a list; put into words when they are drawn.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, ClassVar, TypeAlias, overload

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.analysis.findings.log_lines import Told, told
from tfwatch.analysis.findings.loss import diverged_words, recovered_words
from tfwatch.analysis.steps.causes import LIMITS, STOPPED, joined
from tfwatch.analysis.steps.patterns import Pattern, shape
from tfwatch.analysis.steps.spikes import Compiled
from tfwatch.analysis.steps.stalls import Stall
from tfwatch.analysis.tuning import search_text, switch_text
from tfwatch.analysis.tuning.switch_text import in_a_line, setting
from tfwatch.core import events as facts
from tfwatch.core import units
from tfwatch.core.events import (
    AutopilotEnded,
    ExperimentBegan,
    ExperimentEnded,
    LossDiverged,
    LossRecovered,
    MoveJudged,
    by_hand,
    of_experiment,
)
from tfwatch.core.knobs import KEYS, epochs_until, knob_name
from tfwatch.live.situation import metric_name
from tfwatch.widgets.basics.row_list import RowList
from tfwatch.widgets.basics.text import row
from tfwatch.widgets.timeline.picture import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual import events
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.live.view import RunView
    from tfwatch.runs.reader import Snapshot


@dataclass(frozen=True, slots=True)
class Happening:
    """One row: when (seconds since the clock origin, and the wall time in words), a letter, and a sentence."""

    at_s: float
    time: str
    mark: str
    text: str
    style: str = ""


class HappeningsPane(RowList):
    """Rows of `Happening`; `Chosen` tells the moment of the one that was clicked, entered or stepped to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "row up", show=False),
        Binding("down", "move(1)", "row down", show=False),
        Binding("pageup", "move(-10)", "page up", show=False),
        Binding("pagedown", "move(10)", "page down", show=False),
        Binding("enter", "choose", "look at that moment", show=False),
    ]

    #: Oldest first.
    happenings: reactive[Sequence[Happening]] = reactive((), repaint=False)
    #: Rows from the newest; -1 where none is chosen.
    cursor: reactive[int] = reactive(-1, repaint=False)

    @dataclass
    class Chosen(Message):
        """Somebody wants to look at a moment of the run, seconds since its clock origin."""

        at_s: float

    def on_mount(self) -> None:
        self.entitle("what happened", "enter jumps  [ ] next")

    def count(self) -> int:
        """How many things happened."""
        return len(self.happenings)

    def row_at(self, index: int, width: int) -> Content:
        """The `index`-th newest."""
        what = self.happenings[-1 - index]
        here = "reverse" if index == self.cursor else ""
        return row(
            (f"{what.time} ", f"$foreground 65% {here}".strip()),
            (f"{what.mark} ", "$accent bold"),
            (what.text, f"{what.style} {here}".strip()),
        )

    def watch_happenings(self, old: Sequence[Happening], new: Sequence[Happening]) -> None:
        if 0 <= self.cursor < len(old):
            at = _place(old[-1 - self.cursor], new)
            self.cursor = self.cursor if at is None else len(new) - 1 - at
        self.rows_changed()

    def watch_cursor(self) -> None:
        if self.cursor >= 0:
            self.scroll_to(y=max(0, self.cursor - self.size.height // 2), animate=False)
        self.repaint_rows()

    def action_move(self, rows: int) -> None:
        """Move the cursor, to older ones where positive."""
        self.cursor = min(max(self.cursor + rows, 0), self.count() - 1)

    def action_choose(self) -> None:
        """Look at the moment under the cursor."""
        if 0 <= self.cursor < self.count():
            self.post_message(self.Chosen(self.happenings[-1 - self.cursor].at_s))

    def follow(self) -> None:
        """Choose none any more, and show the newest as they come."""
        self.cursor = -1
        self.scroll_to(y=0, animate=False)

    def step(self, rows: int) -> bool:
        """Move the cursor and look there; False where there is no such row."""
        before = self.cursor
        self.action_move(rows)
        self.action_choose()
        return self.cursor != before

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.y + self.scroll_offset.y < self.count():
            self.cursor = at.y + self.scroll_offset.y
            self.action_choose()


def _place(what: Happening, rows: Sequence[Happening]) -> int | None:
    """Where a row stands among rows in the order of their times; None where it is not there any more."""
    at = bisect_left(rows, what.at_s, key=attrgetter("at_s"))
    while at < len(rows) and rows[at].at_s == what.at_s:
        if rows[at] == what:
            return at
        at += 1
    return None


#: The marks of an experiment and of the autopilot.
_EXPERIMENT, _AUTOPILOT = "A", "F"
#: When a setting that was asked for is in effect, by the times that an epoch has to begin until then.
_WHEN = ("", ", with the next epoch", ", once an epoch has filled it")
#: A pause this long is worth a row.
_PAUSED_MS = 200.0
#: A shorter sleep is told by its length alone.
_SLEPT_MS = 60_000.0
#: Mark, sentence, style.
Row: TypeAlias = tuple[str, str, str]
#: What can be a row.
Source: TypeAlias = facts.Event | Stall | Pattern | Compiled | Told


def found(what: Stall | Pattern | Compiled) -> Row:
    """What was found in the steps."""
    if isinstance(what, Compiled):
        again = f"retraced at step {units.count(what.step)}" if what.again else "compiled"
        return "C", f"{again} in {units.seconds(what.took_ms / 1e3)}, not counted", ""
    if isinstance(what, Pattern):
        return "S", f"{shape(what)}, from step {units.count(what.step)} on", "$text-error"
    cause = "" if what.cause == "unexplained" else f", {what.cause}"
    text = f"no batch for {units.seconds(what.lost_ms / 1e3)} at step {units.count(what.step)}{cause}"
    return "S", text, "$text-error"


def switched(event: facts.PipelineSwitched, comparison: Comparison | None, form: str) -> Row:
    """A switch, and what it gave; `form` names the pipeline's fast form."""
    letter = KEYS.get(event.knob, ".")
    if comparison:
        return letter, in_a_line(comparison, form), "$text-accent"
    where = f"at step {units.count(event.step)}"
    return letter, f"{setting(event.knob, event.old, form)} > {event.new} {where}", "$text-accent"


def asked(event: facts.SwitchAsked, form: str) -> Row:
    """A switch that waits; `form` names the pipeline's fast form."""
    when = _WHEN[epochs_until(event.knob, event.new)]
    return KEYS.get(event.knob, "."), f"{setting(event.knob, event.old, form)} > {event.new} asked{when}", ""


def missed(event: facts.SwitchMissed, form: str) -> Row:
    """A switch for which the run was too short; `form` names the pipeline's fast form."""
    return KEYS.get(event.knob, "."), switch_text.missed(event, form), "$text-warning"


def epoch(event: facts.EpochEnded, validation_ms: float | None) -> Row:
    """Its figures first: where the pane is narrow, the end is cut."""
    figures = [f"{metric_name(name)} {value:.3g}" for name, value in list(event.metrics.items())[:4]]
    if validation_ms is not None:
        figures.append(f"validation {units.seconds(validation_ms / 1e3)}")
    figures.append(f"to step {units.count(event.step)}")
    return "E", f"epoch {event.epoch + 1}: {', '.join(figures)}", ""


def slept(event: facts.Slept, snapshot: Snapshot) -> Row:
    """From when until when: the times of day of both its ends."""
    if event.slept_ms < _SLEPT_MS:
        return "Z", f"asleep for {units.seconds(event.slept_ms / 1e3)}, not counted", ""
    # The run's clock stood still: a moment before it is the time at which it fell asleep.
    began, woke = (f"{snapshot.local_time((event.at_ns - before) / 1e9):%H:%M}" for before in (1000, 0))
    advice = "" if snapshot.manifest.settings.get("keep_awake") else "; --keep-awake next time"
    return "Z", f"asleep {began} - {woke}, not counted{advice}", ""


def said(what: Told) -> Row:
    """What TensorFlow said."""
    if what.harmless:
        return ".", f"{what.text} (5 log)", ""
    return ".", f"TensorFlow (5 log): {what.text}", "$text-warning"


def limited(event: facts.Paused) -> Row:
    """Heat or swapping, all of one stretch."""
    took = units.seconds(event.took_ms / 1e3)
    letter, _ = LIMITS[event.cause]
    if event.cause == "swap":
        return letter, f"swapping for {took}: memory was too small", "$text-warning"
    why = f" ({event.detail})" if event.detail else ""
    return letter, f"held back by heat for {took}{why}", "$text-warning"


def plain_fact(event: facts.Event) -> Row | None:
    """A fact that needs nothing else to be told; None where it is no row of its own."""
    match event:
        case facts.ImportEnded():
            return ".", f"TensorFlow {event.tensorflow} imported in {units.seconds(event.took_ms / 1e3)}", ""
        case facts.DatasetReady():
            skipped = f", {event.skipped} skipped that cannot be read" if event.skipped else ""
            names = f": {', '.join(event.examples[:3])}" if event.examples else ""
            took = units.seconds(event.took_ms / 1e3)
            what = "data set" if event.images is None else f"{units.count(event.images)} images"
            return ".", f"{what} ready in {took}{skipped}{names}", ""
        case ExperimentBegan():
            return _EXPERIMENT, f"experiment: {search_text.subject(event.knob, event.values)}", "$text-accent"
        case ExperimentEnded():
            return _EXPERIMENT, search_text.in_a_line(event), "$text-accent"
        case MoveJudged():
            return _AUTOPILOT, search_text.judged_words(event), "" if event.kept else "$foreground 65%"
        case AutopilotEnded():
            return _AUTOPILOT, search_text.ended_words(event), "$text-accent"
        case facts.SwitchFailed():
            return (
                KEYS.get(event.knob, "."),
                f"{knob_name(event.knob)} not switched: {event.reason}",
                "$text-warning",
            )
        case facts.SensorMissing():
            return ".", f"{event.sensor} n/a: {event.reason}{f'; {event.fix}' if event.fix else ''}", ""
        case facts.GpuFound():
            first = f", the first of {event.gpus}" if event.gpus > 1 else ""
            return ".", f"{event.name}{first}: figures from {event.source}", ""
        case facts.Paused() if event.took_ms >= _PAUSED_MS and event.cause not in ("CPU contention", *LIMITS):
            took = units.seconds(event.took_ms / 1e3)
            if event.cause == STOPPED:
                where = f" {event.detail}" if event.detail else ""
                return ".", f"held up for {took}{where}: the process was stopped", ""
            name = f"{event.cause} {event.detail}".strip()
            return ".", f"held up for {took} by {name}", ""
        case facts.Noted():
            return ".", event.text, ""
    return _trouble(event)


def _trouble(event: facts.Event) -> Row | None:
    match event:
        case facts.RecordingLost():
            text = f"not recorded from step {units.count(event.step)} on: {event.reason}"
            return "!", text, "$text-error"
        case facts.RecordingResumed():
            return "!", "recording again; what was kept in memory is on disk", ""
        case facts.WatchFailed():
            return "!", f"tfwatch failed and measures no more: {event.reason}", "$text-error"
        case LossDiverged():
            return "!", diverged_words(event), "$text-error"
        case LossRecovered():
            return "!", recovered_words(event), ""
        case facts.TrainingFailed():
            return "X", f"failed at step {units.count(event.step)}: {event.error}", "$text-error"
        case facts.RunEnded():
            detail = f": {event.detail}" if event.detail else ""
            return "X", f"{event.cause} after {units.counted(event.steps, 'step')}{detail}", ""
    return None


#: Seconds since the clock origin, what happened, and how long an epoch's validation took.
_Timed: TypeAlias = tuple[float, Source, float | None]
#: Events that are rows, but not by themselves.
_WITH_MORE = (facts.PipelineSwitched, facts.SwitchMissed, facts.EpochEnded, facts.Slept)


class Happenings:
    """Everything worth a row, found as the run goes on."""

    def __init__(self) -> None:
        self._events: list[_Timed] = []
        self._limits: list[facts.Paused] = []
        self._taken = 0
        self._trains = False
        self._validated: facts.ValidationEnded | None = None

    def take(self, view: RunView) -> HappeningRows:
        """The rows of a view, oldest first; every call hands in the same run."""
        for event in view.snapshot.events[self._taken :]:
            self._add(event)
        self._taken = len(view.snapshot.events)
        rows = self._events.copy()
        for timed in (*_of_the_moment(view), *((limit.at_ns / 1e9, limit, None) for limit in self._limits)):
            insort(rows, timed, key=itemgetter(0))
        return HappeningRows(rows, view.snapshot, view.comparisons)

    def _add(self, event: facts.Event) -> None:
        took_ms = None
        self._trains = self._trains or isinstance(event, facts.EpochStarted)
        if isinstance(event, facts.Paused) and not self._trains:
            return  # what held an import up held no training up
        if isinstance(event, facts.ValidationEnded):
            self._validated = event
        elif isinstance(event, facts.EpochEnded) and self._validated and self._validated.epoch == event.epoch:
            took_ms = self._validated.took_ms
        elif isinstance(event, facts.Paused) and event.cause in LIMITS:
            joined(self._limits, event)
        if (isinstance(event, _WITH_MORE) or plain_fact(event)) and not of_experiment(event):
            insort(self._events, (event.at_ns / 1e9, event, took_ms), key=itemgetter(0))


def _of_the_moment(view: RunView) -> Iterator[_Timed]:
    """What another moment may tell otherwise: what was found in the steps so far, and what is asked and waits."""
    yield from ((stall.start_ns / 1e9, stall, None) for stall in view.stalls)
    yield from ((pattern.start_ns / 1e9, pattern, None) for pattern in view.patterns)
    yield from (((made.start_ns / 1e6 + made.took_ms) / 1e3, made, None) for made in view.compiles)
    yield from ((_moment(view.snapshot, one.wall_s), one, None) for one in told(view.said))
    waiting = {state.asked_s for state in view.knobs.values() if state.asked is not None}
    if waiting:
        asked = by_hand(view.snapshot.events.of(facts.SwitchAsked))
        yield from ((event.at_ns / 1e9, event, None) for event in asked if event.at_ns / 1e9 in waiting)


def _moment(snapshot: Snapshot, wall_s: float | None) -> float:
    """Seconds since the clock origin, which is taken where a line says no time."""
    at_s = 0.0 if wall_s is None else wall_s - snapshot.manifest.origin_wall_ns / 1e9
    return min(max(at_s, 0.0), snapshot.now_s)


class HappeningRows(Sequence[Happening]):
    """Rows in the order of their times."""

    def __init__(self, rows: list[_Timed], snapshot: Snapshot, comparisons: Sequence[Comparison]) -> None:
        self._rows = rows
        self._snapshot = snapshot
        self._switches = {(c.step, c.knob): c for c in comparisons}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Happening: ...
    @overload
    def __getitem__(self, at: slice) -> list[Happening]: ...
    def __getitem__(self, at: int | slice) -> Happening | list[Happening]:
        if isinstance(at, slice):
            return [self._worded(*timed) for timed in self._rows[at]]
        return self._worded(*self._rows[at])

    def _worded(self, at_s: float, what: Source, validation_ms: float | None) -> Happening:
        return Happening(at_s, clock(self._snapshot, at_s), *self._row(what, validation_ms))

    def _row(self, what: Source, validation_ms: float | None) -> Row:
        match what:
            case facts.PipelineSwitched():
                return switched(what, self._switches.get((what.step, what.knob)), self._snapshot.manifest.fast_form)
            case facts.EpochEnded():
                return epoch(what, validation_ms)
            case facts.SwitchMissed():
                return missed(what, self._snapshot.manifest.fast_form)
            case facts.SwitchAsked():
                return asked(what, self._snapshot.manifest.fast_form)
            case facts.Slept():
                return slept(what, self._snapshot)
            case facts.Paused() if what.cause in LIMITS:
                return limited(what)
            case Stall() | Pattern() | Compiled():
                return found(what)
            case Told():
                return said(what)
        row = plain_fact(what)
        assert row
        return row
