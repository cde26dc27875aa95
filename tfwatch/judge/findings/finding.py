"""A finding: one loss of a run with its cause, its seconds and its remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.judge.forecasts.forecast import Forecast

#: Arguments of `compile` that a finding can name as its remedy.
STEPS_PER_EXECUTION, JIT_COMPILE, RUN_EAGERLY = (
    "steps_per_execution",
    "jit_compile",
    "run_eagerly",
)
_NOTHING: Mapping[str, float] = MappingProxyType({})


class Tone(Enum):
    """The tone of a finding, which sets its colour."""

    CALM = "calm"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice: a sentence with its number, and lines of Python that follow it; empty where there are
    none. arguments: those of `compile` that it names."""

    sentence: str
    edit: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure of the evidence."""

    name: str
    value: float | str
    #: Empty for words.
    unit: str = ""


@dataclass(frozen=True, slots=True)
class RemedyForecast:
    """The forecast of the mean step with a remedy in the script, milliseconds."""

    now_ms: float
    step_ms: float
    #: What it rests on.
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: a loss, or what happens at this moment. A kind of loss is a module of this
    package, and `ranking` puts them in order."""

    #: Stable between versions.
    kind: str
    #: A loss has its share of the time in it: `Situation.label`.
    word: str
    sentence: str
    #: Empty where there is nothing to do.
    advice: str = ""
    #: Lines of Python for the user's own code.
    code: str = ""
    tone: Tone = Tone.WARN
    #: Those of `compile` that the advice names.
    arguments: tuple[str, ...] = field(default=(), kw_only=True)
    #: A shorter sentence with the same figures for a narrow row; empty where `sentence` is short.
    brief: str = ""
    #: Beside it on the banner: the machine, a loss that is NaN, the outcome of the run.
    remark: str = ""
    #: The place of the cause: a line of the user's file, a stage, a callback.
    where: str = ""
    evidence: tuple[Fact, ...] = ()
    #: What the seconds of a part of compute rest on, e.g. its share of a profile; empty for others.
    basis: str = ""
    #: Of the advised switch; of a remedy with a `basis`, which `ranking` makes; else None.
    forecast: Forecast | RemedyForecast | None = None
    #: Seconds that the remedy gives back, by the part of the time breakdown that they come from;
    #: `ranking` lets no other finding claim them too.
    claims: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    #: Their sum as far as no finding before has claimed them; set by `ranking`.
    lost_s: float = 0.0
    #: `lost_s` over the wall clock time of the present regime, 0 to 1; set by `ranking`.
    share: float = 0.0
