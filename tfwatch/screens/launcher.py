"""The launcher: what can be trained here, with which knobs, and the runs that can be seen again.

The launcher: what can be trained here, with which knobs, and the runs that can be seen again.

The launcher as an app: gives the command that was chosen.
"""

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
from tfwatch.screens.keys import SMALLEST
from tfwatch.screens.leave import Leave
from tfwatch.screens.restart import AskScreen, ask_value
from tfwatch.screens.themes import ThemedApp
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.basics.keyline import Key, KeyLine
from tfwatch.widgets.basics.pane import Pane, dress
from tfwatch.widgets.basics.row_list import Choices
from tfwatch.widgets.basics.text import row
from tfwatch.widgets.launcher_lists import PastRun, PastRunsPane, Trainable, WorkloadsPane
from tfwatch.widgets.start_knobs import StartPane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.screens.doctor import Look

#: The row that asks for a file.
_OWN = Trainable("your own", "a Python file of yours with model() and dataset(knobs): enter asks which", (), "")
#: Columns from which the knobs take more than half.
_WIDE = 100
#: Rows that the workloads leave to all else, where there are many.
_BELOW = 11


@dataclass(frozen=True, slots=True)
class Offer:
    """What the launcher shows.

    own: a workload of a path of the user's own file; raises ValueError with a sentence.
    machine: the machine in a line. runs: the runs, the newest first. Both are called in a thread, once it is painted.
    look: the check-up that `d` shows.
    """

    workloads: tuple[Trainable, ...]
    own: Callable[[str], Trainable]
    machine: Callable[[], str]
    runs: Callable[[], Iterable[PastRun]]
    look: Look


