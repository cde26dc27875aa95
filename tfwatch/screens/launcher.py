"""The launcher: workloads with their start knobs, and recent runs; its app returns the selected command."""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters, on
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Static

from tfwatch.core.errors import fails_open
from tfwatch.screens.basics.glyphs import choose_glyphs
from tfwatch.screens.basics.keyline import Key, KeyLine
from tfwatch.screens.basics.pane import Pane, apply_glyphs
from tfwatch.screens.basics.row_list import ChoiceList
from tfwatch.screens.basics.text import row
from tfwatch.screens.dialogs.leave import Leave
from tfwatch.screens.dialogs.restart import AskScreen, ask_value
from tfwatch.screens.keys import SMALLEST
from tfwatch.screens.launcher_lists import PastRunsPane, Trainable, WorkloadsPane
from tfwatch.screens.start_knobs import StartPane
from tfwatch.screens.themes import ThemedApp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.live.past_run import PastRun
    from tfwatch.screens.doctor import RunCheckup

#: The row that asks for a script, and its question.
_SCRIPT = Trainable("your script", "a training script of yours, unmodified: enter asks for it", ())
_QUESTION = "A training script, and its arguments if it takes any:"
#: The workload under the cursor at the start: it shows what tfwatch is for.
_FIRST = "cnn"
#: Columns from which the knobs take more than half of the width.
_WIDE = 100
#: Rows that a long list of workloads leaves to the other panes.
_BELOW = 11


@dataclass(frozen=True, slots=True)
class LauncherContent:
    """The content of the launcher.

    run_script: makes a command of a script that was typed; raises ValueError with the reason.
    machine: describes the machine in a line. runs: yields the runs, newest first. A thread calls both after
    the first paint.
    run_checkup: runs the check-up that `d` shows.
    """

    workloads: tuple[Trainable, ...]
    run_script: Callable[[str], tuple[str, ...]]
    machine: Callable[[], str]
    runs: Callable[[], Iterable[PastRun]]
    run_checkup: RunCheckup


