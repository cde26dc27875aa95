"""The live screen: the panes of a run, and the keys that change it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on, work
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from tfwatch.core import units
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import StopRefused
from tfwatch.core.knobs import KNOBS
from tfwatch.judge.profile.profiling import IN_COMPUTE
from tfwatch.runs.folder import DiskCall, LateCall
from tfwatch.runs.library import save_copy
from tfwatch.screens.keyline import Key, KeyLine
from tfwatch.screens.keys import (
    EVENTS,
    LIVE_BINDINGS,
    LOWER,
    PANE_BINDINGS,
    SETTINGS,
    STAGES,
    SWITCH,
    Layout,
    footer_keys,
    layout_for,
    panes_shown,
    toggle_action,
    too_small_text,
)
from tfwatch.screens.live.curves import CurvesPane
from tfwatch.screens.live.header import BannerPane, RunHeader, silent_disk
from tfwatch.screens.live.knobs import KnobsPane
from tfwatch.screens.live.lists import EventsPane, LogPane
from tfwatch.screens.live.machine import MachinePane, missing
from tfwatch.screens.live.pipeline import PipelinePane
from tfwatch.screens.live.step import StepPane
from tfwatch.screens.live.timeline.widget import Timeline
from tfwatch.screens.overlays import PatchScreen, consent_question, help_screen
from tfwatch.screens.text import shorten

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tfwatch.core.clock import Clock
    from tfwatch.fix.patch import Patch
    from tfwatch.judge.view import Follower, RunView
    from tfwatch.runs.run import Run
    from tfwatch.screens.live.switch_requests import SwitchRequests
    from tfwatch.screens.overlays import Leave

_T = TypeVar("_T")
#: Seconds between two looks for the end of work on a disk.
_LOOK_S = 0.02
#: Cells of a copied line in the note about it.
_COPIED_CELLS = 90
_TABS = ("switch", "stages", "events", "machine", "log", "loss")
#: A frame that takes this CPU time takes a tenth of its quarter second: as many of the next frames
#: are skipped as it is times as costly. The first frames build the screen.
_COSTLY_NS, _MOST_SKIPPED, _WARM_UP = 25e6, 3, 4


class LiveScreen(Screen[None]):
    """Follows a run and shows one `RunView` per frame; sends requests to the training.

    Args:
        framed: called with the view of each frame. is_fine: a cell may show two colours, split at
            an eighth, and the dots of braille.

    Attributes:
        pane: the number of the pane that the user chose; 0 before any choice. lower: that of the
        lower pane in a large window. view: that of the newest frame.
        stopping: the user asked to stop.
    """

    CSS_PATH = "live.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*LIVE_BINDINGS]

    def __init__(
        self,
        reader: Run,
        follower: Follower,
        switch_requests: SwitchRequests,
        framed: Callable[[RunView], None],
        is_fine: bool,
        clock: Clock,
    ) -> None:
        super().__init__()
        self.pane, self.lower = 0, EVENTS
        self._shows_all_settings = False
        #: The step by layer has the place of the pipeline; None: where compute is the limit.
        self._shows_step: bool | None = None
        self.follower = follower
        self._reader, self._clock = reader, clock
        self._framed = framed
        self._frames = self._skip = self._cpu_ns = 0
        self._copies: LateCall[Path | None] = LateCall(clock=clock)
        self._stopping_s: float | None = None
        # Attributes: a frame would have to query a dozen widgets by selector.
        self.header = RunHeader()
        self.banner = BannerPane()
        self.timeline = Timeline(is_fine)
        self.knobs = KnobsPane(id="knobs")
        self.pipeline = PipelinePane(id="pipeline")
        self.step_pane = StepPane(id="step")
        self.events_pane = EventsPane(id="events")
        self.machine = MachinePane(id="machine")
        self.log_pane = LogPane(id="log")
        self.curves = CurvesPane(is_fine, id="curves")
        #: In the order of their numbers.
        self.panes = (
            *(self.knobs, self.pipeline, self.events_pane),
            *(self.machine, self.log_pane, self.curves),
        )
        self.keys, self.tabs = KeyLine(id="keys"), KeyLine(id="tabs")
        self.view: RunView | None = None
        self.stopping = False
        self._switch_requests = switch_requests
        self._has_steps = False

    def compose(self) -> ComposeResult:
        self._set_size_classes()
        yield self.header
        yield self.banner
        yield self.timeline
        yield self.tabs
        with Container(id="panes"):
            with Horizontal(id="upper"):
                yield self.pipeline
                yield self.step_pane
                yield self.knobs
            with Container(id="lower"):
                yield self.events_pane
                yield self.log_pane
                yield self.curves
                yield self.machine
        yield self.keys
        yield Static(id="too-small", markup=False)

    def on_mount(self) -> None:
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    @property
    def live(self) -> bool:
        """True where keys reach the training."""
        return self._switch_requests.requests is not None

    def frame(self) -> None:
        """Read the run's new data and draw it; skip frames while they cost too much CPU."""
        # From the first paint on, until the app closes.
        is_shown = self.is_mounted and self.is_running and self.children
        if self._skip or not is_shown:
            self._skip = max(self._skip - 1, 0)
            return
        view = self._read()
        if view is None:
            return
        self._show_messages(view)
        self._switch_requests.ask_profile_by_itself(view)
        self._measure_frame()
        if view.is_over:
            self.stopping = False
        self.show(view)
        self._framed(view)

    def _measure_frame(self) -> None:
        before, self._cpu_ns = self._cpu_ns, self._clock.thread_ns() + self._reader.cpu_ns
        self._frames += 1
        if self._frames > _WARM_UP:
            self._skip = min(_MOST_SKIPPED, int((self._cpu_ns - before) / _COSTLY_NS))

    def _read(self) -> RunView | None:
        """Read and judge the run; None, with a finding about the disk, where that does not
        respond."""
        follow, asks = self.follower.follow, self._switch_requests.asks
        view = self._reader.in_time(lambda: follow(self._reader.read(), asks, self._stopping_s))
        if view is None:
            self.banner.banner = silent_disk(self._reader.disk) or self.banner.banner
        return view

    def take_place_of(self, before: LiveScreen) -> None:
        """Show the same panes as the screen of an earlier run."""
        self.pane, self.lower, self._has_steps = before.pane, before.lower, True
        self._shows_all_settings = before._shows_all_settings

    def _show_messages(self, view: RunView) -> None:
        for message in self._switch_requests.take_messages(view):
            self.notify(message)
        if offer := self._switch_requests.offer_kept(view):
            self.notify(offer)
        refused, asked_s = view.snapshot.events.newest(StopRefused), self._stopping_s
        if refused and asked_s is not None and refused.at_ns / 1e9 >= asked_s:
            self._switch_requests.stop_failed()
            self.stopping, self._stopping_s = False, None
            self.notify(f"not stopped: {refused.reason}")

    def stop(self) -> None:
        """Ask the training to stop at the next batch."""
        self._switch_requests.stop()
        self.stopping = True
        if self._stopping_s is None and self.view:
            self._stopping_s = self.view.snapshot.now_s

    def show(self, view: RunView) -> None:
        """Show a frame; hidden panes are not updated."""
        self.view = view
        if self.has_class(Layout.TOO_SMALL.value):
            text = Content(too_small_text(view, *self.size))
            self.query_one("#too-small", Static).update(text)
            return
        has_steps = self._has_steps or view.is_over or bool(view.snapshot.steps_total)
        if has_steps != self._has_steps or self._is_step_shown != self.step_pane.display:
            self._has_steps = has_steps
            self._choose_panes()
        self.banner.banner = view.finding
        self.timeline.show(view, self.events_pane.take(view))
        self.header.show(view)
        for pane in self.panes:
            if pane.display:
                pane.show(view)
        if self.step_pane.display:
            self.step_pane.show(view)
        if not (self.timeline.frozen or self.events_pane.has_focus):
            self.events_pane.follow()
        # A dialog over it has keys of its own.
        self.keys.keys = self._footer_keys(view) if self.is_active else ()

    def _footer_keys(self, view: RunView) -> tuple[Key, ...]:
        return footer_keys(
            view,
            self.live,
            self.timeline.frozen,
            self.stopping,
            focus=next((n for n, pane in enumerate(self.panes, 1) if pane.has_focus), 0),
            all_settings=not self.knobs.folded,
        )

    def _arrange(self) -> None:
        self._set_size_classes()
        self.tabs.display = layout_for(self.app.size) is Layout.TABS
        self._choose_panes()
        if self.view:
            self.show(self.view)

    @property
    def _is_step_shown(self) -> bool:
        if self._shows_step is not None or self.view is None:
            return bool(self._shows_step)
        limit = self.view.losses[0].kind if self.view.losses else ""
        return self.view.situation.profile is not None and limit in IN_COMPUTE

    def _set_size_classes(self) -> None:
        """Set the classes of the window's size, at once: each change restyles the screen and all of
        its panes."""
        layout = layout_for(self.app.size)
        for pane in (*self.panes, self.step_pane):
            pane.set_class(layout is Layout.TABS, "-bare", update=False)
        self.update_classes({known.value: known is layout for known in Layout})

    def _choose_panes(self) -> None:
        shown = panes_shown(self.app.size, self.pane, self.lower, self._has_steps)
        self.set_class(not self._has_steps, "-starting")
        for number, pane in enumerate(self.panes, 1):
            pane.display = number in shown
        is_roomy = layout_for(self.app.size) is Layout.PANES
        self.knobs.folded = is_roomy and not self._shows_all_settings
        self.events_pane.folded = is_roomy and self.pane != EVENTS
        self.step_pane.folded = is_roomy and not self._shows_step
        self.step_pane.display = self._is_step_shown and STAGES in shown
        self.pipeline.display = not self._is_step_shown and STAGES in shown
        self.query_one("#upper").display = bool(shown & {SETTINGS, STAGES})
        self.query_one("#lower").display = bool(shown & {*LOWER})
        self.tabs.keys = tuple(
            Key(str(at), str(at), word, chosen=at == min(shown)) for at, word in enumerate(_TABS, 1)
        )

    # -- switching ---------------------------------------------------------------------------------

    def action_ask(self, request: str, *given: str | int) -> None:
        """Send a request, a method of `SwitchRequests`, once for a held-down key; show its
        message."""
        if self.view is None or self._switch_requests.is_held(f"{request} {given}"):
            return
        if request == "toggle" and self._switch_requests.needs_consent(self.view, str(given[0])):
            self._ask_for_consent(self.view, str(given[0]))
            return
        ask: Callable[..., str] = getattr(self._switch_requests, request)
        if message := ask(self.view, *given):
            self.notify(message)

    def _ask_for_consent(self, view: RunView, knob: str) -> None:

        def answered(answer: Leave | None) -> None:
            if answer is not None and self.view is not None and not self.view.is_over:
                self._switch_requests.toggle(self.view, knob, random_draws=True)

        self.app.push_screen(consent_question(view.snapshot.manifest.random_maps), answered)

    def action_explain(self) -> None:
        """Show all of the step by layer in the place of the pipeline; ask for a profile where there
        is none yet, and for another one where it is shown."""
        if self.view is None or self._switch_requests.is_held("explain"):
            return
        is_shown = self._is_step_shown and not self.step_pane.folded
        if is_shown or self.view.situation.profile is None:
            self.notify(self._switch_requests.ask_profile(self.view))
        self._shows_step = True
        self.pane = STAGES if self.pane or self.has_class(Layout.TABS.value) else 0
        self._arrange()

    # -- viewing -----------------------------------------------------------------------------------

    async def action_timeline(self, action: str) -> None:
        """Run one of the timeline's actions, wherever the focus is."""
        await self.timeline.run_action(action)

    def action_pane(self, number: int) -> None:
        """Show a pane and focus it; in a large window the settings show all, or only those that
        matter."""
        if number == SETTINGS:
            self._shows_all_settings = not self._shows_all_settings
        self.pane = number
        self._shows_step = False if number == STAGES else self._shows_step
        self.lower = number if number in LOWER else self.lower
        self._arrange()
        pane = self.panes[number - 1]
        # Now: the next key may already be in the queue.
        self.set_focus(pane if pane.can_focus else None)

    def action_back(self) -> None:
        """Leave the focused pane."""
        self.pane = self.pane if self.has_class(Layout.TABS.value) else 0
        self.set_focus(None)
        self._arrange()

    async def action_copy(self) -> None:
        """Show and copy the patch of the proved settings, else copy the code suggestion or that of
        the settings, into a file too; while the training stops, quit now."""
        if self.stopping:
            await self.run_action("app.leave_now")
        elif self.view:
            self._copy(self.view)

    @work(exclusive=True)
    async def _copy(self, view: RunView) -> None:
        from tfwatch.fix.live import patch_of_settings
        from tfwatch.fix.user_file import NoPatchError

        why = ""
        try:
            if patch := await self._late(lambda: patch_of_settings(view.situation)):
                self._show_patch(view, patch)
                return
        except NoPatchError as error:
            why = f"{error}; "
        if view.code:
            notes = view.code.strip().split("\n")
            lines = [line for line in notes if line[:1] != "#"] or notes
            first = shorten(lines[0].partition("  #")[0].strip(), _COPIED_CELLS)
            more = f" and {units.counted(len(lines) - 1, 'more line')}" if lines[1:] else ""
            self._copy_text(view, view.code, f"{first}{more}", why)
        else:
            self.notify(f"{why}nothing to copy: no code suggestion, and no setting is on")

    def _show_patch(self, view: RunView, patch: Patch) -> None:
        diff = patch.diff.decode(errors="replace")
        names = ", ".join(one.file.name for one in patch.files)
        self.app.push_screen(PatchScreen(diff, names, lambda: self._write_patch(patch, names)))
        self._copy_text(view, diff, f"the patch of {names}", name="copied.diff")

    @work(exclusive=True)
    async def _write_patch(self, patch: Patch, names: str) -> None:
        try:
            await self._late(patch.write)
        except BadInputError as error:
            self.notify(str(error), severity="error")
        else:
            self.notify(f"written: {names}; the next run begins with it")

    async def _late(self, task: Callable[[], _T]) -> _T:
        """Return the result of a task on a disk, which takes no time of the keys.

        Raises what the task raises.
        """
        call = DiskCall(task, self._clock)
        while not call.wait(0):
            await asyncio.sleep(_LOOK_S)
        return call.answer()

    def _copy_text(
        self, view: RunView, text: str, what: str, why: str = "", name: str = "copied.py"
    ) -> None:
        self.app.copy_to_clipboard(text)
        folder = view.snapshot.folder
        # None where the disk takes it not at once, or not at all.
        path = self._copies.ask(lambda: save_copy(folder, text, name))
        also = f"; also in the run folder's {path.name}" if path else ""
        self.notify(f"{why}copied: {what}{also}")

    def action_help(self) -> None:
        """Show the keys that have an effect in this run, and the figures that it lacks."""
        knobs = self.view.snapshot.manifest.knobs if self.view else {}
        absent = {toggle_action(name) for name in KNOBS if name not in knobs}
        is_over = self.view is not None and self.view.is_over
        keys = [
            key
            for key in (*LIVE_BINDINGS, *PANE_BINDINGS)
            if key.action not in absent and (key.group is not SWITCH or (self.live and not is_over))
        ]
        lacks = missing(self.view) if self.view else []
        self.app.push_screen(help_screen(keys, lacks, self.size.width))

    @on(EventsPane.Chosen)
    def show_event_moment(self, message: EventsPane.Chosen) -> None:
        """Show the moment of an event in the charts, and the whole of a sentence that its row
        cuts."""
        self.timeline.jump_to(message.at_s)
        if message.cut_text:
            self.notify(message.cut_text)
