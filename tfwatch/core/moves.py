"""What the autopilot did, one frozen class a fact. `at_ns` counts from the run's clock origin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tfwatch.core.knobs import ChangesKnob, KnobChange

#: Who asked for the switches of a flight.
AUTOPILOT: Final = "autopilot"


@dataclass(frozen=True, slots=True)
class AutopilotBegan:
    """Somebody asked for the fastest setting. memory_bytes: what the buffers may take on top of what is used."""

    at_ns: int
    step: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class MoveMade(ChangesKnob):
    """The autopilot asked for a setting; undoes: it takes back the move before.

    forecast_ms: the step time expected of it, within low_ms to high_ms nine times of ten; None where none could be
    told. why: one sentence. beside: what is turned at the same time.
    """

    at_ns: int
    step: int
    knob: str
    old: str
    new: str
    why: str
    forecast_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    undoes: bool = False
    beside: tuple[KnobChange, ...] = ()


@dataclass(frozen=True, slots=True)
class MoveJudged(ChangesKnob):
    """What a move gave: means of the steady steps before it and after it, `steps` of them after it.

    kept: the run goes on with it. reason: why not, or what else it was kept for; empty where what was measured says it
    beyond noise. beside: as in `MoveMade`.
    """

    at_ns: int
    step: int
    knob: str
    old: str
    new: str
    before_ms: float
    after_ms: float | None
    steps: int
    kept: bool
    reason: str = ""
    forecast_ms: float | None = None
    beside: tuple[KnobChange, ...] = ()


@dataclass(frozen=True, slots=True)
class AutopilotEnded:
    """The autopilot ended after `steps` steps of the run.

    cause: `fed`, `floor`, `tried`, `user`, `over`, `budget` or `failed`; reason: the same in a sentence.
    before_ms, after_ms: mean step time as it began and ended; before_share, after_share: data wait in it, 0 to 1.
    None where too few steps were seen. knobs: what it leaves. peak_bytes: the most that the process took on top of
    what it had as the autopilot began.
    """

    at_ns: int
    step: int
    cause: str
    reason: str
    steps: int
    before_ms: float | None = None
    after_ms: float | None = None
    before_share: float | None = None
    after_share: float | None = None
    peak_bytes: float | None = None
    knobs: dict[str, str] = field(default_factory=dict)
