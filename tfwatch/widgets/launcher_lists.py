"""The launcher's lists: what can be trained, and the runs that can be seen again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.widgets.basics.row_list import Choices
from tfwatch.widgets.basics.text import column, plain, row, shortened

if TYPE_CHECKING:
    from textual.content import Content

    from tfwatch.core.start_knobs import StartKnob

_QUIET = "$foreground 65%"
_NAME_CELLS = 14
#: Cells from which a run's row has room for how it ended, and for its length.
_USUAL, _WIDE = 34, 60


@dataclass(frozen=True, slots=True)
class Trainable:
    """A workload: its name, what it shows, and its knobs.

    argument: what `tfwatch train` takes for it; empty where that is not known before it is asked for.
    """

    name: str
    line: str
    knobs: tuple[StartKnob, ...]
    argument: str


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
        name = shortened(one.name, _NAME_CELLS - 1)
        return row((name, self.mark(index) or "bold"), " " * (_NAME_CELLS - cell_len(name)), one.line)

    @property
    def chosen(self) -> Trainable:
        """The workload under the cursor."""
        return self.workloads[self.cursor]

    @property
    def cut(self) -> str:
        """What the row under the cursor has no room for; empty where it has."""
        width, line = self.scrollable_content_region.width, plain(self.chosen.line)
        if _NAME_CELLS + cell_len(line) <= width:
            return ""
        shows = line.rpartition(": ")[2]
        return next((words for words in (line, shows) if cell_len(words) < width), "")


class PastRunsPane(Choices):
    """The runs of the past, the newest first.

    Attributes:
        runs: those read so far. note: what is said where there is none. trouble: why there may be more, a row of its
            own below them.
    """

    runs: reactive[tuple[PastRun, ...]] = reactive(())
    note: reactive[str] = reactive("")
    trouble: reactive[str] = reactive("")

    def watch_runs(self) -> None:
        self.rows_replaced()

    def watch_note(self) -> None:
        self.rows_changed()

    def watch_trouble(self) -> None:
        self.rows_changed()

    def count(self) -> int:
        """How many runs there are; a row says so where there is none, or where there may be more."""
        return len(self.runs) + bool(self.trouble) or 1

    def row_at(self, index: int, width: int) -> Content:
        """When, what, how it ended, and how much of it the device starved."""
        if index >= len(self.runs):
            return row((self.trouble, "$text-error")) if self.trouble else row((self.note, _QUIET))
        run = self.runs[index]
        length = column(run.length, 24) if width >= _WIDE else ""
        name = shortened(run.workload, _NAME_CELLS - 2)
        share = "" if run.wait_share is None else units.percent(run.wait_share)
        return row(
            (f"{ago(run.age_s):<8}", _QUIET),
            (name, self.mark(index)),
            " " * (_NAME_CELLS - 1 - cell_len(name)),
            column(run.state, 10) if width >= _USUAL else "",
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
        return self.runs[self.cursor] if self.cursor < len(self.runs) else None