class LauncherHeader(Pane):
    """The first line.

    Attributes:
        machine: the machine in a line; empty while it is not known.
    """

    DEFAULT_CSS = """
    LauncherHeader { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    machine: reactive[str] = reactive("")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        return [row(("tfwatch", "$accent bold"), "  ", self.machine)]


class LauncherScreen(Screen[None]):
    """Chooses; the app hears of it through `take`, which gets the words of the command line."""

    CSS_PATH = "launcher.tcss"
    AUTO_FOCUS = "WorkloadsPane"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "runs", "the runs", show=False, id="launcher.runs"),
        Binding("right", "knobs", "the knobs", show=False, id="launcher.knobs"),
        Binding("escape", "workloads", "the workloads", show=False, id="launcher.workloads"),
        Binding("d", "doctor", "is the installation right?", show=False, id="launcher.doctor"),
        Binding("q", "app.quit", "leave", show=False, id="launcher.leave"),
        Binding("colon", "app.command_palette", "everything by name", show=False, id="launcher.palette"),
    ]

    header = getters.query_one(LauncherHeader)
    workloads = getters.query_one(WorkloadsPane)
    start = getters.query_one(StartPane)
    runs = getters.query_one(PastRunsPane)
    keys = getters.query_one(KeyLine)

    class Told(Message):
        """What was found out after the first paint; None is not known yet.

        note: stands in place of runs. trouble: why not all of them can be read.
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

    def __init__(self, offer: Offer, take: Callable[[tuple[str, ...]], None], *, colour: bool, unicode: bool) -> None:
        super().__init__()
        self._offer = offer
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
        dress(self, self._glyphs)
        self.workloads.workloads = (*self._offer.workloads, _OWN)
        self.workloads.styles.height = len(self.workloads.workloads) + 2
        self.runs.note = "looking"
        self._show_choice()

    def begin(self) -> None:
        """Look at the machine and the runs, in a thread of its own."""
        threading.Thread(target=self._look, daemon=True, name="tfwatch-launcher").start()

    def on_resize(self) -> None:
        size = self.app.size
        self.set_class(size.width < SMALLEST[0] or size.height < SMALLEST[1], "-too-small")
        self.set_class(size.width >= _WIDE, "-wide")
        text = f"{size.width}x{size.height}, needs {SMALLEST[0]}x{SMALLEST[1]}"
        self.query_one("#too-small", Static).update(Content(text))
        self.workloads.styles.max_height = max(size.height - _BELOW, 3)
        self.call_after_refresh(self._show_choice)

    # -- what is found out --------------------------------------------------------------------------

    def _look(self) -> None:
        with fails_open(lambda why: self.post_message(self.Told(machine=f"the machine cannot be told: {why}"))):
            self.post_message(self.Told(machine=self._offer.machine()))
        with fails_open(lambda why: self.post_message(self.Told(trouble=f"not all can be read: {why}"))):
            for run in self._offer.runs():
                self.post_message(self.Told(run=run))
            self.post_message(self.Told(note="none yet"))

    @on(Told)
    def _tell(self, message: Told) -> None:
        if message.machine is not None:
            self.header.machine = message.machine
        if message.run is not None:
            self.runs.runs = (*self.runs.runs, message.run)
        if message.note is not None:
            self.runs.note = message.note
        if message.trouble is not None:
            self.runs.trouble = message.trouble

    # -- choosing -----------------------------------------------------------------------------------

    @property
    def words(self) -> tuple[str, ...]:
        """The command that enter gives: a run's where the runs have the keys, else a training's."""
        if self.runs.has_focus:
            return ("replay", self.runs.chosen.words) if self.runs.chosen else ()
        if not self.workloads.chosen.argument or self.start.trouble:
            return ()
        return ("train", self.workloads.chosen.argument, *self.start.words)

    @on(Choices.Moved)
    def _moved(self) -> None:
        self._show_choice()

    def on_descendant_focus(self) -> None:
        self._show_choice()

    def _show_choice(self) -> None:
        workload = self.workloads.chosen
        if workload.knobs is not self.start.knobs:
            self.start.show(workload.name, workload.knobs)
        self.workloads.entitle("what to train", self.workloads.cut)
        self.start.entitle(f"{workload.name} starts with", self.start.untold)
        self.runs.entitle("recent runs", self.runs.untold)
        self.query_one("#command", Static).update(self._command())
        at_runs = self.runs.has_focus
        asks = not at_runs and not workload.argument
        types = self.start.has_focus and bool(self.start.chosen and self.start.chosen.read)
        self.keys.keys = (
            Key("enter", "enter", "replay" if at_runs else "name it" if asks else "start", bool(self.words) or asks),
            Key("tab", "tab", _AFTER.get(type(self.focused), "workloads")),
            Key("right", "< >", "turn it", enabled=self.start.has_focus, rank=1),
            Key("e", "e", "type it", enabled=types, rank=3),
            Key("r", "r", "runs", chosen=at_runs, rank=2),
            Key("d", "d", "doctor"),
            Key("q", "q", "leave"),
        )

    def _command(self) -> Content:
        if self.start.trouble and not self.runs.has_focus:
            return row((self.start.trouble, "$text-error"))
        return row(f"tfwatch {shlex.join(self.words)}" if self.words else "")

    @on(Choices.Entered)
    def _entered(self) -> None:
        if self.words:
            self._take(self.words)
        elif not self.runs.has_focus and not self.workloads.chosen.argument:
            question = "A Python file with model() and dataset(knobs):"
            self.app.push_screen(AskScreen(question, self._offer.own), self._add)

    def _add(self, own: Trainable | None) -> None:
        if own:
            known = [one for one in self.workloads.workloads[:-1] if one.argument != own.argument]
            self.workloads.workloads = (*known, own, _OWN)
            self.workloads.styles.height = len(known) + 4
            self.workloads.cursor = len(known)
            self._show_choice()

    @on(StartPane.Typing)
    def _type(self, message: StartPane.Typing) -> None:
        ask_value(self.app, self.start, message.knob)

    def action_runs(self) -> None:
        """Give the runs the keys."""
        self.runs.focus()

    def action_knobs(self) -> None:
        """Give the knobs the keys."""
        self.start.focus()

    def action_workloads(self) -> None:
        """Give the workloads the keys."""
        self.workloads.focus()

    def action_doctor(self) -> None:
        """Show the check-up."""
        from tfwatch.screens.doctor import DoctorScreen

        look, unicode = self._offer.look, self._glyphs.unicode
        doctor = DoctorScreen(look, gently=False, colour=self._colour, unicode=unicode)

        def left(_: None) -> None:
            if doctor.found:
                self.header.machine = doctor.found.machine

        self.app.push_screen(doctor, left)


_AFTER: dict[type[object], str] = {WorkloadsPane: "knobs", StartPane: "runs", PastRunsPane: "workloads"}


class LauncherApp(ThemedApp):
    """Shows the launcher. options: those of `ThemedApp`.

    Attributes:
        words: of the command line that was chosen; empty where the user left.
    """

    def __init__(self, offer: Offer, **options: Any) -> None:
        super().__init__(**options)
        self.words: tuple[str, ...] = ()
        self._launcher = LauncherScreen(offer, self._take, colour=self._colour, unicode=self._unicode)

    def on_mount(self) -> None:
        self.push_screen(self._launcher)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._launcher.begin()
        self.tell_painted()

    def _take(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.exit_with(Leave.LEFT)
