"""The end of an epoch that no single callback explains.

Remedy: do less at the end of an epoch, or make epochs longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Advice, Finding
from tfwatch.judge.findings.first_batch import advise_longer_epochs, per_epoch

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation


def find(now: Situation) -> Finding | None:
    """Find the time at the ends of epochs."""
    regime, epochs = now.regime, max(now.regime.epochs, 1)
    end_s = regime.typical_s("epoch_end_s")
    if not end_s:
        return None
    place = next((one.place for one in regime.code_in("EPOCH_END") if one.place), "")
    brief = f"an epoch's end takes {units.duration(end_s / epochs)} {per_epoch(now)}"
    at = f"at {place}" if place else ""
    if now.has_own_loop:
        less = f"do less {at}, between" if place else "do less between"
        advice = Advice(f"{less} two epochs of the loop, or longer epochs")
    else:
        longer = advise_longer_epochs(now)
        advice = Advice(f"do less {at or 'in on_epoch_end'}, or {longer.sentence}", longer.edit)
    return Finding(
        "epoch-end",
        now.label("BETWEEN EPOCHS", end_s),
        f"{brief}{f', most of it {at}' if place else ''}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=place,
        claims={"epoch_end_s": end_s},
    )
