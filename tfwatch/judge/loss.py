"""The stretches of a run in which the loss was NaN or infinite, and their text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.core.events import LossDiverged, LossRecovered

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Divergence:
    """A stretch of steps whose loss is NaN or infinite; `ended` is None while it lasts."""

    began: LossDiverged
    ended: LossRecovered | None = None


def divergences(events: Iterable[object]) -> list[Divergence]:
    """Return all divergences of a run, oldest first."""
    divergences_so_far: list[Divergence] = []
    for event in events:
        if isinstance(event, LossDiverged):
            divergences_so_far.append(Divergence(event))
        elif isinstance(event, LossRecovered) and divergences_so_far:
            divergences_so_far[-1] = Divergence(divergences_so_far[-1].began, event)
    return divergences_so_far


def current_divergence(events: Iterable[object]) -> LossDiverged | None:
    """Return the divergence that lasts; None where the loss is finite."""
    all_divergences = divergences(events)
    return (
        all_divergences[-1].began if all_divergences and all_divergences[-1].ended is None else None
    )


def divergence_text(began: LossDiverged) -> str:
    """Return `loss is NaN since step 151`."""
    return f"loss is {began.loss} since {_which(began)}"


def recovery_text(ended: LossRecovered) -> str:
    """Return `loss is finite again, from step 400 on`."""
    return f"loss is finite again, from step {units.count(ended.step)} on"


def divergences_text(divergent: list[Divergence]) -> str:
    """Return all divergences of a run in one line; empty where the loss was always finite."""
    if not divergent:
        return ""
    last = divergent[-1]
    before = f" ({len(divergent)} times NaN or infinite)" if len(divergent) > 1 else ""
    if last.ended is None:
        return divergence_text(last.began) + before
    until = f"finite again from step {units.count(last.ended.step)} on"
    return f"loss was {last.began.loss} from {_which(last.began)} on, {until}{before}"


def _which(began: LossDiverged) -> str:
    first = began.finite_step + 1
    if first >= began.step:
        return f"step {units.count(began.step)}"
    return f"one of the steps {units.count(first)} to {units.count(began.step)}"
