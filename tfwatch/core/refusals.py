"""Why a knob is not turned: the reasons as values, and their words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tfwatch.core import units
from tfwatch.core.knobs import CACHE_SHARE


class Refusal(Enum):
    """A reason that holds whatever the value asked for; its value is what people read."""

    RUN_IS_OVER = "the run is over"
    RUN_IS_ENDING = "the run is ending"
    READ_ONLY = "read only: switched where it trains"
    FIXED = "fixed in this run's own pipeline"
    NO_SUCH_KNOB = "not a knob of this run"
    ONE_FORM = "its pipeline has one form"
    NOTHING_TO_CACHE = "its examples lie in memory, or tfwatch cannot tell what in its pipeline is random"
    OWN_SHUFFLE = "it shuffles by itself, or not at all"
    NO_FILES = "it reads no files while it trains"
    NO_LATENCY = "not simulated in this run: start it with --storage-latency MS"
    NOT_OURS = "the pipeline is the script's own: only prefetch can be added to it"
    SPREAD = "batches are spread over several devices"
    NOT_SPLIT = "the steps of this fit are not split: its batches are fetched by the model's own train function"
    ON_DEVICE = (
        "the script's pipeline hands its batches out on the device (prefetch_to_device): nothing can be put behind it"
    )

    @property
    def words(self) -> str:
        """The reason in words."""
        return self.value


#: The reason why a pipeline lacks a knob.
LACKING = {
    "fast_form": Refusal.ONE_FORM,
    "cache": Refusal.NOTHING_TO_CACHE,
    "shuffle": Refusal.OWN_SHUFFLE,
    "latency_ms": Refusal.NO_FILES,
}


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A cache of the whole data set takes more than its share of the memory that is free."""

    needs_bytes: float
    free_bytes: float

    @property
    def words(self) -> str:
        """`needs 4.1 GB, 6.2 GB are free`."""
        return f"needs {units.memory(self.needs_bytes)}, {units.memory(self.free_bytes)} are free"


def no_room(needs_bytes: float | None, free_bytes: float | None) -> NoRoom | None:
    """The refusal of a cache; None where it may be had, also where either figure is unknown."""
    if needs_bytes is None or free_bytes is None or needs_bytes <= CACHE_SHARE * free_bytes:
        return None
    return NoRoom(needs_bytes, free_bytes)
