"""The launcher: your script, recent runs and demos; its app returns the selected command."""

from __future__ import annotations

import os
import shlex
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import getters, on
from textual.binding import Binding
from textual.containers import Horizontal
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from tfwatch.core import units
from tfwatch.core.errors import fails_open
from tfwatch.screens.basics.glyphs import choose_glyphs
from tfwatch.screens.basics.keyline import Key, KeyLine
from tfwatch.screens.basics.pane import apply_glyphs
from tfwatch.screens.basics.row_list import ChoiceList
from tfwatch.screens.basics.text import column, row, shorten
from tfwatch.screens.doctor import DoctorScreen
from tfwatch.screens.leave import Leave
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.past_run import PastRun
    from tfwatch.screens.doctor import RunCheckup

_QUIET = "$foreground 65%"
_NAME_CELLS = 14
#: Cells from which a run's row has room for its state, and for its length.
_USUAL, _WIDE = 34, 60
#: Columns and rows below which there is no room for a list.
_LEAST = (20, 10)


@dataclass(frozen=True, slots=True)
class LauncherContent:
    """The content of the launcher."""

    #: The name of each workload and what it shows, in a line.
    workloads: tuple[tuple[str, str], ...]
    #: Makes a command of a script that was typed; raises ValueError with the reason.
    run_script: Callable[[str], tuple[str, ...]]
    #: Describes the machine in a line; called in a thread after the first paint.
    machine: Callable[[], str]
    #: Yields the runs, newest first; called in the same thread.
    runs: Callable[[], Iterable[PastRun]]
    run_checkup: RunCheckup


class ScriptPaths(Suggester):
    """Completes the path of a Python script, or of a folder on the way to one."""

    def __init__(self) -> None:
        super().__init__(use_cache=False)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the first path that begins with the text; None without one."""
        folder, name = os.path.split(value)
        if not name:
            return None
        try:
            entries = sorted(
                os.scandir(os.path.expanduser(folder) or "."), key=lambda one: one.name
            )
        except OSError:
            return None
        suggestion = (
            one.name + ("/" if one.is_dir() else "")
            for one in entries
            if one.name.startswith(name) and (one.is_dir() or one.name.endswith(".py"))
        )
        first = next(suggestion, None)
        return first and os.path.join(folder, first)


class WorkloadsPane(ChoiceList):
    """The workloads, a line each."""

    workloads: reactive[tuple[tuple[str, str], ...]] = reactive(())

    def watch_workloads(self) -> None:
        self.rows_replaced()

    def count(self) -> int:
        """Return the number of workloads."""
        return len(self.workloads)

    def row_at(self, index: int, width: int) -> Content:
        """Return the workload's name and description."""
        name, line = self.workloads[index]
        name = shorten(name, _NAME_CELLS - 1)
        return row((name, self.mark(index) or "bold"), " " * (_NAME_CELLS - cell_len(name)), line)

    @property
    def words(self) -> tuple[str, ...]:
        """The command that trains the workload under the cursor."""
        return ("train", self.workloads[self.cursor][0])


