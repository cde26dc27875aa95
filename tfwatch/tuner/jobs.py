"""The jobs that a tuner can be asked to do with a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Experiment:
    """An A/B test: find the faster of two values of a knob."""

    knob: str
    #: The second is compared with the first.
    values: tuple[str, str]
    #: The most steps that it takes; None: no limit.
    steps: int | None = None
    #: Of the random order of the blocks.
    seed: int = 0
    #: The training ends with the test.
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Autopilot:
    """Find the best values of all knobs."""

    #: The limit for buffers; None: a share of the machine's free memory.
    memory_bytes: float | None = None


TunerJob: TypeAlias = Experiment | Autopilot
