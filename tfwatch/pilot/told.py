"""The autopilot's moves as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.moves import MoveJudged, MoveMade

if TYPE_CHECKING:
    from tfwatch.analysis.gain import Measured
    from tfwatch.analysis.moving import Move
    from tfwatch.pilot.driver import Driver


def tell_made(driver: Driver, move: Move, *, undoes: bool = False) -> None:
    """A move is asked for; undoes: it takes back the one before."""
    forecast = move.forecast if move.forecast and move.forecast.is_known else None
    driver.tell(
        MoveMade(
            driver.now_ns(),
            driver.snapshot.steps_total,
            move.knob,
            move.old,
            move.new,
            move.why,
            forecast.step_ms if forecast else None,
            forecast.low_ms if forecast else None,
            forecast.high_ms if forecast else None,
            undoes,
            move.beside,
        )
    )


def tell_judged(driver: Driver, move: Move, before: Measured, after: Measured | None, kept: bool, reason: str) -> None:
    """A move is kept, or it is not, and why not. after: None where too few steps were seen."""
    forecast = move.forecast if move.forecast and move.forecast.is_known else None
    driver.tell(
        MoveJudged(
            driver.now_ns(),
            driver.snapshot.steps_total,
            move.knob,
            move.old,
            move.new,
            before.step_ms,
            after.step_ms if after else None,
            after.steps if after else 0,
            kept,
            reason,
            forecast.step_ms if forecast else None,
            move.beside,
        )
    )
