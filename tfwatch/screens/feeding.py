"""What the live screen's panes are handed in a frame, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.foretelling import last_words
from tfwatch.live.schedule import Slot, second_of
from tfwatch.screens import views
from tfwatch.screens.happenings import Happenings
from tfwatch.screens.inside import pipeline_view
from tfwatch.screens.readings import readings
from tfwatch.screens.readings import title as machine_title

if TYPE_CHECKING:
    from tfwatch.live.view import RunView
    from tfwatch.widgets.card import CardPane
    from tfwatch.widgets.happened import HappeningsPane
    from tfwatch.widgets.header import RunHeader
    from tfwatch.widgets.knobs import KnobsPane
    from tfwatch.widgets.logtail import LogPane
    from tfwatch.widgets.machine import MachinePane
    from tfwatch.widgets.pipeline import PipelinePane

_HINT = "no switch yet: p turns prefetch on or off\na tries both in turn, and proves which is faster"


@dataclass(frozen=True, eq=False)
class Panes:
    """The widgets of a live screen that a frame fills."""

    header: RunHeader
    knobs: KnobsPane
    card: CardPane
    pipeline: PipelinePane
    happened: HappeningsPane
    machine: MachinePane
    log: LogPane


class Feeder:
    """Feeds the panes of one screen; one that is hidden is not fed.

    A new pane gets its line here. Figures that change all the time are told once a second, in a frame of their own
    (`Slot`), and words only where they differ: see `widgets/painted.py` for what a frame may cost.
    """

    def __init__(self, panes: Panes) -> None:
        self._panes = panes
        self._happenings = Happenings()
        self._told: tuple[object, ...] = ()
        self._headed: tuple[object, ...] = ()
        self._machined: tuple[object, ...] = ()
        self._staged: tuple[object, ...] = ()

    def feed(self, view: RunView, live: bool) -> None:
        """Hand every pane what is new; live: keys are obeyed."""
        self._feed_figures(view)
        panes = self._panes
        if panes.pipeline.display:
            self._feed_stages(view)
        if panes.knobs.display:
            panes.knobs.knobs = views.knob_rows(view, live)
            panes.knobs.entitle(views.knobs_title(view, live), last_words(view.situation.record))
        if panes.card.display:
            panes.card.comparisons = view.comparisons
            panes.card.experiment = views.newest_experiment(view)
            panes.card.underway = view.situation.experiment
            panes.card.flight = views.newest_flight(view)
            none_yet = _HINT if live else "no switch in this run yet"
            panes.card.hint = "no switch in this run" if view.is_over else none_yet
        if panes.happened.display:
            self._feed_happenings(view)
        if panes.log.display:
            panes.log.lines = views.log_lines(view)

    def feed_happenings(self, view: RunView) -> None:
        """Hand on what happened, now."""
        self._panes.happened.happenings = self._happenings.take(view)

    def _feed_figures(self, view: RunView) -> None:
        """Once a second: four times nobody can read them."""
        panes, now_s, header = self._panes, view.snapshot.now_s, views.header_view(view)
        head = second_of(now_s, Slot.HEADER), view.snapshot.life, header.workload, header.epoch, header.state
        if head != self._headed:
            self._headed = head
            panes.header.view = header
        over = view.energy if view.is_over else None
        machine = second_of(now_s, Slot.MACHINE), view.is_over, over, len(view.snapshot.samples) > 0
        if panes.machine.display and machine != self._machined:
            self._machined = machine
            panes.machine.entitle(machine_title(view))
            panes.machine.readings = readings(view)

    def _feed_stages(self, view: RunView) -> None:
        now = view.situation
        staged = second_of(now.now_s, Slot.SEARCH), view.snapshot.life, now.stages, now.located
        if staged != self._staged:
            self._staged = staged
            self._panes.pipeline.view = pipeline_view(view)

    def _feed_happenings(self, view: RunView) -> None:
        waiting = tuple(state.asked for state in view.knobs.values())
        told = (
            len(view.snapshot.events),
            len(view.stalls),
            len(view.compiles),
            len(view.said),
            view.patterns,
            view.comparisons,
            waiting,
        )
        if told != self._told:
            self._told = told
            self.feed_happenings(view)
