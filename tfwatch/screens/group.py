"""The screen of a group: its ranks side by side, and the one that the others wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters, on
from textual.binding import Binding
from textual.screen import Screen

from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.live.groups.rank_lines import stopped_ranks
from tfwatch.report.group_report import group_text
from tfwatch.runs.reading.disk_call import DiskCall
from tfwatch.screens.dialogs.leave import Leave
from tfwatch.screens.silent_disk import silence_of
from tfwatch.screens.themes import ThemedApp
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.basics.keyline import Key, KeyLine
from tfwatch.widgets.basics.pane import apply_glyphs
from tfwatch.widgets.group import GroupFindingPane, GroupHeader, GroupStepsPane, RankList, legend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.analysis.groups.step_sums import GroupSteps
    from tfwatch.live.groups.history import GroupHistory
    from tfwatch.live.groups.judged_group import JudgedGroup


class HistoryReader:
    """Reads a group's steps, and those that follow. steps: up to the last time that all were read; None before that."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._call: DiskCall[None] | None = None
        self._read_to = 0
        self._failed = ""
        self.steps: GroupSteps | None = None

    def begin(self) -> None:
        """Read the new steps in a thread, unless the last read still runs."""
        if self._call is None or self._call.is_done:
            self._call = DiskCall(self._run, name="tfwatch-group-steps")

    def note(self, last_step: int) -> str:
        """Return why the steps are not there yet, of a group that has come to a step; empty where they are."""
        if self.steps is not None or self._failed:
            return self._failed
        return f"reading all steps, {units.percent(self._read_to / last_step)}" if last_step else ""

    def _run(self) -> None:
        failures: list[str] = []
        with fails_open(failures.append):
            for last in self._history.read():
                self._read_to = last
            self.steps = self._history.steps
        self._failed = f"all steps: n/a, {failures[0]}" if failures else ""


#: While a rank trains the group is looked at after a second, and read again after so many times the CPU time of the
#: last read: 5 % of a core.
READ_S, TIMES = 1.0, 20.0
#: Below this many rows the chart is left out.
_LOW = 18
#: Rows of the list beside the ranks: the frame, and the heading.
_FRAME_ROWS = 3


class GroupReader:
    """Reads a group in a thread of its own: a shared disk that hangs never blocks the keys.

    read: opens and judges the group. look: returns what makes a new read necessary at once, and costs little.
    place: its folder, named while its disk does not respond. clock: measures how long a read has lasted.
    """

    def __init__(
        self,
        read: Callable[[], JudgedGroup],
        place: Path | None = None,
        clock: Clock = SYSTEM,
        look: Callable[[JudgedGroup], object] = lambda _: None,
    ) -> None:
        self._read, self._place, self._clock, self._look = read, place, clock, look
        self._newest: tuple[JudgedGroup, object] | None = None
        self._found: JudgedGroup | None = None
        self._failed = ""
        self._call: DiskCall[None] | None = None
        self._look_ns = self._next_ns = 0

    def wait(self, seconds: float) -> str:
        """Wait for the first answer, at most so long; return why the group cannot be read, empty where it may be."""
        if self._call:
            self._call.wait(seconds)
        return self._failed

    def take(self) -> JudgedGroup | None:
        """Return the newest judgement since the last call; None where there is no new one."""
        found, self._found = self._found, None
        return found

    def trouble(self) -> str:
        """Return why the judgement is not up to date; empty where it is."""
        return silence_of(self._place, self._call.silent_s if self._call else 0.0) or self._failed

    def begin(self) -> None:
        """Read the group in a thread, or look at it, unless the last read still runs, or ended just now."""
        now_ns = self._clock.now_ns()
        if (self._call is None or self._call.is_done) and now_ns >= self._look_ns:
            self._call = DiskCall(self._run, self._clock, "tfwatch-group")

    def _run(self) -> None:
        failures: list[str] = []
        with fails_open(failures.append):
            if self._is_due():
                self._read_all()
        self._failed = failures[0] if failures else ""
        self._look_ns = self._clock.now_ns() + round(READ_S * 1e9)

    def _is_due(self) -> bool:
        """Return whether the group is to be read again: after a while, or as a rank has stopped."""
        if self._newest is None or self._clock.now_ns() >= self._next_ns:
            return True
        judged, seen = self._newest
        return self._look(judged) != seen

    def _read_all(self) -> None:
        begun_ns = self._clock.thread_ns()
        judged = self._read()
        group_text(judged)  # all that the screen shows is made here, and not in the event loop
        self._found, self._newest = judged, (judged, self._look(judged))
        took_ns = self._clock.thread_ns() - begun_ns
        self._next_ns = self._clock.now_ns() + max(round(READ_S * 1e9), round(TIMES * took_ns))


