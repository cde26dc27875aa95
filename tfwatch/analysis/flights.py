"""The autopilot in words, and what of a run is its own: the same for the screen, a summary and a line of progress."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.analysis.comparing import speed, turned
from tfwatch.core import units
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.moves import AUTOPILOT, AutopilotBegan, AutopilotEnded, MoveJudged, MoveMade

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The events of a flight.
OF_FLIGHTS = (AutopilotBegan, MoveMade, MoveJudged, AutopilotEnded)


@dataclass(frozen=True, slots=True)
class Flight:
    """One time that the autopilot was on. made: its newest move.

    moves: all that were judged, oldest first. ended: None while it goes on.
    """

    began: AutopilotBegan
    made: MoveMade | None = None
    moves: tuple[MoveJudged, ...] = ()
    ended: AutopilotEnded | None = None

    @property
    def before_ms(self) -> float | None:
        """The step as it began; None before a move was judged."""
        told = self.ended.before_ms if self.ended else None
        return self.moves[0].before_ms if told is None and self.moves else told

    @property
    def after_ms(self) -> float | None:
        """The step with what it has kept so far; None before a move was judged."""
        if self.ended and self.ended.after_ms is not None:
            return self.ended.after_ms
        kept = [move.after_ms for move in self.moves if move.kept and move.after_ms is not None]
        return kept[-1] if kept else self.before_ms

    @property
    def progress(self) -> str:
        """`move 3: workers off > 8, forecast 9.1 ms; prefetch off > 4 was kept: 23.4 to 13.9 ms`."""
        return "; ".join(self.parts)

    @property
    def parts(self) -> list[str]:
        """What goes on, and what came of the move before."""
        if self.made is None:
            return ["measuring the present setting"]
        judged = self.moves[-1] if self.moves else None
        waits = judged is None or (self.made.at_ns >= judged.at_ns and not self.made.undoes)
        told = [f"move {len(self.moves) + 1}: {move_words(self.made)}"] if waits else []
        return [*told, judged_words(judged)] if judged else told


def flights(events: Iterable[object]) -> list[Flight]:
    """Every flight of a run, oldest first; other events are passed over."""
    found: list[Flight] = []
    for event in events:
        if isinstance(event, AutopilotBegan):
            found.append(Flight(event))
        elif found and isinstance(event, MoveMade):
            found[-1] = replace(found[-1], made=event)
        elif found and isinstance(event, MoveJudged):
            found[-1] = replace(found[-1], moves=(*found[-1].moves, event))
        elif found and isinstance(event, AutopilotEnded):
            found[-1] = replace(found[-1], ended=event)
    return found


def flying(events: Iterable[object]) -> Flight | None:
    """The flight that goes on; None where none does."""
    newest = next(iter(reversed(flights(events))), None)
    return newest if newest and newest.ended is None else None


def undecided(events: Iterable[object]) -> MoveMade | None:
    """The move that is in effect at the end of a run's events though it was not kept: the run ended first."""
    newest: MoveMade | None = None
    in_effect: MoveMade | None = None
    for event in events:
        if isinstance(event, MoveMade):
            newest = event
        elif isinstance(event, PipelineSwitched) and event.by == AUTOPILOT:
            in_effect = newest if newest and not newest.undoes else None
        elif in_effect and _decides(event, in_effect):
            in_effect = None
    return in_effect


def _decides(event: object, made: MoveMade) -> bool:
    """Whether a move stands from then on, or somebody else has turned its knob."""
    if isinstance(event, PipelineSwitched):
        return event.knob == made.knob
    return isinstance(event, MoveJudged) and event.kept


def move_words(made: MoveMade) -> str:
    """`workers off > 8, forecast 9.1 ms`."""
    forecast = f", forecast {units.milliseconds(made.forecast_ms)}" if made.forecast_ms is not None else ""
    return f"{made.change.words()}{_beside(made)}{forecast}"


def judged_words(judged: MoveJudged) -> str:
    """`prefetch off > 4 kept: 23.4 to 13.9 ms`, `workers off > 8 undone: 13.9 to 14.0 ms, no gain beyond noise`."""
    what = f"{judged.change.words()}{_beside(judged)}"
    did, why = "kept" if judged.kept else "undone", judged.reason and f", {judged.reason}"
    if judged.after_ms is None:
        return f"{what} {did}{why}"
    return f"{what} {did}: {' to '.join(units.together(judged.before_ms, judged.after_ms))}{why}"


def _beside(move: MoveMade | MoveJudged) -> str:
    return f" with {turned(move.beside)}" if move.beside else ""


def move_line(judged: MoveJudged) -> str:
    """`prefetch off > 4 kept: 23.4 to 13.9 ms, forecast 13.8`: with what was foretold of it."""
    known = judged.after_ms is not None and judged.forecast_ms is not None
    return judged_words(judged) + (f", forecast {units.number(judged.forecast_ms)}" if known else "")


def gave(flight: Flight) -> str:
    """`autopilot: 1.68 x faster, 2 of 3 moves kept`; of means, in its own steps.

    Where none was kept the settings are what they were, and so is what their steps differ by: `as it was`.
    """
    count = sum(move.kept for move in flight.moves)
    kept = f"{count} of {len(flight.moves)} moves kept"
    if not count:
        return f"autopilot: as it was, {kept}"
    before, after = flight.before_ms, flight.after_ms
    return f"autopilot: {speed(before / after)}, {kept}" if before and after else f"autopilot: {kept}"


def ended_words(ended: AutopilotEnded) -> str:
    """`autopilot: 23.4 to 9.1 ms a step, data wait 61 % to 1 %, in 180 steps;` and why it ended."""
    over = f"in {units.counted(ended.steps, 'step')}; {ended.reason}"
    if ended.before_ms is None or ended.after_ms is None:
        return f"autopilot: {over}"
    gave = f"{' to '.join(units.together(ended.before_ms, ended.after_ms))} a step"
    if ended.before_share is None or ended.after_share is None:
        return f"autopilot: {gave} {over}"
    waits = f"data wait {units.percent(ended.before_share)} to {units.percent(ended.after_share)}"
    return f"autopilot: {gave}, {waits}, {over}"
