"""The live screen: what the run does, and the keys that change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Input, Static

from tfwatch.runs.library import jot
from tfwatch.screens import pane_views
from tfwatch.screens.footer import cost_note, footer_keys, help_now, too_small
from tfwatch.screens.keys import LIVE_BINDINGS, LOW, OF_PANES, TALL, Layout, layout_for, panes_shown
from tfwatch.screens.pane_views import Feeder, Panes
from tfwatch.screens.text_screens import HelpScreen, MissingScreen
from tfwatch.terminal.guard import short
from tfwatch.widgets.banner import FindingPane
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.basics.keyline import Key, KeyLine
from tfwatch.widgets.basics.pane import Kept, KeptContainer, KeptHorizontal, dress
from tfwatch.widgets.card import CardPane
from tfwatch.widgets.events import HappeningsPane
from tfwatch.widgets.header import RunHeader
from tfwatch.widgets.knobs import KnobsPane, undoes
from tfwatch.widgets.log import LogPane
from tfwatch.widgets.machine import MachinePane, missing
from tfwatch.widgets.pipeline import PipelinePane
from tfwatch.widgets.timeline.widget import Timeline

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import DescendantBlur

    from tfwatch.live.view import RunView
    from tfwatch.screens.footer import OwnCost
    from tfwatch.screens.switch_requests import Switchboard

_TABS = ("switch", "stages", "events", "machine", "log", "proof")
_PANES = ("#knobs", "#pipeline", "#happenings", "#machine", "#log", "#card")
#: What holds several, with the numbers of those.
_HOLDERS = (("#turning", {1, 6}), ("#upper", {1, 2, 6}), ("#lower", {3, 4, 5}))


class LiveScreen(Screen[None], Kept):
    """Shows a `RunView` a frame; asks through the switchboard.

    Attributes:
        pane: which of the six panes shows where there is room for one. stopping: a stop was asked for here.
    """

    CSS_PATH = "live.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*LIVE_BINDINGS]

    pane: reactive[int] = reactive(1)

    def __init__(self, switchboard: Switchboard, colour: bool, unicode: bool) -> None:
        super().__init__()
        # By name: a frame would look a dozen of them up by selector.
        self.header = RunHeader()
        self.finding = FindingPane()
        self.timeline = Timeline()
        self.knobs = KnobsPane(id="knobs")
        self.card = CardPane(id="card")
        self.pipeline = PipelinePane(id="pipeline")
        self.happened = HappeningsPane(id="happenings")
        self.machine = MachinePane(id="machine")
        self.log_pane = LogPane(id="log")
        self.keys = KeyLine(id="keys")
        self.word = Input(id="wanted", placeholder="show lines with ...", compact=True)
        self.view: RunView | None = None
        self.stopping = False
        self._switchboard = switchboard
        self._glyphs = choose_glyphs(colour, unicode)
        self._feeder = Feeder(
            Panes(self.header, self.knobs, self.card, self.pipeline, self.happened, self.machine, self.log_pane)
        )
        self._greeted = False
        self._own_cost: OwnCost | None = None

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.finding
        yield self.timeline
        yield KeyLine(id="tabs")
        with KeptContainer(id="panes"):
            with KeptHorizontal(id="upper"):
                yield self.pipeline
                with KeptContainer(id="turning"):
                    yield self.knobs
                    yield self.card
            with KeptHorizontal(id="lower"):
                yield self.happened
                yield self.log_pane
                yield self.machine
        yield self.word
        yield self.keys
        yield Static(id="too-small", markup=False)

    def on_mount(self) -> None:
        self.timeline.glyphs = self._glyphs
        dress(self, self._glyphs)
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    @property
    def is_shown(self) -> bool:
        """Whether its panes are there to be fed: not before the first paint, nor while the app closes."""
        return self.is_mounted and self.is_running and bool(self.children)

    @property
    def live(self) -> bool:
        """Whether keys are obeyed."""
        return self._switchboard.control is not None

    def show(self, view: RunView, own_cost: OwnCost | None) -> None:
        """Show a frame; a pane that is hidden is not fed."""
        self.view = view
        self._own_cost = own_cost
        if self.has_class(Layout.TOO_SMALL.value):
            self._show_state()
            return
        self.finding.finding = view.finding
        self.finding.note = help_now(view, self.live)
        self.timeline.split = view.situation.judgement.breakdown
        self.timeline.snapshot = view.snapshot
        self._feeder.feed(view, self.live)
        self.keys.keys = footer_keys(view, self.live, self.timeline.frozen, self.stopping)
        self.keys.note = cost_note(own_cost, self.size.width)

    def _show_state(self) -> None:
        text = too_small(self.view, *self.size)
        self.query_one("#too-small", Static).update(Content(text))

    def _arrange(self) -> None:
        layout = layout_for(self.app.size)
        for known in Layout:
            self.set_class(known is layout, known.value)
        bare = layout is Layout.TABS
        self.word.display = self.word.display and layout is not Layout.TOO_SMALL
        self.set_class(self.app.size.height < LOW, "-low")
        self.set_class(self.app.size.height >= TALL, "-tall")
        self.timeline.compact = bare
        for selector in _PANES:
            self.query_one(selector).set_class(bare, "-bare")
        self.query_one("#tabs", KeyLine).display = bare
        self._choose_pane()
        if self.view:
            self.show(self.view, self._own_cost)

    def _choose_pane(self) -> None:
        """Show the panes that fit, and mark the tab."""
        shown = panes_shown(layout_for(self.app.size), self.app.size.height, self.pane)
        for number, selector in enumerate(_PANES, 1):
            self.query_one(selector).display = number in shown
        for selector, numbers in _HOLDERS:
            self.query_one(selector).display = bool(shown & numbers)
        self.query_one("#tabs", KeyLine).keys = tuple(
            Key(str(at), str(at), word, chosen=at == self.pane) for at, word in enumerate(_TABS, 1)
        )

    # -- switching ----------------------------------------------------------------------------------

    def action_turn(self, knob: str) -> None:
        """Turn a knob off, or back on."""
        if self.view and not self._switchboard.is_held(knob):
            self._answer(self._switchboard.toggle(self.view, knob), undoes(knob))

    def action_deepen(self, direction: int) -> None:
        """Double the prefetch depth, or halve it where negative."""
        if self.view and not self._switchboard.is_held(f"depth {direction}"):
            self._answer(self._switchboard.deepen(self.view, direction), "u")

    def action_experiment(self) -> None:
        """Find out which setting of the chosen knob is faster, of prefetch where none is chosen; or end that."""
        if self.view and not self._switchboard.is_held("experiment"):
            chosen = self.knobs.chosen_key if self.knobs.has_focus else ""
            knob = pane_views.knob_of(chosen) or "prefetch"
            self.say(self._switchboard.experiment(self.view, knob, deeper=chosen == "plus"))

    def action_autopilot(self) -> None:
        """Have the device fed by itself; or end that."""
        if self.view and not self._switchboard.is_held("autopilot"):
            self.say(self._switchboard.autopilot(self.view))

    def action_undo(self) -> None:
        """Take the last switch back."""
        if self.view and not self._switchboard.is_held("undo"):
            self._answer(self._switchboard.undo(self.view), "u")

    def _answer(self, refusal: str, key: str) -> None:
        if refusal:
            self.say(refusal)
        elif not self._greeted:
            self._greeted = True
            self.say(f"{key} undoes, space freezes")

    def say(self, text: str) -> None:
        """A sentence in a corner, for a moment."""
        self.notify(text)

    # -- looking ------------------------------------------------------------------------------------

    async def action_timeline(self, action: str) -> None:
        """Do one of the timeline's actions, wherever the focus is."""
        await self.timeline.run_action(action)

    def action_step(self, rows: int) -> None:
        """Look at the event before the chosen one, or after it where negative."""
        if self.view:
            self._feeder.feed_happenings(self.view)
        if not self.happened.step(rows):
            self.say("nothing older has happened" if rows > 0 else "nothing newer has happened")

    def action_open(self) -> None:
        """Look at the chosen event; where none is, say what is missing."""
        if self.happened.cursor >= 0:
            self.happened.action_choose()
        elif self.view and missing(self.view):
            self.action_explain()
        else:
            self.say("nothing is chosen: [ and ] choose an event, 1 and the arrows a knob")

    @on(MachinePane.Explained)
    def action_explain(self) -> None:
        """Say why figures are missing, and how to get them."""
        if self.view:
            self.app.push_screen(MissingScreen(missing(self.view), self._glyphs.unicode))

    def action_pane(self, number: int) -> None:
        """Show a pane and give it the keys."""
        wanted = self.query_one(_PANES[number - 1])
        was_shown, self.pane = wanted.display, number
        self._arrange()
        if wanted.focusable:
            self.set_focus(wanted)  # now, not after the keys that came with this one
        elif was_shown:
            self.say("it is shown already, and has no keys of its own")

    def action_next_pane(self, places: int) -> None:
        """Show the next pane, or the one before; where all of them show, give it the keys."""
        if self.has_class(Layout.TABS.value):
            self.action_pane((self.pane - 1 + places) % len(_PANES) + 1)
        elif places > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_filter(self) -> None:
        """Ask for a word; the log shows only the lines that hold it."""
        self.action_pane(5)
        self.word.display = True
        self.word.focus()

    def action_back(self) -> None:
        """Leave the filter, or the pane that has the keys."""
        if self.word.display:
            self.word.value = ""
            self.word.display = False
        self.set_focus(None)

    async def action_copy(self) -> None:
        """Copy the lines that do what is advised, into a file too; while the training stops, leave now."""
        if self.stopping:
            await self.run_action("app.leave_now")
        elif self.view and (lines := self.view.finding.edit):
            self.app.copy_to_clipboard(lines)
            path = jot(self.view.snapshot.folder, lines)
            self.say(f"copied, and written to {short(path)}" if path else "copied")
        else:
            self.say("nothing to copy: what stands above has no lines to paste")

    def action_help(self) -> None:
        """Show every key."""
        self.app.push_screen(HelpScreen([*LIVE_BINDINGS, *OF_PANES], self._glyphs.unicode))

    def action_no_suspend(self) -> None:
        """Say why nothing happens."""
        why = "it would suspend the training too. q then d leaves without stopping it"
        self.say(f"ctrl+z is off: {why if self.live else 'q leaves'}")

    @on(HappeningsPane.Chosen)
    def look_there(self, message: HappeningsPane.Chosen) -> None:
        """Show the moment of an event."""
        self.timeline.jump_to(message.at_s)

    @on(Timeline.Frozen)
    def look_at_now(self, message: Timeline.Frozen) -> None:
        """Where the charts follow the run again, so does the list of what happened."""
        if message.at_s is None:
            self.happened.follow()

    @on(Timeline.Unmoved)
    def tell_unmoved(self, message: Timeline.Unmoved) -> None:
        """Say why a key of the charts does nothing."""
        self.say(message.why)

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        """Nobody moves in the list any more: what comes is to be seen, but beside a moment that is looked at."""
        if event.widget is self.happened and not self.timeline.frozen:
            self.happened.follow()

    @on(Input.Changed, "#wanted")
    def narrow(self, message: Input.Changed) -> None:
        """Filter as it is typed."""
        self.log_pane.wanted = message.value

    @on(Input.Submitted, "#wanted")
    def narrowed(self) -> None:
        """Keep the filter, and give the keys back."""
        self.word.display = False
        self.log_pane.focus()