class GroupScreen(Screen[None]):
    """Show a group; enter opens a rank."""

    CSS_PATH = "group.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "sort by lateness or by rank", id="group.sort"),
        Binding("z", "zoom", "the newest steps, or all", id="group.zoom"),
        Binding("y", "copy", "copy the summary as text", id="group.copy"),
        Binding("escape,q", "app.quit", "quit", id="group.quit"),
        Binding(
            "colon", "app.command_palette", "search all commands", show=False, id="group.palette"
        ),
    ]

    ranks = getters.query_one(RankList)
    header = getters.query_one(GroupHeader)
    finding = getters.query_one(GroupFindingPane)
    steps = getters.query_one(GroupStepsPane)

    def __init__(
        self,
        reader: GroupReader,
        view: GroupView,
        history: HistoryReader | None = None,
        *,
        goes_back: bool,
        colour: bool,
        unicode: bool,
    ) -> None:
        super().__init__()
        self._reader, self._view, self._history, self._goes_back = reader, view, history, goes_back
        self._judged: JudgedGroup | None = None
        self._has_shown = False
        self._glyphs = choose_glyphs(colour, unicode)

    def compose(self) -> ComposeResult:
        yield GroupHeader()
        yield GroupFindingPane()
        yield GroupStepsPane()
        yield RankList()
        yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.ranks.unicode = self._glyphs.unicode
        self.query_one(KeyLine).keys = (
            Key("enter", "enter", "open the rank"),
            Key("s", "s", "latest first"),
            Key("z", "z", "zoom"),
            Key("y", "y", "copy"),
            Key("q", "q", "back" if self._goes_back else "quit"),
        )
        self.ranks.latest_first = self._view.latest_first
        self.ranks.focus()
        self.frame()
        self.set_interval(READ_S / 4, self.frame)

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < _LOW, "-low")

    def frame(self) -> None:
        """Show the newest judgement, and read the group again while a rank trains."""
        if self._judged is None or any(not one.life.is_over for one in self._judged.ranks):
            self._reader.begin()
        self.header.trouble = self._reader.trouble()
        if judged := self._reader.take():
            self._judged = judged
            if self._history:
                self._history.begin()
            self._show(judged)
        self._show_steps()

    def _show(self, judged: JudgedGroup) -> None:
        self.header.group = self.finding.group = judged
        order = "latest first" if self.ranks.latest_first else "by rank"
        self.ranks.set_titles("ranks, ms/step; late by: after the first one", order)
        self.ranks.styles.height = len(judged.ranks) + _FRAME_ROWS
        chosen = self._view.take_chosen()
        if chosen is None and not self._has_shown:
            chosen = first_to_look_at(judged)
        self._has_shown = True
        self.ranks.show(judged, chosen)

    def _show_steps(self) -> None:
        """Show all steps that are read, else the newest ones."""
        judged = self._judged
        if judged is None:
            return
        whole = self._history.steps if self._history and not judged.why_not else None
        steps = judged.steps if whole is None or self._view.is_newest else whole
        self.steps.steps, self.finding.steps = steps, whole or judged.steps
        reading = self._history.note(max(one.step for one in judged.ranks)) if self._history else ""
        span = f"steps {units.count(steps.first)} to {units.count(steps.last)}" if steps else ""
        self.steps.set_titles(
            legend(judged, self._glyphs), "; ".join(filter(None, [reading, span]))
        )

    def action_sort(self) -> None:
        """Sort by lateness, or by rank."""
        self.ranks.latest_first = not self.ranks.latest_first
        if self._judged:
            self._show(self._judged)

    def action_zoom(self) -> None:
        """Show the newest steps, or all."""
        self._view.is_newest = not self._view.is_newest
        self._show_steps()

    def action_copy(self) -> None:
        """Copy the summary."""
        if self._judged:
            self.app.copy_to_clipboard(group_text(self._judged))
            self.notify("copied")

    @on(RankList.Entered)
    def open_rank(self) -> None:
        """Leave, to open the rank under the cursor."""
        rank, app = self.ranks.chosen, self.app
        if self._judged and rank is not None and isinstance(app, GroupApp):
            app.view = GroupView(rank, self.ranks.latest_first, self._view.is_newest)
            app.opened = self._judged.group.ranks[rank].path
            app.exit_with(Leave.LEFT)


def first_to_look_at(judged: JudgedGroup) -> int | None:
    """Return the rank that the finding names, which of 64 may be below the window; None where it names none."""
    stopped = stopped_ranks(judged)
    if stopped:
        return stopped[0].rank
    return judged.named_straggler.rank if judged.named_straggler else None


@dataclass
class GroupView:
    """The state of a group's screen, for the one after a rank's.

    chosen: the rank under the cursor. is_newest: the chart shows the newest steps only.
    """

    chosen: int | None = None
    latest_first: bool = False
    is_newest: bool = False

    def take_chosen(self) -> int | None:
        """Return the rank to begin with, once."""
        chosen, self.chosen = self.chosen, None
        return chosen


class GroupApp(ThemedApp):
    """Show a group by itself.

    history: reads all steps for the chart; without it the chart has the newest ones. view: the state to begin with, and
    that on leaving. goes_back: quitting shows the list that the group was opened from. opened: the folder of the rank
    to open after this screen; None where the user quits. options: passed to `ThemedApp`.
    """

    TITLE = "tfwatch replay"

    def __init__(
        self,
        reader: GroupReader,
        view: GroupView | None = None,
        history: HistoryReader | None = None,
        *,
        goes_back: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._reader, self._history, self._goes_back = reader, history, goes_back
        self.view = view or GroupView()
        self.opened: Path | None = None

    def on_mount(self) -> None:
        super().on_mount()
        glyphs = {"colour": self._colour, "unicode": self._unicode}
        self.push_screen(
            GroupScreen(self._reader, self.view, self._history, goes_back=self._goes_back, **glyphs)
        )
        self.call_after_refresh(self.notify_painted)
