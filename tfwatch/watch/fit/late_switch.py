"""A first switch far into an epoch: another iterator catches up while the training goes on as before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core import units

if TYPE_CHECKING:
    from tfwatch.core.knobs import Knobs
    from tfwatch.tfdata.replay import Replay


@dataclass(frozen=True, slots=True)
class LateSwitch:
    """A switch to `knobs` once a replay of the epoch's batches has caught up with the training."""

    replay: Replay
    knobs: Knobs


def waiting_note(batches: int) -> str:
    """Return the sentence that says why a switch does not take effect with the next batch."""
    return f"the switch takes effect once {units.count(batches)} batches of this epoch are read again"
