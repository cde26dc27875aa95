"""The screen of a group: who is late, by how much and why, and a row for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.judge.findings.finding import Tone
from tfwatch.report.group_report import COLUMNS, group_markdown, rank_cells
from tfwatch.runs.folder import DiskCall
from tfwatch.screens.keyline import Key, KeyLine
from tfwatch.screens.live.header import silence_of
from tfwatch.screens.text import QUIET_COLOUR, row, spread, wrap_text
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.judge.groups.judged_group import JudgedGroup, RankRow

#: While a rank trains the group is read again after a second, or so many times the CPU time of the
#: last read: 5 % of a core.
READ_S, TIMES = 1.0, 20.0
_TONES = {
    Tone.BAD: "$text-error bold",
    Tone.WARN: "$text-warning bold",
    Tone.GOOD: "$text-success bold",
    Tone.CALM: QUIET_COLOUR,
}


class GroupReader:
    """Reads a group in a thread of its own: a shared disk that hangs never blocks the keys.

    read: opens and judges the group. place: its folder, named while its disk does not respond.
    clock: measures how long a read has lasted.

    Attributes:
        judged: the newest judgement; None before the first one.
    """

    def __init__(
        self, read: Callable[[], JudgedGroup], place: Path | None = None, clock: Clock = SYSTEM
    ) -> None:
        self._read, self._place, self._clock = read, place, clock
        self.judged: JudgedGroup | None = None
        self._failed = ""
        self._call: DiskCall[None] | None = None
        self._next_ns = 0

    def wait(self, seconds: float) -> str:
        """Wait for the first answer, at most so long; return why the group cannot be read, empty
        where it may be."""
        if self._call:
            self._call.wait(seconds)
        return self._failed

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
            self.judged = self._read()
        self._failed = failures[0] if failures else ""
        took_ns = self._clock.thread_ns() - begun_ns
        self._next_ns = self._clock.now_ns() + max(round(READ_S * 1e9), round(TIMES * took_ns))


class GroupApp(ThemedApp):
    """Shows a group. options: passed to `ThemedApp`."""

    TITLE = "tfwatch replay"
    CSS = f"""
    {ThemedApp.CSS}
    Screen {{ layout: vertical; background: $background; overflow: hidden; }}
    #finding {{ height: auto; max-height: 8; padding: 0 1; }}
    #ranks {{ height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }}
    KeyLine {{ dock: bottom; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "copy the finding and the table", id="group.copy"),
        Binding("escape,q", "quit", "quit", id="group.quit"),
    ]

    def __init__(self, reader: GroupReader, **options: Any) -> None:
        super().__init__(**options)
        self._reader = reader
        self._shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="finding")
        with VerticalScroll(id="ranks"):
            yield Static(id="table")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(KeyLine).keys = Key("y", "y", "copy"), Key("q", "q", "quit")
        self.query_one("#ranks").focus()
        self.frame()
        self.set_interval(READ_S / 4, self.frame)
        self.call_after_refresh(self.notify_painted)

    def frame(self) -> None:
        """Show the newest judgement, and read the group again while a rank trains."""
        judged = self._reader.judged
        runs = judged.group.ranks.values() if judged else ()
        if judged is None or any(not run.life.is_over for run in runs):
            self._reader.begin()
        shown = (self._reader.judged, self._reader.trouble(), self.size)
        if shown != self._shown:
            self._shown = shown
            self._show(*shown[:2])

    def _show(self, judged: JudgedGroup | None, trouble: str) -> None:
        width = max(self.size.width - 2, 1)
        title, name = (judged.title, judged.group.folder.name) if judged else ("", "")
        note = row((trouble, "$text-error bold") if trouble else (name, QUIET_COLOUR))
        lines = [spread(row(("tfwatch", "$accent bold"), f"  {title}"), note, width)]
        if judged:
            lines.append(row((judged.word, _TONES[judged.tone])))
            lines += [row(part) for one in judged.sentences for part in wrap_text(one, width, "  ")]
            self.query_one("#table", Static).update(Content("\n").join(_table(judged)))
        self.query_one("#finding", Static).update(Content("\n").join(lines))

    def action_copy(self) -> None:
        """Copy the finding and the table, in Markdown."""
        if self._reader.judged:
            self.copy_to_clipboard(group_markdown(self._reader.judged))
            self.notify("copied")


def _table(judged: JudgedGroup) -> list[Content]:
    """Return the heading and a row a rank; that which the finding names comes first, which of 64
    may be below the window."""
    first = judged.named_rank
    ranks = sorted(judged.rows, key=lambda one: (one.rank != first, one.rank))
    cells = [COLUMNS, *map(rank_cells, ranks)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    styles = [QUIET_COLOUR, *(_style(one, first) for one in ranks)]
    return [row((_line(one, widths), style)) for one, style in zip(cells, styles, strict=True)]


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    *figures, why, state = cells
    line = " ".join(cell.rjust(size) for cell, size in zip(figures, widths, strict=False))
    return f"{line}  {why.ljust(widths[-2])}  {state}"


def _style(one: RankRow, named: int | None) -> str:
    if one.stopped:
        return _TONES[Tone.BAD]
    return _TONES[Tone.WARN] if one.rank == named else ""
