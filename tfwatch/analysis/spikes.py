"""Steps that are not like the others, each with its cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows


@dataclass(frozen=True, slots=True)
class Spike:
    """One step that stands out by `extra_ms` over the median step; `part` is `wait`, `compute` or `host`."""

    step: int
    start_ns: int
    extra_ms: float
    part: str
    cause: str


def find_spikes(rows: Rows) -> list[Spike]:
    """The steps that stand out. A cause comes from a step's flags; else it is `unexplained`."""
    raise NotImplementedError
