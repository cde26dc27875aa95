"""The launcher: your script and recent ones, recent runs and demos; its app returns the selected
command."""

from __future__ import annotations

import asyncio
import shlex
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters, on
from textual.binding import Binding
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tfwatch.core import units
from tfwatch.core.errors import fails_open
from tfwatch.runs.folder import DiskCall
from tfwatch.runs.library import short_path
from tfwatch.screens.keyline import Key, KeyLine
from tfwatch.screens.overlays import Leave
from tfwatch.screens.pane import FRAME_CSS
from tfwatch.screens.text import QUIET_COLOUR, column, row
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.judge.past_run import PastRun

_NAME_CELLS = 14
#: The most recent scripts.
_SCRIPTS = 3
#: Seconds between two looks for the answer of the disk.
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class LauncherContent:
    """The content of the launcher."""

    #: The name of each workload and what it shows, in a line.
    workloads: tuple[tuple[str, str], ...]
    #: Makes a command of a script that was typed; raises ValueError with the reason.
    run_script: Callable[[str], tuple[str, ...]]
    #: Completes the path at the end of a line; None where no file begins like this.
    complete: Callable[[str], str | None]
    #: Yields the runs, newest first; called in a thread after the first paint.
    runs: Callable[[], Iterable[PastRun]]


def demo_option(name: str, line: str) -> Option:
    """Return the row of a workload; the identity of a row is its command."""
    return Option(row((column(name, _NAME_CELLS), "bold"), line), id=shlex.join(("train", name)))


def run_option(run: PastRun) -> Option:
    """Return the row of a recorded run."""
    share = "" if run.wait_share is None else f"data wait {units.percent(run.wait_share)}  "
    words = row(
        (f"{units.age(run.age_s):<8}", QUIET_COLOUR),
        (column(run.workload, _NAME_CELLS), "bold"),
        column(run.state, 10),
        (share, "$text-warning"),
        (run.length, QUIET_COLOUR),
    )
    return Option(words, id=shlex.join(("replay", run.words)))


def script_option(run: PastRun) -> Option:
    """Return the row of a script that was run before."""
    path = Path(run.script)
    words = row(
        (f"{units.age(run.age_s):<8}", QUIET_COLOUR),
        (column(path.name, _NAME_CELLS), "bold"),
        (short_path(path.parent), QUIET_COLOUR),
    )
    return Option(words, id=shlex.join(("run", run.script)))