class PastRunsPane(ChoiceList):
    """The recorded runs, newest first.

    Attributes:
        runs: the runs read so far. note: below them: the text of an empty list, or the reason why
            some runs cannot be read.
    """

    runs: reactive[tuple[PastRun, ...]] = reactive(())
    note: reactive[str] = reactive("")

    def watch_runs(self) -> None:
        self.rows_replaced()

    def watch_note(self) -> None:
        self.rows_changed()

    def count(self) -> int:
        """Return the number of rows: the runs, and one for the note."""
        return len(self.runs) + bool(self.note)

    def row_at(self, index: int, width: int) -> Content:
        """Return the run's age, workload, state and starving share."""
        if index >= len(self.runs):
            return row((self.note, _QUIET))
        run = self.runs[index]
        name = shorten(run.workload, _NAME_CELLS - 2)
        share = "" if run.wait_share is None else f"data wait {units.percent(run.wait_share)}"
        return row(
            (f"{units.age(run.age_s):<8}", _QUIET),
            (name, self.mark(index)),
            " " * (_NAME_CELLS - 1 - cell_len(name)),
            column(run.state, 10) if width >= _USUAL else "",
            (column(run.length, 24) if width >= _WIDE else "", _QUIET),
            (share, "$text-warning"),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The command that shows the run under the cursor; empty without one."""
        return ("replay", self.runs[self.cursor].words) if self.cursor < len(self.runs) else ()


class LauncherScreen(Screen[None]):
    """Lets the user select a command; calls `take` with its command-line arguments."""

    DEFAULT_CSS = """
    LauncherScreen { layout: vertical; background: $background; overflow: hidden; }
    LauncherScreen #machine { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; }
    LauncherScreen #script { height: 1; margin: 1 1 0 1; }
    LauncherScreen #script Static { width: auto; }
    LauncherScreen Input { width: 1fr; height: 1; border: none; padding: 0; }
    LauncherScreen Input > .input--placeholder { color: $foreground 75%; }
    LauncherScreen.-least PastRunsPane, LauncherScreen.-least WorkloadsPane { display: none; }
    LauncherScreen #command { height: 1; padding: 0 1; text-wrap: nowrap; }
    LauncherScreen PastRunsPane { width: 100%; height: 1fr; min-height: 3; }
    LauncherScreen WorkloadsPane { width: 100%; max-height: 50%; }
    """
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.focus_next", show=False),
        Binding("escape", "script", "your script", show=False, id="launcher.script"),
        Binding("d", "doctor", "is the installation right?", show=False, id="launcher.doctor"),
        Binding("q", "app.quit", "quit", show=False, id="launcher.leave"),
    ]

    script = getters.query_one(Input)
    runs = getters.query_one(PastRunsPane)
    workloads = getters.query_one(WorkloadsPane)
    keys = getters.query_one(KeyLine)

    class Loaded(Message):
        """The thread read a part of the content; None leaves a part as it is."""

        def __init__(
            self, machine: str | None = None, run: PastRun | None = None, note: str | None = None
        ) -> None:
            super().__init__()
            self.machine = machine
            self.run = run
            self.note = note

    def __init__(
        self,
        content: LauncherContent,
        take: Callable[[tuple[str, ...]], None],
        *,
        colour: bool,
        unicode: bool,
    ) -> None:
        super().__init__()
        self._content = content
        self._take = take
        self._colour = colour
        self._glyphs = choose_glyphs(colour, unicode)

    def compose(self) -> ComposeResult:
        yield Static(row(("tfwatch", "$accent bold")), id="machine")
        with Horizontal(id="script"):
            yield Static("tfwatch run ")
            yield Input(placeholder="SCRIPT.py [arguments]", suggester=ScriptPaths(), compact=True)
        yield Static(id="command")
        yield PastRunsPane()
        yield WorkloadsPane()
        yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.workloads.workloads = self._content.workloads
        self.workloads.styles.height = len(self._content.workloads) + 2
        self.runs.set_titles("recent runs")
        self.workloads.set_titles("demos")
        self.runs.note = "loading"
        self._show_choice()

    def on_resize(self) -> None:
        size = self.app.size
        self.set_class(size.width < _LEAST[0] or size.height < _LEAST[1], "-least")

    def start_loading(self) -> None:
        """Read the machine and the runs in a thread."""
        threading.Thread(target=self._load, daemon=True, name="tfwatch-launcher").start()

    def _load(self) -> None:
        def no_machine(why: str) -> None:
            self.post_message(self.Loaded(machine=f"the machine cannot be described: {why}"))

        def no_runs(why: str) -> None:
            self.post_message(self.Loaded(note=f"some runs unreadable: {why}"))

        with fails_open(no_machine):
            self.post_message(self.Loaded(machine=self._content.machine()))
        with fails_open(no_runs):
            note = "no runs yet"
            for run in self._content.runs():
                self.post_message(self.Loaded(run=run))
                note = ""
            self.post_message(self.Loaded(note=note))

    @on(Loaded)
    def _show_loaded(self, message: Loaded) -> None:
        if message.machine is not None:
            line = row(("tfwatch", "$accent bold"), "  ", message.machine)
            self.query_one("#machine", Static).update(line)
        if message.run is not None:
            self.runs.runs = (*self.runs.runs, message.run)
        if message.note is not None:
            self.runs.note = message.note

    # -- selecting ---------------------------------------------------------------------------------

    @property
    def words(self) -> tuple[str, ...]:
        """The command of the enter key in a list; empty in the field, which checks what it has."""
        if isinstance(self.focused, PastRunsPane | WorkloadsPane):
            return self.focused.words
        return ()

    @on(ChoiceList.Moved)
    @on(Input.Changed)
    def _moved(self) -> None:
        self._show_choice()

    def on_descendant_focus(self) -> None:
        self._show_choice()

    def _show_choice(self) -> None:
        command = f"tfwatch {shlex.join(self.words)}" if self.words else ""
        self.query_one("#command", Static).update(row((command, "$accent")))
        in_field = self.script.has_focus
        self.keys.keys = (
            Key("enter", "enter", "run" if in_field else "start", in_field or bool(self.words)),
            Key("tab", "tab", "next"),
            Key("right", "right", "complete") if in_field else Key("d", "d", "doctor"),
            Key("ctrl+q", "ctrl+q" if in_field else "q", "quit"),
        )

    @on(ChoiceList.Entered)
    def _entered(self) -> None:
        if self.words:
            self._take(self.words)

    @on(Input.Submitted)
    def _run_script(self, message: Input.Submitted) -> None:
        try:
            self._take(self._content.run_script(message.value))
        except ValueError as error:
            self.query_one("#command", Static).update(row((str(error), "$text-error")))

    def action_script(self) -> None:
        """Focus the field of the script."""
        self.script.focus()

    def action_doctor(self) -> None:
        """Show the check-up."""
        unicode = self._glyphs.unicode
        self.app.push_screen(
            DoctorScreen(
                self._content.run_checkup, gently=False, colour=self._colour, unicode=unicode
            )
        )


class LauncherApp(ThemedApp):
    """Show the launcher. options: passed to `ThemedApp`.

    Attributes:
        words: the selected command's arguments; empty where the user quit.
    """

    def __init__(self, content: LauncherContent, **options: Any) -> None:
        super().__init__(**options)
        self.words: tuple[str, ...] = ()
        self._launcher = LauncherScreen(
            content, self._take, colour=self._colour, unicode=self._unicode
        )

    def on_mount(self) -> None:
        self.push_screen(self._launcher)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._launcher.start_loading()
        self.notify_painted()

    def _take(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.exit_with(Leave.LEFT)
