"""What an experiment on a knob found, one frozen class a fact. `at_ns` counts from the run's clock origin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: Who asked for the switches of an experiment.
EXPERIMENT: Final = "experiment"
#: Why an experiment ends with its run: what it leaves was its last block's, and no answer.
WITH_THE_RUN: Final = ("stopped", "ended")


@dataclass(frozen=True, slots=True)
class ExperimentBegan:
    """Blocks of steps with one or another of `values` alternate from `step` on, in at most `budget` steps.

    knob, values: in words; the others are compared with the first value. seed: of the blocks' order.
    """

    at_ns: int
    knob: str
    values: list[str]
    step: int
    budget: int
    seed: int


@dataclass(frozen=True, slots=True)
class ExperimentBlock:
    """One block of an experiment is over.

    block, round: counted from 1; a round has one block of each value. first, last: its steps, from where it had
    settled. steps: of these, how many count; step_ms: their mean.
    best: what ratio, low and high are of, against the first value; the answer so far, as in `ExperimentEnded`.
    """

    at_ns: int
    block: int
    round: int
    value: str
    first: int
    last: int
    steps: int
    step_ms: float
    best: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ExperimentEnded:
    """An experiment is over, in the run's step `step`.

    cause: `clear`, `budget`, `cancelled`, `key` (somebody turned a knob), `stopped`, `ended` (the run) or `failed`.
    answer: `faster`, `slower`, `same` or `unclear`: what `value` is against `against`; ratio: step time of `against`
    over that of `value`, within low to high with 95 % confidence, None where it is not known.
    step_ms: mean step time by value. rounds, steps: that count, `steps` of all values together; spent: steps since its
    beginning. kept: what the knob was left at. reason: why it failed.
    """

    at_ns: int
    knob: str
    values: list[str]
    began: int
    step: int
    cause: str
    answer: str
    value: str
    against: str
    rounds: int
    steps: int
    spent: int
    kept: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    step_ms: dict[str, float] = field(default_factory=dict)
    reason: str = ""
