"""The end of an epoch that no single callback explains.

Remedy: do less at the end of an epoch, or make epochs longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Advice, Finding
from tfwatch.judge.findings.first_batch import advise_longer_epochs

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation


def find(now: Situation) -> Finding | None:
    """Find the time at the ends of epochs."""
    regime = now.regime
    spent = regime.spent
    end_s = regime.typical_s("epoch_end_s")
    if not end_s:
        return None
    each = units.duration(end_s / max(regime.epochs, 1))
    steps = units.counted(round(spent.steps / max(regime.epochs, 1)), "step")
    place = next((one.place for one in regime.code_in("EPOCH_END") if one.place), "")
    brief = f"an epoch's end takes {each} per epoch of {steps}"
    advice = _advise(now, place)
    return Finding(
        "epoch-end",
        now.label("BETWEEN EPOCHS", end_s),
        f"{brief}{f', most of it at {place}' if place else ''}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=place,
        claims={"epoch_end_s": end_s},
    )


def _advise(now: Situation, place: str) -> Advice:
    if now.has_own_loop:
        where = f"at {place}, " if place else ""
        return Advice(f"do less {where}between two epochs of the loop, or longer epochs")
    where = f"at {place}" if place else "in on_epoch_end"
    longer = advise_longer_epochs(now)
    return Advice(f"do less {where}, or {longer.sentence}", longer.edit)
