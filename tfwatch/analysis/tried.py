"""What was only being tried as a run ended: a setting that stands though nobody had decided on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.flights import undecided
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.moves import AUTOPILOT, MoveJudged, MoveMade
from tfwatch.core.trials import EXPERIMENT, WITH_THE_RUN, ExperimentBegan, ExperimentBlock, ExperimentEnded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The events that tell.
OF_TRYING = (PipelineSwitched, MoveMade, MoveJudged, ExperimentBegan, ExperimentBlock, ExperimentEnded)


@dataclass(frozen=True, slots=True)
class Tried:
    """The knobs that an experiment or the autopilot had in hand at the end of a run.

    decided: by knob, what the experiment left it at by its answer; without one what it stood at before.
    stretches: first and last step of each stretch with `decided`, oldest first. at_ns: the end of the last of them.
    """

    decided: Mapping[str, str]
    stretches: tuple[tuple[int, int], ...]
    at_ns: int


def tried(events: Iterable[object]) -> Tried | None:
    """What was being tried at the end of a run's events, of `OF_TRYING`; None where all was decided."""
    events = list(events)
    move = undecided(events)
    if move:
        return Tried(_before(move, events), ((1, move.step),), move.at_ns)
    experiment = _newest(events)
    return experiment.tried() if experiment else None


def blocks_like_the_last(events: Iterable[object]) -> tuple[tuple[int, int], ...]:
    """First and last step of the earlier stretches of the newest A/B test with the setting that the run ended with.

    Empty where no A/B test made the last switch. events: of `OF_TRYING`.
    """
    experiment = _newest(events)
    return experiment.like_the_last() if experiment and experiment.switches else ()


def _before(move: MoveMade, events: list[object]) -> dict[str, str]:
    """What the knobs stood at that a move has turned, but those that somebody else has turned since."""
    switched = [event for event in events[events.index(move) :] if isinstance(event, PipelineSwitched)]
    newest = {one.knob: one for one in switched}.values()
    its_own = [one for one in newest if one.by == AUTOPILOT and one.change in move.beside]
    return {move.knob: move.old} | {one.knob: one.old for one in its_own}


@dataclass(slots=True)
class _Experiment:
    began: ExperimentBegan
    blocks: list[ExperimentBlock]
    switches: list[PipelineSwitched]
    ended: ExperimentEnded | None = None

    def tried(self) -> Tried | None:
        """None where no switch was made, or the last one was to what was decided."""
        if not self.switches:
            return None
        before, now = self.switches[0].old, self.switches[-1].new
        left = self.ended.kept if self.ended and self.ended.cause not in WITH_THE_RUN else before
        decided = left if any(block.value == left for block in self.blocks) else before
        if decided == now or not left:
            return None
        seen = [block for block in self.blocks if block.value == decided]
        at_ns = seen[-1].at_ns if seen else self.began.at_ns
        return Tried({self.began.knob: decided}, self._stretches(decided), at_ns)

    def like_the_last(self) -> tuple[tuple[int, int], ...]:
        """The stretches with the value of the last switch that end before it."""
        last = self.switches[-1]
        return tuple(stretch for stretch in self._stretches(last.new) if stretch[1] < last.step)

    def _stretches(self, value: str) -> tuple[tuple[int, int], ...]:
        """First and last step of each stretch with a value of the knob, also of the one before the test."""
        stood = [(1, self.began.step)] if value == self.switches[0].old else []
        return (*stood, *((block.first, block.last) for block in self.blocks if block.value == value))


def _newest(events: Iterable[object]) -> _Experiment | None:
    """The newest experiment; None where a switch was made since that was not its own."""
    found: _Experiment | None = None
    for event in events:
        if isinstance(event, ExperimentBegan):
            found = _Experiment(event, [], [])
        elif found and isinstance(event, PipelineSwitched):
            found.switches.append(event)
            found = found if event.by == EXPERIMENT else None
        elif found and isinstance(event, ExperimentBlock):
            found.blocks.append(event)
        elif found and isinstance(event, ExperimentEnded):
            found.ended = event
    return found
