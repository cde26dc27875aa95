"""The launcher's lists: what can be trained, what it starts with, and the runs that can be seen again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.widgets.choices import ChoiceList
from tfwatch.widgets.text import plain, row

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.content import Content

_QUIET = "$foreground 65%"
_NAME_CELLS = 14
_KNOB_CELLS = 12
_VALUE_CELLS = 20
#: Cells from which a knob's row has room for what it is.
_TELLING = 52
#: Cells from which a run's row has room for how it ended, and for its length.
_USUAL, _WIDE = 34, 60


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a start knob, and the words of the command line that ask for it; none where it is the default."""

    shown: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartKnob:
    """What a workload can be started with. start: the place of the default among the values. note: what it is."""

    name: str
    values: tuple[Value, ...]
    start: int
    note: str


@dataclass(frozen=True, slots=True)
class Trainable:
    """A workload: its name, what it shows, and its knobs."""

    name: str
    line: str
    knobs: tuple[StartKnob, ...]


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that can be seen again.

    words: what `tfwatch replay` takes for it. age_s: seconds since it began. state: e.g. `finished`. length: its
    steps and how long they took, in words. wait_share: of its steady steps, 0 to 1; None where it is not known.
    """

    words: str
    workload: str
    age_s: float
    state: str
    length: str
    wait_share: float | None


def ago(seconds: float) -> str:
    """`now`, `12 min`, `3 h`, `5 days`."""
    for unit, size in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
    return "now"


class Choices(ChoiceList):
    """A list of the launcher; `Moved` says that its cursor did, `Entered` that its row is wanted."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "enter", "take it", show=False)]

    class Moved(Message):
        """The cursor stands on another row."""

    class Entered(Message):
        """The row under the cursor is wanted."""

    def on_mount(self) -> None:
        self.rows_changed()

    def moved(self) -> None:
        self.post_message(self.Moved())

    def chosen_again(self) -> None:
        self.action_enter()

    def action_enter(self) -> None:
        """Take the row under the cursor."""
        if self.count():
            self.post_message(self.Entered())

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _mark(self, index: int) -> str:
        """The style of a row's name: the cursor's row stands out, and more where the keys go."""
        if index != self.cursor:
            return ""
        return "reverse" if self.has_focus else "bold underline"


class WorkloadsPane(Choices):
    """The workloads, with a line each.

    Attributes:
        workloads: in the order in which they are listed.
    """

    workloads: reactive[tuple[Trainable, ...]] = reactive(())

    def watch_workloads(self) -> None:
        self.rows_replaced()

    def count(self) -> int:
        """How many workloads there are."""
        return len(self.workloads)

    def row_at(self, index: int, width: int) -> Content:
        """Its name and what it shows."""
        one = self.workloads[index]
        return row((one.name, self._mark(index) or "bold"), " " * (_NAME_CELLS - len(one.name)), (one.line, ""))

    @property
    def chosen(self) -> Trainable:
        """The workload under the cursor."""
        return self.workloads[self.cursor]

    @property
    def cut(self) -> str:
        """What the row under the cursor has no room for; empty where it has."""
        width, line = self.scrollable_content_region.width, self.chosen.line
        if _NAME_CELLS + len(line) <= width:
            return ""
        shows = line.rpartition(": ")[2]
        return next((words for words in (line, shows) if len(words) < width), "")


class StartPane(Choices):
    """The knobs that a workload starts with; left and right turn the one under the cursor.

    Attributes:
        knobs: of the chosen workload.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "the value before", show=False),
        Binding("right", "turn(1)", "the next value", show=False),
    ]

    knobs: reactive[tuple[StartKnob, ...]] = reactive(())

    def __init__(self) -> None:
        super().__init__()
        #: By workload and knob, the place of the value.
        self._turned: dict[tuple[str, str], int] = {}
        self._workload = ""

    def show(self, workload: Trainable) -> None:
        """Show a workload's knobs, as they were last turned."""
        self._workload = workload.name
        self.knobs = workload.knobs
        self.rows_replaced()

    def count(self) -> int:
        """How many knobs there are."""
        return len(self.knobs)

    def row_at(self, index: int, width: int) -> Content:
        """Its name, its value and what it is."""
        knob = self.knobs[index]
        at = self._at(knob)
        value = f"< {knob.values[at].shown} >"
        return row(
            (knob.name, self._mark(index)),
            " " * (_KNOB_CELLS - len(knob.name)),
            (f"{value:<{_VALUE_CELLS}}", "" if at == knob.start else "$accent bold"),
            (knob.note if width >= _TELLING else "", _QUIET),
        )

    @property
    def untold(self) -> str:
        """What the knob under the cursor is, where its row has no room for that."""
        narrow = self.scrollable_content_region.width < _TELLING
        return self.knobs[self.cursor].note if self.knobs and narrow else ""

    @property
    def words(self) -> tuple[str, ...]:
        """What the command line says of the knobs that are not at their defaults."""
        return tuple(word for knob in self.knobs for word in knob.values[self._at(knob)].words)

    def action_turn(self, places: int) -> None:
        """Take the next value of the knob under the cursor, or the one before it."""
        if self.knobs:
            knob = self.knobs[self.cursor]
            at = min(max(self._at(knob) + places, 0), len(knob.values) - 1)
            self._turned[self._workload, knob.name] = at
            self.rows_changed()
            self.moved()

    def _at(self, knob: StartKnob) -> int:
        return self._turned.get((self._workload, knob.name), knob.start)


class PastRunsPane(Choices):
    """The runs of the past, the newest first.

    Attributes:
        runs: those read so far. note: what is said where there is none.
    """

    runs: reactive[tuple[PastRun, ...]] = reactive(())
    note: reactive[str] = reactive("")

    def watch_runs(self) -> None:
        self.rows_replaced()

    def watch_note(self) -> None:
        self.rows_changed()

    def count(self) -> int:
        """How many runs there are; a row says so where there is none."""
        return len(self.runs) or 1

    def row_at(self, index: int, width: int) -> Content:
        """When, what, how it ended, and how much of it the device starved."""
        if not self.runs:
            return row((self.note, _QUIET))
        run = self.runs[index]
        length = f"{plain(run.length):<24}" if width >= _WIDE else ""
        share = "" if run.wait_share is None else units.percent(run.wait_share)
        return row(
            (f"{ago(run.age_s):<8}", _QUIET),
            (plain(run.workload), self._mark(index)),
            " " * max(1, _NAME_CELLS - 1 - len(run.workload)),
            f"{plain(run.state):<10}" if width >= _USUAL else "",
            (length, _QUIET),
            (f"{'starving ' if width >= _WIDE and share else ''}{share:>4}", "$text-warning"),
        )

    @property
    def untold(self) -> str:
        """What the last figure is, where the rows have no room for that."""
        return "%: starving" if self.runs and self.scrollable_content_region.width < _WIDE else ""

    @property
    def chosen(self) -> PastRun | None:
        """The run under the cursor; None where there is none."""
        return self.runs[self.cursor] if self.runs else None