class LauncherHeader(Pane):
    """The first line.

    Attributes:
        machine: the machine in a line; empty while unknown.
    """

    DEFAULT_CSS = """
    LauncherHeader { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    machine: reactive[str] = reactive("")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        return [row(("tfwatch", "$accent bold"), "  ", self.machine)]


class LauncherScreen(Screen[None]):
    """Lets the user select a command; calls `take` with its command-line arguments."""

    CSS_PATH = "launcher.tcss"
    AUTO_FOCUS = "WorkloadsPane"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "runs", "the runs", show=False, id="launcher.runs"),
        Binding("right", "knobs", "the knobs", show=False, id="launcher.knobs"),
        Binding("escape", "workloads", "the workloads", show=False, id="launcher.workloads"),
        Binding("d", "doctor", "is the installation right?", show=False, id="launcher.doctor"),
        Binding("q", "app.quit", "quit", show=False, id="launcher.leave"),
        Binding(
            "colon", "app.command_palette", "search all commands", show=False, id="launcher.palette"
        ),
    ]

    header = getters.query_one(LauncherHeader)
    workloads = getters.query_one(WorkloadsPane)
    start = getters.query_one(StartPane)
    runs = getters.query_one(PastRunsPane)
    keys = getters.query_one(KeyLine)

    class Loaded(Message):
        """The thread read a part of the content; None leaves a part as it is.

        note: replaces an empty list of runs. trouble: the reason why some runs cannot be read.
        """

        def __init__(
            self,
            machine: str | None = None,
            run: PastRun | None = None,
            note: str | None = None,
            trouble: str | None = None,
        ) -> None:
            super().__init__()
            self.machine = machine
            self.run = run
            self.note = note
            self.trouble = trouble

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
        yield LauncherHeader()
        yield WorkloadsPane()
        with Horizontal(id="lower"):
            yield StartPane()
            yield PastRunsPane()
        yield Static(id="command", markup=False)
        yield KeyLine()
        yield Static(id="too-small", markup=False)

    def on_mount(self) -> None:
        apply_glyphs(self, self._glyphs)
        self.workloads.workloads = (*self._content.workloads, _SCRIPT)
        self.workloads.styles.height = len(self.workloads.workloads) + 2
        names = [one.name for one in self.workloads.workloads]
        self.workloads.cursor = names.index(_FIRST) if _FIRST in names else 0
        self.runs.note = "loading"
        self._show_choice()

    def start_loading(self) -> None:
        """Read the machine and the runs in a thread."""
        threading.Thread(target=self._load, daemon=True, name="tfwatch-launcher").start()

    def on_resize(self) -> None:
        size = self.app.size
        too_small = size.width < SMALLEST[0] or size.height < SMALLEST[1]
        self.update_classes({"-too-small": too_small, "-wide": size.width >= _WIDE})
        text = f"{size.width}x{size.height}, needs {SMALLEST[0]}x{SMALLEST[1]}"
        self.query_one("#too-small", Static).update(Content(text))
        self.workloads.styles.max_height = max(size.height - _BELOW, 3)
        self.call_after_refresh(self._show_choice)

    # -- loading ------------------------------------------------------------------------------------

    def _load(self) -> None:
        with fails_open(
            lambda why: self.post_message(
                self.Loaded(machine=f"the machine cannot be described: {why}")
            )
        ):
            self.post_message(self.Loaded(machine=self._content.machine()))
        with fails_open(
            lambda why: self.post_message(self.Loaded(trouble=f"some runs unreadable: {why}"))
        ):
            for run in self._content.runs():
                self.post_message(self.Loaded(run=run))
            self.post_message(self.Loaded(note="no runs yet"))

    @on(Loaded)
    def _show_loaded(self, message: Loaded) -> None:
        if message.machine is not None:
            self.header.machine = message.machine
        if message.run is not None:
            self.runs.runs = (*self.runs.runs, message.run)
        if message.note is not None:
            self.runs.note = message.note
        if message.trouble is not None:
            self.runs.trouble = message.trouble

    # -- selecting ----------------------------------------------------------------------------------

    @property
    def words(self) -> tuple[str, ...]:
        """The command of the enter key: a replay where the runs have the focus, else a training."""
        if self.runs.has_focus:
            return ("replay", self.runs.chosen.words) if self.runs.chosen else ()
        if self.workloads.chosen is _SCRIPT or self.start.trouble:
            return ()
        return ("train", self.workloads.chosen.name, *self.start.words)

    @on(ChoiceList.Moved)
    def _moved(self) -> None:
        self._show_choice()

    def on_descendant_focus(self) -> None:
        self._show_choice()

    def _show_choice(self) -> None:
        workload = self.workloads.chosen
        if workload.knobs is not self.start.knobs:
            self.start.show(workload.name, workload.knobs)
        self.workloads.set_titles("what to train", self.workloads.hidden_line)
        self.start.set_titles(f"{workload.name} starts with", self.start.hidden_note)
        self.runs.set_titles("recent runs", self.runs.hidden_note)
        self.query_one("#command", Static).update(self._command())
        at_runs = self.runs.has_focus
        asks = not at_runs and workload is _SCRIPT
        does = "replay" if at_runs else "choose script" if asks else "start"
        types = self.start.has_focus and bool(self.start.chosen and self.start.chosen.read)
        self.keys.keys = (
            Key("enter", "enter", does, bool(self.words) or asks),
            Key("tab", "tab", _AFTER.get(type(self.focused), "workloads")),
            Key("right", "< >", "change", enabled=self.start.has_focus, rank=1),
            Key("e", "e", "type", enabled=types, rank=3),
            Key("r", "r", "runs", chosen=at_runs, rank=2),
            Key("d", "d", "doctor"),
            Key("q", "q", "quit"),
        )

    def _command(self) -> Content:
        if self.start.trouble and not self.runs.has_focus:
            return row((self.start.trouble, "$text-error"))
        return row(f"tfwatch {shlex.join(self.words)}" if self.words else "")

    @on(ChoiceList.Entered)
    def _entered(self) -> None:
        if self.words:
            self._take(self.words)
        elif not self.runs.has_focus and self.workloads.chosen is _SCRIPT:
            self.app.push_screen(AskScreen(_QUESTION, self._content.run_script), self._run_script)

    def _run_script(self, words: tuple[str, ...] | None) -> None:
        if words:
            self._take(words)

    @on(StartPane.Typing)
    def _type(self, message: StartPane.Typing) -> None:
        ask_value(self.app, self.start, message.knob)

    def action_runs(self) -> None:
        """Focus the runs."""
        self.runs.focus()

    def action_knobs(self) -> None:
        """Focus the knobs."""
        self.start.focus()

    def action_workloads(self) -> None:
        """Focus the workloads."""
        self.workloads.focus()

    def action_doctor(self) -> None:
        """Show the check-up."""
        from tfwatch.screens.doctor import DoctorScreen

        run_checkup, unicode = self._content.run_checkup, self._glyphs.unicode
        doctor = DoctorScreen(run_checkup, gently=False, colour=self._colour, unicode=unicode)

        def update_machine(_: None) -> None:
            if doctor.found:
                self.header.machine = doctor.found.machine

        self.app.push_screen(doctor, update_machine)


_AFTER: dict[type[object], str] = {
    WorkloadsPane: "knobs",
    StartPane: "runs",
    PastRunsPane: "workloads",
}


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
