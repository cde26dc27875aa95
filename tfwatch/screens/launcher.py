"""The launcher: your script, recent runs and demos; its app returns the selected command."""

from __future__ import annotations

import os
import shlex
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

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
from tfwatch.screens.basics.glyphs import QUIET_COLOUR, choose_glyphs
from tfwatch.screens.basics.keyline import Key, KeyLine
from tfwatch.screens.basics.pane import apply_glyphs
from tfwatch.screens.basics.row_list import ChoiceList
from tfwatch.screens.basics.text import column, row
from tfwatch.screens.leave import Leave
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.past_run import PastRun
    from tfwatch.screens.basics.text import Part

_NAME_CELLS = 14
#: Columns and rows below which there is no room for a list.
_LEAST = (20, 10)


@dataclass(frozen=True, slots=True)
class LauncherContent:
    """The content of the launcher."""

    #: The name of each workload and what it shows, in a line.
    workloads: tuple[tuple[str, str], ...]
    #: Makes a command of a script that was typed; raises ValueError with the reason.
    run_script: Callable[[str], tuple[str, ...]]
    #: Yields the runs, newest first; called in a thread after the first paint.
    runs: Callable[[], Iterable[PastRun]]


@dataclass(frozen=True, slots=True)
class Choice:
    """A row that selects a command. before, after: its texts beside the name."""

    name: str
    words: tuple[str, ...]
    before: str
    after: tuple[Part, ...]


def demo_choice(name: str, line: str) -> Choice:
    """Return the row of a workload."""
    return Choice(name, ("train", name), "", ((line, ""),))


def run_choice(run: PastRun) -> Choice:
    """Return the row of a recorded run."""
    share = "" if run.wait_share is None else f"data wait {units.percent(run.wait_share)}  "
    state, length = column(run.state, 10), (run.length, QUIET_COLOUR)
    after = ((state, ""), (share, "$text-warning"), length)
    return Choice(run.workload, ("replay", run.words), f"{units.age(run.age_s):<8}", after)


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


class ChoicesPane(ChoiceList):
    """Rows of `Choice`, and a note below them."""

    choices: reactive[tuple[Choice, ...]] = reactive(())
    #: The text of an empty list, or the reason why some rows are missing.
    note: reactive[str] = reactive("")

    def watch_choices(self) -> None:
        self.rows_replaced()

    def watch_note(self) -> None:
        self.rows_changed()

    def count(self) -> int:
        """Return the number of rows: the choices, and one for the note."""
        return len(self.choices) + bool(self.note)

    def row_at(self, index: int, width: int) -> Content:
        """Return a choice, or the note."""
        if index >= len(self.choices):
            return row((self.note, QUIET_COLOUR))
        choice = self.choices[index]
        name = column(choice.name, _NAME_CELLS - 1).rstrip()
        gap = " " * (_NAME_CELLS - len(row(name)))
        style = self.mark(index) or "bold"
        return row((choice.before, QUIET_COLOUR), (name, style), gap, *choice.after)

    @property
    def words(self) -> tuple[str, ...]:
        """The command of the row under the cursor; empty without one."""
        return self.choices[self.cursor].words if self.cursor < len(self.choices) else ()


class LauncherScreen(Screen[None]):
    """Lets the user select a command; calls `take` with its command-line arguments."""

    DEFAULT_CSS = """
    LauncherScreen { layout: vertical; background: $background; overflow: hidden; }
    LauncherScreen #title { height: 1; padding: 0 1; background: $panel; }
    LauncherScreen #script { height: 1; margin: 1 1 0 1; }
    LauncherScreen #script Static { width: auto; }
    LauncherScreen Input { width: 1fr; height: 1; border: none; padding: 0; }
    LauncherScreen Input > .input--placeholder { color: $foreground 75%; }
    LauncherScreen.-least ChoicesPane { display: none; }
    LauncherScreen #command { height: 1; padding: 0 1; text-wrap: nowrap; }
    LauncherScreen #runs { width: 100%; height: 1fr; min-height: 3; }
    LauncherScreen #demos { width: 100%; max-height: 50%; }
    """
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.focus_next", show=False),
        Binding("escape", "script", "your script", show=False),
        Binding("q", "app.quit", "quit", show=False),
    ]

    script = getters.query_one(Input)
    runs = getters.query_one("#runs", ChoicesPane)
    demos = getters.query_one("#demos", ChoicesPane)
    keys = getters.query_one(KeyLine)

    class Loaded(Message):
        """The thread read a run, or is done."""

        def __init__(self, run: PastRun | None, note: str) -> None:
            super().__init__()
            self.run, self.note = run, note

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
        self._glyphs = choose_glyphs(colour, unicode)

    def compose(self) -> ComposeResult:
        yield Static(row(("tfwatch", "$accent bold")), id="title")
        with Horizontal(id="script"):
            yield Static("tfwatch run ")
            yield Input(placeholder="SCRIPT.py [arguments]", suggester=ScriptPaths(), compact=True)
        yield Static(id="command")
        yield ChoicesPane(id="runs")
        yield ChoicesPane(id="demos")
        yield KeyLine()

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.demos.choices = tuple(demo_choice(*one) for one in self._content.workloads)
        self.demos.styles.height = len(self.demos.choices) + 2
        self.runs.set_titles("recent runs")
        self.demos.set_titles("demos")
        self.runs.note = "loading"
        self._show_choice()

    def on_resize(self) -> None:
        size = self.app.size
        self.set_class(size.width < _LEAST[0] or size.height < _LEAST[1], "-least")

    def start_loading(self) -> None:
        """Read the runs in a thread."""
        threading.Thread(target=self._load, daemon=True, name="tfwatch-launcher").start()

    def _load(self) -> None:
        def fail(why: str) -> None:
            self.post_message(self.Loaded(None, f"some runs unreadable: {why}"))

        with fails_open(fail):
            note = "no runs yet"
            for run in self._content.runs():
                self.post_message(self.Loaded(run, note="loading"))
                note = ""
            self.post_message(self.Loaded(None, note))

    @on(Loaded)
    def _show_loaded(self, message: Loaded) -> None:
        if message.run is not None:
            self.runs.choices = (*self.runs.choices, run_choice(message.run))
        self.runs.note = message.note

    # -- selecting ---------------------------------------------------------------------------------

    @property
    def words(self) -> tuple[str, ...]:
        """The command of the enter key in a list; empty in the field, which checks what it has."""
        return self.focused.words if isinstance(self.focused, ChoicesPane) else ()

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
            *((Key("right", "right", "complete"),) if in_field else ()),
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
