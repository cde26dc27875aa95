"""The screen of a group: who is late, by how much and why, and a row for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters, on
from textual.binding import Binding
from textual.reactive import reactive
from textual.screen import Screen

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.groups.judged_group import stopped_ranks
from tfwatch.report.group_report import (
    COLUMNS,
    group_finding,
    group_markdown,
    group_title,
    rank_rows,
)
from tfwatch.runs.folder import DiskCall
from tfwatch.screens.basics.glyphs import QUIET_COLOUR, choose_glyphs
from tfwatch.screens.basics.keyline import Key, KeyLine
from tfwatch.screens.basics.pane import Pane, apply_glyphs
from tfwatch.screens.basics.row_list import ChoiceList
from tfwatch.screens.basics.text import column, row, spread, wrap_text
from tfwatch.screens.leave import Leave
from tfwatch.screens.live.banner import silence_of
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.groups.judged_group import JudgedGroup, RankState

#: While a rank trains the group is read again after a second, or so many times the CPU time of the
#: last read: 5 % of a core.
READ_S, TIMES = 1.0, 20.0


class GroupReader:
    """Reads a group in a thread of its own: a shared disk that hangs never blocks the keys.

    read: opens and judges the group. place: its folder, named while its disk does not respond.
    clock: measures how long a read has lasted.
    """

    def __init__(
        self, read: Callable[[], JudgedGroup], place: Path | None = None, clock: Clock = SYSTEM
    ) -> None:
        self._read, self._place, self._clock = read, place, clock
        self._found: JudgedGroup | None = None
        self._failed = ""
        self._call: DiskCall[None] | None = None
        self._next_ns = 0

    def wait(self, seconds: float) -> str:
        """Wait for the first answer, at most so long; return why the group cannot be read, empty
        where it may be."""
        if self._call:
            self._call.wait(seconds)
        return self._failed

    def take(self) -> JudgedGroup | None:
        """Return the newest judgement since the last call; None where there is no new one."""
        judged, self._found = self._found, None
        return judged

    def trouble(self) -> str:
        """Return why the judgement is not up to date; empty where it is."""
        return silence_of(self._place, self._call.silent_s if self._call else 0.0) or self._failed

    def begin(self) -> None:
        """Read the group in a thread, unless the last read still runs, or ended just now."""
        is_free = self._call is None or self._call.is_done
        if is_free and self._clock.now_ns() >= self._next_ns:
            self._call = DiskCall(self._run, self._clock, "tfwatch-group")

    def _run(self) -> None:
        failures: list[str] = []
        begun_ns = self._clock.thread_ns()
        with fails_open(failures.append):
            judged = self._read()
            group_markdown(judged)  # all that the screen shows is made here, not in the event loop
            self._found = judged
        self._failed = failures[0] if failures else ""
        took_ns = self._clock.thread_ns() - begun_ns
        self._next_ns = self._clock.now_ns() + max(round(READ_S * 1e9), round(TIMES * took_ns))


_TONES = {
    Tone.BAD: "$text-error bold",
    Tone.WARN: "$text-warning bold",
    Tone.GOOD: "$text-success bold",
    Tone.CALM: QUIET_COLOUR,
}


class GroupPane(Pane):
    """The workload that trains, and the finding on the group."""

    DEFAULT_CSS = """
    GroupPane { height: 7; padding: 0 1; }
    """

    #: The newest judgement.
    group: reactive[JudgedGroup | None] = reactive(None)
    #: Why it is not up to date; empty where it is.
    trouble: reactive[str] = reactive("")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        title = group_title(self.group) if self.group else ""
        name = self.group.group.folder.name if self.group else ""
        trouble = (self.trouble, "$text-error bold")
        note = row(trouble if self.trouble else (name, QUIET_COLOUR))
        first = spread(row(("tfwatch", "$accent bold"), f"  {title}"), note, width)
        return [first, *self._finding(width)][:height]

    def _finding(self, width: int) -> list[Content]:
        if self.group is None:
            return []
        tone, word, sentences = group_finding(self.group)
        lines = [piece for one in sentences for piece in wrap_text(one, width, "  ")]
        return [row((word, _TONES[tone])), *map(row, lines)]


class RankList(ChoiceList):
    """A row a rank; enter opens the rank's own screen."""

    def __init__(self) -> None:
        super().__init__()
        self._judged: JudgedGroup | None = None
        self._cells: list[tuple[str, ...]] = []

    def show(self, judged: JudgedGroup, chosen: int | None) -> None:
        """Show a judgement. chosen: the rank to put the cursor at; None leaves it at its rank."""
        if chosen is not None:  # once the list has its height
            self.call_after_refresh(self.watch_cursor)
        chosen = self.chosen if chosen is None else chosen
        self._judged, self._cells = judged, [COLUMNS, *rank_rows(judged)]
        ranks = [one.rank for one in judged.ranks]
        place = ranks.index(chosen) + 1 if chosen in ranks else self.cursor
        self.set_reactive(RankList.cursor, min(max(place, 1), len(ranks)))
        self.rows_changed()

    @property
    def chosen(self) -> int | None:
        """The rank under the cursor."""
        ranks, at = self._judged.ranks if self._judged else [], self.cursor - 1
        return ranks[at].rank if 0 <= at < len(ranks) else None

    def count(self) -> int:
        """Return the number of ranks and the heading."""
        return len(self._cells)

    def row_at(self, index: int, width: int) -> Content:
        """Return the heading, or a rank."""
        widths = [max(map(len, cells)) for cells in zip(*self._cells, strict=True)]
        *figures, why, state = self._cells[index]
        line = " ".join(cell.rjust(size) for cell, size in zip(figures, widths, strict=False))
        line += f"  {column(why, widths[-2])}  {state}"
        return row((line, self._style(index)))

    def _style(self, index: int) -> str:
        if index == 0 or self._judged is None:
            return QUIET_COLOUR
        here = " reverse" if index == self.cursor and self.has_focus else ""
        return f"{_rank_style(self._judged, self._judged.ranks[index - 1])}{here}".strip()

    def action_move(self, rows: int) -> None:
        """Move the cursor; the heading is no row."""
        self.cursor = min(max(self.cursor + rows, 1), max(self.count() - 1, 1))