class ScriptInput(Input):
    """The field of the script's path; tab takes the rest of it that is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "cursor_right", "complete", show=False)]


class PathSuggester(Suggester):
    """Shows the rest of a path; the disk searches for one at a time."""

    def __init__(self, complete: Callable[[str], str | None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete
        self._newest = ""
        self._call: DiskCall[str | None] | None = None

    async def get_suggestion(self, value: str) -> str | None:
        """Return the line with its path completed."""
        self._newest = value
        while self._call and not self._call.is_done:
            await asyncio.sleep(_LOOK_S)
            if value != self._newest:
                return None
        self._call = call = DiskCall(lambda: self._complete(value))
        while not call.is_done:
            await asyncio.sleep(_LOOK_S)
        return call.answer()


class LauncherApp(ThemedApp):
    """Lets the user select a command. options: passed to `ThemedApp`.

    Attributes:
        words: the selected command's arguments; empty where the user quit.
    """

    CSS = f"""
    {ThemedApp.CSS}
    OptionList {{
        {FRAME_CSS}
        width: 100%; background: $background; background-tint: $background 0%; padding: 0 1;
        scrollbar-size-vertical: 1; text-wrap: nowrap; text-overflow: ellipsis;
        & > .option-list--option-highlighted {{
            background: $background; color: $foreground; text-style: none;
        }}
        &:focus > .option-list--option-highlighted {{
            background: $panel; color: $foreground; text-style: bold underline;
        }}
    }}
    Screen {{ layout: vertical; background: $background; overflow: hidden; }}
    #title {{ height: 1; padding: 0 1; background: $panel; }}
    #script {{ height: 1; margin: 1 1 0 1; }}
    #script Static {{ width: auto; }}
    Input {{ width: 1fr; height: 1; border: none; padding: 0; }}
    Input > .input--placeholder, Input > .input--suggestion {{ color: $foreground 75%; }}
    #command {{ height: 1; padding: 0 1; text-wrap: nowrap; }}
    #scripts {{ height: auto; display: none; }}
    #runs {{ height: 1fr; min-height: 5; }}
    #demos {{ height: auto; max-height: 40%; }}
    """
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "focus_next", show=False),
        Binding("escape", "script", "your script", show=False),
        Binding("q", "quit", "quit", show=False),
    ]

    script = getters.query_one(ScriptInput)
    command = getters.query_one("#command", Static)
    scripts = getters.query_one("#scripts", OptionList)
    runs = getters.query_one("#runs", OptionList)
    demos = getters.query_one("#demos", OptionList)
    keys = getters.query_one(KeyLine)

    class Loaded(Message):
        """The thread read a run, or is done."""

        def __init__(self, run: PastRun | None, note: str) -> None:
            super().__init__()
            self.run, self.note = run, note

    def __init__(self, content: LauncherContent, **options: Any) -> None:
        super().__init__(**options)
        self.words: tuple[str, ...] = ()
        self._content = content

    def compose(self) -> ComposeResult:
        yield Static(row(("tfwatch", "$accent bold")), id="title")
        with Horizontal(id="script"):
            yield Static("tfwatch run ")
            yield ScriptInput(
                placeholder="SCRIPT.py [arguments]",
                suggester=PathSuggester(self._content.complete),
                compact=True,
            )
        yield Static(id="command")
        yield OptionList(id="scripts")
        yield OptionList(id="runs")
        yield OptionList(*(demo_option(*one) for one in self._content.workloads), id="demos")
        yield KeyLine()

    def on_mount(self) -> None:
        self.scripts.border_title = "recent scripts"
        self.runs.border_title, self.demos.border_title = "recent runs", "demos"
        self.runs.border_subtitle = "loading"
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        threading.Thread(target=self._load, daemon=True, name="tfwatch-launcher").start()
        self.notify_painted()

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
            self.runs.add_option(run_option(message.run))
            self._add_script(message.run)
            self._show_choice()
        self.runs.border_subtitle = row(message.note)

    def _add_script(self, run: PastRun) -> None:
        """List the script of a run, unless that of a newer run is the same."""
        option = script_option(run)
        known = {one.id for one in self.scripts.options}
        if run.script and option.id not in known and len(known) < _SCRIPTS:
            self.scripts.add_option(option)
            self.scripts.display = True

    # -- selecting ---------------------------------------------------------------------------------

    def on_descendant_focus(self) -> None:
        self._show_choice()

    @on(OptionList.OptionHighlighted)
    @on(Input.Changed)
    def _show_choice(self) -> None:
        focused = self.focused
        if isinstance(focused, OptionList) and focused.highlighted is None:
            focused.action_first()
        option = focused.highlighted_option if isinstance(focused, OptionList) else None
        in_field = self.script.has_focus
        self.command.update(row((f"tfwatch {option.id}" if option else "", "$accent")))
        self.keys.keys = (
            Key("enter", "enter", "run" if in_field else "start"),
            Key("tab", "tab", "complete" if in_field else "next"),
            *((Key("down", "down", "lists"),) if in_field else ()),
            Key("ctrl+q", "ctrl+q" if in_field else "q", "quit"),
        )

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        self._take(tuple(shlex.split(message.option_id or "")))

    @on(Input.Submitted)
    def _run_script(self, message: Input.Submitted) -> None:
        try:
            self._take(self._content.run_script(message.value))
        except ValueError as error:
            self.command.update(row((str(error), "$text-error")))

    def action_script(self) -> None:
        """Focus the field of the script."""
        self.script.focus()

    def _take(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.exit_with(Leave.LEFT)
