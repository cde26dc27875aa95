"""The launcher's lists: workloads and recent runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.screens.basics.row_list import ChoiceList
from tfwatch.screens.basics.text import column, plain, row, shorten

if TYPE_CHECKING:
    from textual.content import Content

    from tfwatch.core.start_knobs import StartKnob
    from tfwatch.live.past_run import PastRun

_QUIET = "$foreground 65%"
_NAME_CELLS = 14
#: Cells from which a run's row has room for its state, and for its length.
_USUAL, _WIDE = 34, 60


@dataclass(frozen=True, slots=True)
class Trainable:
    """A workload: its name, its description in a line, and its knobs."""

    name: str
    line: str
    knobs: tuple[StartKnob, ...]


class WorkloadsPane(ChoiceList):
    """The workloads, a line each.

    Attributes:
        workloads: in display order.
    """

    workloads: reactive[tuple[Trainable, ...]] = reactive(())

    def watch_workloads(self) -> None:
        self.rows_replaced()

    def count(self) -> int:
        """Return the number of workloads."""
        return len(self.workloads)

    def row_at(self, index: int, width: int) -> Content:
        """Return the workload's name and description."""
        one = self.workloads[index]
        name = shorten(one.name, _NAME_CELLS - 1)
        return row(
            (name, self.mark(index) or "bold"), " " * (_NAME_CELLS - cell_len(name)), one.line
        )

    @property
    def chosen(self) -> Trainable:
        """The workload under the cursor."""
        return self.workloads[self.cursor]

    @property
    def hidden_line(self) -> str:
        """The description of the selected workload where its row cuts it; else empty."""
        width, line = self.scrollable_content_region.width, plain(self.chosen.line)
        if _NAME_CELLS + cell_len(line) <= width:
            return ""
        shows = line.rpartition(": ")[2]
        return next((words for words in (line, shows) if cell_len(words) < width), "")


class PastRunsPane(ChoiceList):
    """The recorded runs, newest first.

    Attributes:
        runs: the runs read so far. note: the text of an empty list. trouble: the reason why some runs cannot be read,
            in a row below the others.
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
        """Return the number of rows: the runs, and one for the note or the trouble."""
        return len(self.runs) + bool(self.trouble) or 1

    def row_at(self, index: int, width: int) -> Content:
        """Return the run's age, workload, state and starving share."""
        if index >= len(self.runs):
            return row((self.trouble, "$text-error")) if self.trouble else row((self.note, _QUIET))
        run = self.runs[index]
        length = column(run.length, 24) if width >= _WIDE else ""
        name = shorten(run.workload, _NAME_CELLS - 2)
        share = "" if run.wait_share is None else units.percent(run.wait_share)
        return row(
            (f"{units.age(run.age_s):<8}", _QUIET),
            (name, self.mark(index)),
            " " * (_NAME_CELLS - 1 - cell_len(name)),
            column(run.state, 10) if width >= _USUAL else "",
            (length, _QUIET),
            (f"{'starving ' if width >= _WIDE and share else ''}{share:>4}", "$text-warning"),
        )

    @property
    def hidden_note(self) -> str:
        """The meaning of the last column where the rows have no room for it."""
        return "%: starving" if self.runs and self.scrollable_content_region.width < _WIDE else ""

    @property
    def chosen(self) -> PastRun | None:
        """The run under the cursor; None without one."""
        return self.runs[self.cursor] if self.cursor < len(self.runs) else None