def _rank_style(judged: JudgedGroup, state: RankState) -> str:
    late = judged.straggler
    if state in stopped_ranks(judged):
        return _TONES[Tone.BAD]
    return _TONES[Tone.WARN] if late and late.rank == state.rank else ""


class GroupScreen(Screen[None]):
    """Show a group; enter opens a rank."""

    DEFAULT_CSS = """
    GroupScreen { layout: vertical; background: $background; overflow: hidden; }
    GroupScreen RankList { height: 1fr; }
    GroupScreen KeyLine { dock: bottom; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "copy the finding and the table", id="group.copy"),
        Binding("escape,q", "app.quit", "quit", id="group.quit"),
        Binding(
            "colon", "app.command_palette", "search all commands", show=False, id="group.palette"
        ),
    ]

    finding = getters.query_one(GroupPane)
    ranks = getters.query_one(RankList)

    def __init__(
        self,
        reader: GroupReader,
        chosen: int | None,
        *,
        goes_back: bool,
        colour: bool,
        unicode: bool,
    ) -> None:
        super().__init__()
        self._reader, self._chosen, self._goes_back = reader, chosen, goes_back
        self._judged: JudgedGroup | None = None
        self._glyphs = choose_glyphs(colour, unicode)

    def compose(self) -> ComposeResult:
        yield GroupPane()
        yield RankList()
        yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.query_one(KeyLine).keys = (
            Key("enter", "enter", "open the rank"),
            Key("y", "y", "copy"),
            Key("q", "q", "back" if self._goes_back else "quit"),
        )
        self.ranks.set_titles("ranks", "late by: after the first one")
        self.ranks.focus()
        self.frame()
        self.set_interval(READ_S / 4, self.frame)

    def frame(self) -> None:
        """Show the newest judgement, and read the group again while a rank trains."""
        if self._judged is None or any(not one.life.is_over for one in self._judged.ranks):
            self._reader.begin()
        self.finding.trouble = self._reader.trouble()
        if judged := self._reader.take():
            first = first_to_look_at(judged) if self._judged is None else None
            self._judged = self.finding.group = judged
            self.ranks.show(judged, first if self._chosen is None else self._chosen)
            self._chosen = None

    def action_copy(self) -> None:
        """Copy the finding and the table, in Markdown."""
        if self._judged:
            self.app.copy_to_clipboard(group_markdown(self._judged))
            self.notify("copied")

    @on(RankList.Entered)
    def open_rank(self) -> None:
        """Leave, to open the rank under the cursor."""
        rank, app = self.ranks.chosen, self.app
        if self._judged and rank is not None and isinstance(app, GroupApp):
            app.chosen, app.opened = rank, self._judged.group.ranks[rank].folder
            app.exit_with(Leave.LEFT)


def first_to_look_at(judged: JudgedGroup) -> int | None:
    """Return the rank that the finding names, which of 64 may be below the window; None where it
    names none."""
    if stopped := stopped_ranks(judged):
        return stopped[0].rank
    return judged.straggler.rank if judged.straggler else None


class GroupApp(ThemedApp):
    """Show a group by itself.

    chosen: the rank under the cursor. goes_back: quitting shows the list that the group was opened
    from.
    opened: the folder of the rank to open after this screen; None where the user quits.
    options: passed to `ThemedApp`.
    """

    TITLE = "tfwatch replay"

    def __init__(
        self,
        reader: GroupReader,
        chosen: int | None = None,
        *,
        goes_back: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._reader, self._goes_back = reader, goes_back
        self.chosen = chosen
        self.opened: Path | None = None

    def on_mount(self) -> None:
        glyphs = {"colour": self._colour, "unicode": self._unicode}
        self.push_screen(
            GroupScreen(self._reader, self.chosen, goes_back=self._goes_back, **glyphs)
        )
        self.call_after_refresh(self.notify_painted)
