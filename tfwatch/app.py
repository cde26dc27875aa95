"""The Textual apps: of a run, with one frame timer, its screens' life, and how it is left; of a check-up alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import App, SystemCommand

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.live.judged_run import EndedFinding
from tfwatch.live.view import Follower
from tfwatch.screens import pane_views
from tfwatch.screens.doctor import DoctorScreen
from tfwatch.screens.footer import Meter
from tfwatch.screens.keys import LIVE_BINDINGS
from tfwatch.screens.leave import Leave, LeaveScreen, Question, StopScreen
from tfwatch.screens.live import LiveScreen
from tfwatch.screens.restart import RestartScreen
from tfwatch.screens.switch_requests import Switchboard
from tfwatch.screens.themes import ThemedApp
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.basics.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.screen import Screen

    from tfwatch.analysis.tuning.comparison import Earlier
    from tfwatch.core.start_knobs import Restarting
    from tfwatch.doctor.check import CheckUp
    from tfwatch.live.view import RunView
    from tfwatch.runs.control import Control
    from tfwatch.runs.reader import RunReader
    from tfwatch.screens.doctor import Look

__all__ = ["FRAME_S", "DoctorApp", "Leave", "TfwatchApp"]

FRAME_S = 0.25
#: Why a run is not restarted here.
_NO_RESTART, _RECORD = "read only: restart it where it trains", "a record: tfwatch train begins a new run"
_ENDING = "the run is ending already; y does not wait for the batch in flight"
#: Keys that only make sense as keys, and leaving, which has a name of its own.
_NOT_BY_NAME = ("colon", "escape", "enter", "ctrl+z", "q")
#: The terminal keeps its title on a stack of its own, and takes it back.
_KEEP_TITLE = "\x1b[22;0t"
_TITLE_BACK = "\x1b[23;0t"


class TfwatchApp(ThemedApp):
    """Shows a run. `run()` returns how it was left, None where it was ended from outside.

    Args:
        reader: the run. control: obeyed by its training; None where the run can only be looked at.
        look: the check-up that `d` shows; None where there is none.
        restart: what `r` offers; None where the run cannot be restarted here. earlier: the run before a restart.
        options: those of `ThemedApp`.
    """

    def __init__(
        self,
        reader: RunReader,
        control: Control | None,
        *,
        clock: Clock = SYSTEM,
        look: Look | None = None,
        restart: Restarting | None = None,
        earlier: Earlier | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._restart = restart
        self._reader = reader
        self._switchboard = Switchboard(control, clock)
        self._follower = Follower(reader.steps_between, control is not None, earlier, EndedFinding(reader.whole))
        self._meter = Meter(clock)
        self._live = LiveScreen(self._switchboard, self._colour, self._unicode)
        self._look = look
        self._view: RunView | None = None
        self._stopping_s: float | None = None
        self._leaving = False
        self._seen_running = False
        self._titled = False

    # -- frames -------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.push_screen(self._live)
        self.set_interval(FRAME_S, self.frame)
        self.call_after_refresh(self._first_frame)

    def _first_frame(self) -> None:
        self.frame()
        self.call_after_refresh(self.tell_painted)

    def frame(self) -> None:
        """Read what is new and show it; less often while frames cost too much, or more than a full machine has."""
        if not self._live.is_shown or self._meter.skips():
            return
        view = self._follower.follow(self._reader.tail(), self._switchboard.asks, self._stopping_s)
        self._view = view
        self._meter.frame(view.snapshot)
        self._live.show(view, self._meter.cost)
        self._retitle(pane_views.title(view))
        self._notice_end(view)

    def _notice_end(self, view: RunView) -> None:
        if not view.is_over:
            self._seen_running = True
            return
        if self._seen_running:
            self._seen_running = False
            self.bell()
        self._live.stopping = False
        if self._leaving:
            self.exit_with(Leave.STOP)

    def _retitle(self, title: str) -> None:
        if title == self.title:
            return
        first, self._titled = not self._titled, True
        # Nothing on the screen shows it: set as usual, it would have all of it drawn again.
        self.set_reactive(App.title, title)
        self._tell_terminal(f"{_KEEP_TITLE if first else ''}\x1b]2;{plain(title)}\x07")

    def _tell_terminal(self, sequence: str) -> None:
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)

    # -- leaving ------------------------------------------------------------------------------------

    def exit_with(self, leave: Leave) -> None:
        """Leave without asking; for a signal's handler on the event loop."""
        if self._titled:
            self._tell_terminal(_TITLE_BACK)
        self.exit(leave)

    async def action_quit(self) -> None:
        """Ask how to leave, where there is something to decide."""
        if isinstance(self.screen, Question):
            return
        if self._is_over() or self._switchboard.control is None:
            self.exit_with(Leave.LEFT)
        else:
            self.push_screen(LeaveScreen(), self._answered)

    def action_ask_stop(self) -> None:
        """Ask whether to stop the training."""
        if self._is_over() or self._switchboard.control is None:
            self._live.say(
                "nothing to stop: the run is over" if self._is_over() else "read only: stop it where it trains"
            )
        elif self._live.stopping:
            self._live.say(_ENDING)
        else:
            self.push_screen(StopScreen(), self._stop)

    def action_ask_restart(self) -> None:
        """Ask with which start knobs the training is to begin again."""
        if self._restart is None:
            self._live.say(_RECORD if self._is_over() else _NO_RESTART)
        elif self._leaving:
            self._live.say(_ENDING)
        else:
            how = "it begins at once" if self._is_over() else "the run ends at the next batch, and begins again"
            screen = RestartScreen(self._restart.knobs(), how, choose_glyphs(self._colour, self._unicode))
            self.push_screen(screen, self._begin_again)

    def _begin_again(self, words: tuple[str, ...] | None) -> None:
        if words is None or self._restart is None:
            return
        self._restart.take(words)
        if self._is_over():
            self.exit_with(Leave.LEFT)
        else:
            self._leaving = True
            self._stop(Leave.STOP)
            self._live.say("it begins again once the batch in flight has ended; y does not wait for that")

    def action_leave_now(self) -> None:
        """Leave in the middle of a batch."""
        self.exit_with(Leave.NOW)

    def action_doctor(self) -> None:
        """Show the check-up, which spares a training that goes on."""
        if self._look is None:
            self._live.say("not here: run tfwatch doctor")
        else:
            colour = self._colour
            self.push_screen(DoctorScreen(self._look, gently=not self._is_over(), colour=colour, unicode=self._unicode))

    def _answered(self, leave: Leave | None) -> None:
        if leave is not None and self._restart:
            self._restart.take(None)
        if leave is Leave.DETACH:
            self.exit_with(leave)
        elif leave is not None:
            self._leaving = True
            self._stop(leave)

    def _stop(self, leave: Leave | None) -> None:
        if leave is None:
            return
        self._switchboard.stop()
        self._live.stopping = True
        if self._stopping_s is None and self._view:
            self._stopping_s = self._view.snapshot.now_s

    def _is_over(self) -> bool:
        return self._view is not None and self._view.is_over

    # -- palette and theme ----------------------------------------------------------------------------

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: all that keys do, and the themes."""
        for binding in LIVE_BINDINGS:
            key = binding.key.partition(",")[0]
            if key not in _NOT_BY_NAME:
                yield SystemCommand(binding.tooltip, f"key {binding.key_display}", partial(self.simulate_key, key))
        yield from self.theme_commands()
        yield SystemCommand("Quit", "leave; asks while training runs", self.action_quit)


class DoctorApp(ThemedApp):
    """Shows a check-up by itself. options: those of `ThemedApp`."""

    TITLE = "tfwatch doctor"

    def __init__(self, look: Look, **options: Any) -> None:
        super().__init__(**options)
        self._checkup = DoctorScreen(look, gently=False, colour=self._colour, unicode=self._unicode)

    def on_mount(self) -> None:
        self.push_screen(self._checkup)
        self.call_after_refresh(self.tell_painted)

    @property
    def found(self) -> CheckUp | None:
        """What was found last."""
        return self._checkup.found
