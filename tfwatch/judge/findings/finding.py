"""A finding: one loss of a run with its cause, its seconds and its remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.forecasts.forecast import Forecast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.core.knobs import Knob

#: Arguments, of `compile`, of a map and of `fit`, that a finding can name as its remedy.
STEPS_PER_EXECUTION, JIT_COMPILE, RUN_EAGERLY, PARALLEL_CALLS, KEEPS_ITERATOR = (
    "steps_per_execution",
    "jit_compile",
    "run_eagerly",
    "num_parallel_calls",
    "steps_per_epoch",
)
#: The kind of what happens at a moment, which is no loss.
MOMENT = "moment"
#: The begin of a regime by its cause, where that is not the run's.
SINCE = {"switch": "since the last switch", "cache": "since the cache is filled"}
_NOTHING: Mapping[str, float] = MappingProxyType({})
_FIGURE = re.compile(r"[\d.]+")


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
    none. arguments: those of this module that it names. is_live: it is done while the training
    runs, without a key."""

    sentence: str
    edit: str = ""
    arguments: tuple[str, ...] = ()
    is_live: bool = False


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
    #: Those of this module that the advice names.
    arguments: tuple[str, ...] = field(default=(), kw_only=True)
    #: The loss with its figures, with which `sentence` begins; empty where that has no cause.
    brief: str = ""
    #: On the banner in place of the loss: the machine, a loss that is NaN, the outcome of the run.
    remark: str = ""
    #: The place of the cause: a line of the user's file, a stage, a callback.
    where: str = ""
    #: Of a loss the seconds of each part of the time breakdown, set by `ranking`.
    evidence: tuple[Fact, ...] = ()
    #: What the seconds of a part of compute rest on, e.g. its share of a profile; empty for others.
    basis: str = ""
    #: Of the advised switch; of a remedy with a `basis`, which `ranking` makes; else None.
    forecast: Forecast | RemedyForecast | None = None
    #: Seconds that the remedy gives back, by the part of the time breakdown that they come from;
    #: `ranking` lets no other finding claim them too.
    claims: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    #: Seconds that the remedy costs once, e.g. for compiling.
    once_s: float = 0.0
    #: The sum of `claims` as far as no finding before has claimed them, less `once_s`; set by
    #: `ranking`.
    lost_s: float = 0.0
    #: `lost_s` over the wall clock time of the present regime, 0 to 1; set by `ranking`.
    share: float = 0.0
    #: The begin of these seconds, of `SINCE`; empty for the whole run; set by `ranking`.
    since: str = ""

    @property
    def loss(self) -> str:
        """`21.4 s avoidable: each step waits 9.6 of 23.4 ms for data, since the last switch`; a
        narrow row cuts the end."""
        lost = f"{units.seconds(self.lost_s)} avoidable: " if self.lost_s else ""
        since = f", {self.since}" if self.since else ""
        return f"{lost}{self.brief or self.sentence}{since}"

    @property
    def cause(self) -> str:
        """The part of the sentence after the loss; else the place."""
        after = self.sentence.rpartition(self.brief)[2] if self.brief else self.sentence
        return after.lstrip(":;, ") or self.where

    @property
    def cause_words(self) -> str:
        """The cause without its figures."""
        return _FIGURE.sub("", self.cause)

    @property
    def remedy(self) -> tuple[object, ...]:
        """The advice without its figures; of a switch the knob, its value and how sure it is."""
        switch = self.forecast
        if isinstance(switch, Forecast):
            return switch.knob, switch.value, switch.is_sure
        return (_FIGURE.sub("", self.advice),)

    def advises(self, knob: Knob) -> bool:
        """Return whether it advises a knob: by its forecast, or by the keys that begin the advice,
        as in `w and m, from the next epoch: ...`."""
        if isinstance(self.forecast, Forecast):
            return self.forecast.knob == knob.name
        return knob.key in self.advice.partition(",")[0].split(" and ")

    @property
    def identity(self) -> tuple[object, ...]:
        """A key that leaves out the figures: a reader acts on the rest."""
        return self.kind, self.cause_words, *self.remedy

    def retracts(self, before: Finding) -> bool:
        """Return whether it advises the same switch as one before, which is no longer sure."""
        now, then = self.forecast, before.forecast
        if not isinstance(now, Forecast) or not isinstance(then, Forecast):
            return False
        return (now.knob, now.value) == (then.knob, then.value) and not now.is_sure
