"""What starving cost a run: time, the examples that it would have trained on in that time, and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units

if TYPE_CHECKING:
    from tfwatch.analysis.energy import Energy
    from tfwatch.analysis.ledger import Entry

#: A smaller share of a run is not worth a sentence.
_WORTH_TELLING = 0.01


@dataclass(frozen=True, slots=True)
class Lost:
    """What data wait took of a run so far.

    waiting_s: seconds; run_s: the run's own length. examples: as many as were trained on in a second of compute and
    host, for `waiting_s` of them; energy_j: what the device drew meanwhile. None is unknown.
    """

    waiting_s: float
    run_s: float
    examples: float | None = None
    energy_j: float | None = None

    @property
    def share(self) -> float:
        """Of the run, 0 to 1."""
        return self.waiting_s / self.run_s if self.run_s > 0 else 0.0

    @property
    def is_worth_telling(self) -> bool:
        """Whether it is a hundredth of the run."""
        return self.share >= _WORTH_TELLING

    @property
    def without_s(self) -> float:
        """What the run would have taken at best: compute, host and all that is no step stay, whatever feeds them.

        It is reached where batches are made beside the steps, on cores that these leave free.
        """
        return max(self.run_s - self.waiting_s, 0.0)


def lost(total: Entry, run_s: float, examples: int | None, energy: Energy | None) -> Lost:
    """What a run lost. total: its ledger. examples: that it was trained on, None where nobody knows."""
    worked_s = total.compute_s + total.host_s
    known = examples is not None and examples > 0 and worked_s > 0
    return Lost(
        total.waiting_s,
        run_s,
        total.waiting_s * examples / worked_s if known and examples else None,
        energy.starving_j if energy else None,
    )


def words(found: Lost, what: str = "images") -> str:
    """`fed, it takes 3 h 8 min at best, or 312 000 images more in its time`; empty below a hundredth of the run."""
    if not found.is_worth_telling:
        return ""
    more = found.examples is not None and round(found.examples) > 0
    instead = f", or {units.count(round(found.examples or 0))} {what} more in its time" if more else ""
    return f"{at_best(found)}{instead}"


def at_best(found: Lost) -> str:
    """`fed, it takes 3 h 8 min at best`; empty below a hundredth of the run."""
    return f"fed, it takes {units.seconds(found.without_s)} at best" if found.is_worth_telling else ""
